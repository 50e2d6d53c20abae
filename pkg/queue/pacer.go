package queue

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A fetchPacer stands between asynq and Redis where tasks are fetched: it lets
// the [poller] hold fetches from empty queues, and delays the answers of a Redis
// that refuses to hand out tasks. asynq fetches again at once after an error;
// without a pause that costs half a core for as long as, say, Redis is out of
// memory.
type fetchPacer struct {
	poller  *poller
	stopped <-chan struct{}

	mu    sync.Mutex
	pause map[string]time.Duration // by queue; none while all is well
}

const (
	pauseFirst = 50 * time.Millisecond
	pauseMost  = time.Second
)

func newFetchPacer(ctx context.Context, p *poller) *fetchPacer {
	return &fetchPacer{poller: p, stopped: ctx.Done(), pause: map[string]time.Duration{}}
}

// DialHook leaves dialing as it is.
func (p *fetchPacer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook leaves pipelines as they are: asynq fetches without one.
func (p *fetchPacer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook holds a fetch from an empty queue back, and the answer of one that
// failed, for a while that doubles each time. Once the server is to stop it
// fetches nothing.
func (p *fetchPacer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		queue, ok := fetched(cmd)
		if !ok {
			return next(ctx, cmd)
		}
		if !p.poller.await(queue) {
			cmd.SetErr(redis.Nil)
			return redis.Nil
		}
		err := next(ctx, cmd)
		p.poller.note(queue, errors.Is(err, redis.Nil), time.Now())
		p.hold(queue, err)
		return err
	}
}

// fetched recognizes asynq's dequeue script by its first two of four keys, and
// returns the first.
func fetched(cmd redis.Cmder) (queue string, ok bool) {
	args := cmd.Args()
	if len(args) < 5 || args[2] != 4 || cmd.Name() != "evalsha" && cmd.Name() != "eval" {
		return "", false
	}
	pending, _ := args[3].(string)
	paused, _ := args[4].(string)
	return pending, strings.HasSuffix(pending, ":pending") && strings.HasSuffix(paused, ":paused")
}

func (p *fetchPacer) hold(queue string, err error) {
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return // go-redis sends the script itself now
	}
	if err == nil || errors.Is(err, redis.Nil) {
		p.mu.Lock()
		delete(p.pause, queue)
		p.mu.Unlock()
		return
	}
	p.mu.Lock()
	pause := max(p.pause[queue], pauseFirst)
	p.pause[queue] = min(2*pause, pauseMost)
	p.mu.Unlock()
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.stopped:
	}
}
