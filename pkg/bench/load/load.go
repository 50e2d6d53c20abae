// Package load fires signed deliveries at an address and takes the times. It
// speaks as much HTTP/1.1 as that needs, over connections that stay open: an
// ordinary client would cost more than the servers that it measures.
//
// A closed loop sends the next delivery when the last is answered, and so finds
// the highest rate. An open loop sends at times that were drawn before, whether
// or not answers come, and takes the time from when a delivery was meant to be
// sent: a server that stalls is charged with every delivery that had to wait.
package load

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Load is what one run sends.
type Load struct {
	Addr  string   // host:port
	Paths []string // the connections take them in turn
	Maker *Maker
	Conns int     // at first; a closed loop has no more
	Most  int     // connections of an open loop, at most; 0: Conns
	Rate  float64 // deliveries per second of an open loop; 0: a closed loop

	// Deliveries before Warm count only as sent. Then For is measured; if it is
	// 0, until Count deliveries were answered.
	Warm, For time.Duration
	Count     int

	// Turn, if set, is called when the measured time begins (true) and when it
	// ends (false).
	Turn func(begins bool)
}

// A Result is what came of a run.
type Result struct {
	All    Counts // with those of the warm-up
	Counts        // of the measured time
	Took   time.Duration

	Acks      Latencies // of answers 2xx
	Refusals  Latencies // of answers 503
	Offered   float64   // per second, in an open loop: what was really sent
	Late      time.Duration
	CPU       time.Duration // of the generator, in the measured time
	FirstFail string        // of answers that count as Failed, the first
}

// Counts are of deliveries.
type Counts struct {
	New       int // accepted
	Duplicate int
	Refused   int // 503 with Retry-After
	Failed    int // any other answer
	Lost      int // no answer
}

// Answered is how many deliveries got a 2xx.
func (c Counts) Answered() int { return c.New + c.Duplicate }

func (c *Counts) add(o Counts) {
	c.New += o.New
	c.Duplicate += o.Duplicate
	c.Refused += o.Refused
	c.Failed += o.Failed
	c.Lost += o.Lost
}

// Rate is how many deliveries were answered 2xx in a second.
func (r Result) Rate() float64 { return float64(r.Answered()) / r.Took.Seconds() }

// Latencies are sorted.
type Latencies []time.Duration

// At returns the quantile q, or 0 if there are none.
func (l Latencies) At(q float64) time.Duration {
	if len(l) == 0 {
		return 0
	}
	return l[min(int(q*float64(len(l))), len(l)-1)]
}

// Max is the longest.
func (l Latencies) Max() time.Duration { return l.At(1) }

// The phases of a run.
const (
	warming int32 = iota
	measuring
	ending
)

// A run is a load while it is fired.
type run struct {
	Load
	portable bool // not the engine of Linux
	phase    atomic.Int32
	left     atomic.Int64 // deliveries to send, if they are counted

	mu        sync.Mutex
	all       []*conn
	firstFail string
}

// grace is how long answers are waited for after the end.
const grace = 5 * time.Second

// Fire sends the load, and returns when all is answered or given up.
//
// On Linux one thread does all of it by epoll, which costs a third of what a
// goroutine for each connection does; elsewhere those do it.
func Fire(ctx context.Context, l Load) (Result, error) {
	return fire(ctx, &run{Load: l})
}

func fire(ctx context.Context, r *run) (Result, error) {
	r.left.Store(int64(r.Count))
	if !r.portable {
		if res, err, ok := r.poll(ctx); ok {
			return res, err
		}
	}
	for range r.Conns {
		if _, err := r.dial(ctx); err != nil {
			return Result{}, err
		}
	}
	defer r.close()
	if r.Rate > 0 {
		return r.open(ctx)
	}
	return r.closed(ctx)
}

// closed sends on each connection as soon as it is free.
func (r *run) closed(ctx context.Context) (Result, error) {
	var wg sync.WaitGroup
	var began time.Time
	var cpu time.Duration
	if r.Warm == 0 {
		began, cpu = r.begin()
	}
	for _, c := range r.all {
		wg.Go(func() {
			for r.phase.Load() != ending && c.alive(ctx) {
				if r.Count > 0 && r.left.Add(-1) < 0 {
					return
				}
				c.send(time.Now())
				c.receive(r.phase.Load() == measuring)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	if r.Warm > 0 {
		wait(ctx, done, r.Warm)
		began, cpu = r.begin()
	}
	if r.For > 0 {
		wait(ctx, done, r.For)
	} else {
		wait(ctx, done, time.Hour)
	}
	took, used := r.end(began, cpu)
	wait(ctx, done, grace)
	r.close()
	<-done
	return r.result(took, used), ctx.Err()
}

func (r *run) begin() (time.Time, time.Duration) {
	if r.Turn != nil {
		r.Turn(true)
	}
	cpu := CPU()
	r.phase.Store(measuring)
	return time.Now(), cpu
}

func (r *run) end(began time.Time, cpu time.Duration) (took, used time.Duration) {
	took, used = time.Since(began), CPU()-cpu
	r.phase.Store(ending)
	if r.Turn != nil {
		r.Turn(false)
	}
	return took, used
}

func wait(ctx context.Context, done <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-done:
	case <-t.C:
	}
}

func (r *run) dial(ctx context.Context) (*conn, error) {
	nc, err := (&net.Dialer{Timeout: grace}).DialContext(ctx, "tcp", r.Addr)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	r.mu.Lock()
	c := newConn(r, nc, r.Paths[len(r.all)%len(r.Paths)])
	r.all = append(r.all, c)
	r.mu.Unlock()
	return c, nil
}

func (r *run) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.all {
		c.net.Load().Close()
	}
}

func (r *run) failed(answer string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstFail == "" {
		r.firstFail = answer
	}
}

func (r *run) result(took, cpu time.Duration) Result {
	res := Result{Took: took, CPU: cpu, FirstFail: r.firstFail}
	for _, c := range r.all {
		res.All.add(c.warm)
		res.All.add(c.counts)
		res.add(c.counts)
		res.Acks = append(res.Acks, c.accepted...)
		res.Refusals = append(res.Refusals, c.refused...)
	}
	slices.Sort(res.Acks)
	slices.Sort(res.Refusals)
	return res
}

// CPU is what this process has used so far.
func CPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
