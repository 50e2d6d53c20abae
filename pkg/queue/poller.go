package queue

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A poller lets idle servers sleep. asynq asks for a task again and again, by a
// script, for each queue; with many sources that costs more than the work. So
// the fetch from a queue that was empty is held back, and one pipeline asks for
// the lengths of all those queues at once.
type poller struct {
	rdb     redis.UniversalClient
	log     *slog.Logger
	stopped <-chan struct{}

	mu    sync.Mutex
	lists map[string]*polled // by the key of the list of pending tasks
}

// A polled list is one that a server fetches from.
type polled struct {
	empty  bool          // when it was last fetched from
	rested time.Time     // not polled before
	filled chan struct{} // closed when it has a task; nil while no fetch waits
}

const (
	pollEvery = 50 * time.Millisecond
	// holdMost bounds how long a fetch is held, should polling fail to see a task.
	holdMost = 5 * time.Second
	// restAfter is for a list that has tasks and gives none: its queue is paused.
	restAfter = time.Second
)

func newPoller(ctx context.Context, rdb redis.UniversalClient, log *slog.Logger) *poller {
	return &poller{rdb: rdb, log: log, stopped: ctx.Done(), lists: map[string]*polled{}}
}

// await holds a fetch back while its list is empty, and reports false if there
// must be none any more.
func (p *poller) await(list string) bool {
	p.mu.Lock()
	l := p.list(list)
	if !l.empty {
		p.mu.Unlock()
		return !p.ended()
	}
	filled := make(chan struct{})
	l.filled = filled
	p.mu.Unlock()
	most := time.NewTimer(holdMost)
	defer most.Stop()
	select {
	case <-filled:
	case <-most.C:
	case <-p.stopped:
	}
	return !p.ended()
}

func (p *poller) ended() bool {
	select {
	case <-p.stopped:
		return true
	default:
		return false
	}
}

// list returns what is known of one. The caller holds mu.
func (p *poller) list(name string) *polled {
	l := p.lists[name]
	if l == nil {
		l = new(polled)
		p.lists[name] = l
	}
	return l
}

// note learns from a fetch whether the list was empty.
func (p *poller) note(list string, empty bool, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.list(list)
	woken := l.empty && l.filled == nil
	if empty && woken {
		l.rested = now.Add(restAfter)
	}
	l.empty, l.filled = empty, nil
}

// run polls until its context, which is newPoller's, ends.
func (p *poller) run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := p.poll(ctx, p.waiting(now)); err != nil && ctx.Err() == nil {
				p.log.DebugContext(ctx, "queues not polled", "err", err)
			}
		}
	}
}

// waiting lists those that a fetch waits for.
func (p *poller) waiting(now time.Time) (lists []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, l := range p.lists {
		if l.filled != nil && !now.Before(l.rested) {
			lists = append(lists, name)
		}
	}
	slices.Sort(lists)
	return lists
}

func (p *poller) poll(ctx context.Context, lists []string) error {
	if len(lists) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	lengths := make([]*redis.IntCmd, len(lists))
	_, err := p.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, list := range lists {
			lengths[i] = pipe.LLen(ctx, list)
		}
		return nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, list := range lists {
		if l := p.lists[list]; l.filled != nil && lengths[i].Val() > 0 {
			close(l.filled)
			l.filled = nil
		}
	}
	return err
}
