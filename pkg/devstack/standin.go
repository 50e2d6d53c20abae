package devstack

import (
	"fmt"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// A standIn is a Redis inside this program, for a machine that has none.
type standIn struct {
	mini *miniredis.Miniredis
	quit chan struct{}
	wg   sync.WaitGroup
}

func startStandIn() (*standIn, error) {
	mini, err := miniredis.Run()
	if err != nil {
		return nil, fmt.Errorf("redis stand-in: %w", err)
	}
	in := &standIn{mini: mini, quit: make(chan struct{})}
	in.wg.Go(in.age)
	return in, nil
}

func (in *standIn) url() string { return "redis://" + in.mini.Addr() + "/0" }

// age lets keys expire, which they do not by themselves here.
func (in *standIn) age() {
	const step = 100 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			in.mini.FastForward(step)
		case <-in.quit:
			return
		}
	}
}

func (in *standIn) close() {
	close(in.quit)
	in.wg.Wait()
	in.mini.Close()
}
