package load

import (
	"context"
	"math/rand/v2"
	"runtime"
	"time"
)

// A pacer sends at the times of an open loop. It has a thread of its own, since
// the timers of the runtime are as late as a millisecond.
type pacer struct {
	*run
	idle    []*conn     // guarded by run.mu, as are the others
	due     []time.Time // deliveries that wait for a connection
	dialing int
	away    int // deliveries on their way
	begins  time.Time
	ends    time.Time

	sent int           // in the measured time
	late time.Duration // at most, though a connection was there
	over bool          // nothing more is sent
	free chan struct{} // closed when it is, and nothing is on its way any more
}

// open sends at times whose distances are drawn from an exponential
// distribution, as those of independent senders are.
func (r *run) open(ctx context.Context) (Result, error) {
	r.Most = max(r.Most, r.Conns)
	p := &pacer{run: r, free: make(chan struct{})}
	p.idle = append(p.idle, r.all...)
	began := time.Now()
	p.begins, p.ends = began.Add(r.Warm), began.Add(r.Warm+r.For)
	if r.For == 0 {
		p.ends = p.begins.Add(time.Duration(float64(r.Count) / r.Rate * float64(time.Second)))
	}
	finished := make(chan struct{})
	go func() { defer close(finished); p.pace(ctx) }()
	wait(ctx, finished, time.Until(p.begins))
	_, cpu := r.begin()
	wait(ctx, finished, time.Until(p.ends)+grace)
	_, used := r.end(began, cpu)
	<-finished
	wait(ctx, p.free, grace)
	p.drop()
	r.close()
	<-p.free
	res := r.result(p.ends.Sub(p.begins), used)
	res.Late, res.Offered = p.late, float64(p.sent)/p.ends.Sub(p.begins).Seconds()
	return res, ctx.Err()
}

func (p *pacer) pace(ctx context.Context) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rng := rand.New(rand.NewPCG(1, 2))
	next := time.Now()
	for next.Before(p.ends) && ctx.Err() == nil {
		if d := time.Until(next); d > 0 {
			sleep(d)
		}
		p.dispatch(ctx, next)
		next = next.Add(time.Duration(rng.ExpFloat64() / p.Rate * float64(time.Second)))
	}
	p.mu.Lock()
	p.over = true
	p.check()
	p.mu.Unlock()
}

// drop gives up the deliveries that got no connection.
func (p *pacer) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, meant := range p.due {
		if !meant.Before(p.begins) {
			p.sent--
		}
	}
	p.due = nil
}

// dispatch sends a delivery on a free connection, or leaves it to the next that
// gets free.
func (p *pacer) dispatch(ctx context.Context, meant time.Time) {
	p.mu.Lock()
	measured := !meant.Before(p.begins)
	if measured {
		p.sent++
	}
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.away++
		if measured {
			p.late = max(p.late, time.Since(meant))
		}
		p.mu.Unlock()
		c.send(meant)
		go p.serve(ctx, c)
		return
	}
	p.due = append(p.due, meant)
	more := len(p.all)+p.dialing < p.Most
	if more {
		p.dialing++
		p.away++
	}
	p.mu.Unlock()
	if more {
		go p.grow(ctx)
	}
}

func (p *pacer) grow(ctx context.Context) {
	c, err := p.dial(ctx)
	p.mu.Lock()
	p.dialing--
	if err != nil {
		p.done()
		p.mu.Unlock()
		return
	}
	p.mu.Unlock()
	p.proceed(ctx, c)
}

// serve waits for answers on c as long as there is something to send.
func (p *pacer) serve(ctx context.Context, c *conn) {
	c.receive(!c.meant.Before(p.begins))
	p.proceed(ctx, c)
}

// proceed sends what waits the longest, or gives c back.
func (p *pacer) proceed(ctx context.Context, c *conn) {
	for {
		if c.broken && p.phase.Load() != ending {
			c.alive(ctx)
		}
		p.mu.Lock()
		if len(p.due) == 0 {
			p.idle = append(p.idle, c)
			p.done()
			p.mu.Unlock()
			return
		}
		meant := p.due[0]
		p.due = p.due[1:]
		p.mu.Unlock()
		c.send(meant)
		c.receive(!meant.Before(p.begins))
	}
}

// done and check are called with the lock held.
func (p *pacer) done() {
	p.away--
	p.check()
}

func (p *pacer) check() {
	if p.away > 0 || !p.over {
		return
	}
	select {
	case <-p.free:
	default:
		close(p.free)
	}
}
