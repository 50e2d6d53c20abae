package custody

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Sender sends for events that the inbox holds. No acknowledgement waits for
// it: the row is what that promises, and the sweeper sends for what is not sent.
type Sender struct {
	inbox Inbox
	room  func() bool
	redis *Breaker
	queue atomic.Pointer[Queue]

	mu sync.Mutex
	// waiting has a source while a batch of its events is under way: what comes
	// meanwhile goes together in the next one. One whose Redis node is away holds
	// up no other.
	waiting map[string][]webhook.Event
	flushes sync.WaitGroup
}

const (
	// sendShare bounds the sending of a batch.
	sendShare = 200 * time.Millisecond
	sendBatch = 128
	// sendPace is how long after one batch the next may begin, unless that one was
	// full: a few large ones cost both sides half as much as many small ones. The
	// worker looks each 50 ms.
	sendPace = 10 * time.Millisecond
	// sendLimit is how many of a source may wait: Redis may have to fork.
	sendLimit = 4096
)

// NewSender returns a sender, which tells inbox of what it cannot send.
// [Sender.Use] comes before the first event.
func NewSender(inbox Inbox, room func() bool, redis *Breaker) *Sender {
	return &Sender{inbox: inbox, room: room, redis: redis, waiting: map[string][]webhook.Event{}}
}

// Use has events sent to queue from now on.
func (s *Sender) Use(queue Queue) { s.queue.Store(&queue) }

// Wait returns when all is sent that was handed over before. Nothing may be
// handed over meanwhile.
func (s *Sender) Wait() { s.flushes.Wait() }

// send hands the event over, and does not wait for it.
func (s *Sender) send(ev webhook.Event) {
	ev.Body = nil // Postgres has it
	s.mu.Lock()
	waiting, busy := s.waiting[ev.Source]
	full := len(waiting) == sendLimit
	if !full {
		s.waiting[ev.Source] = append(waiting, ev)
	}
	s.mu.Unlock()
	switch {
	case full:
		s.inbox.Unsent(ev)
	case !busy:
		s.flushes.Go(func() { s.flush(ev.Source) })
	}
}

// flush sends what waits until nothing does.
func (s *Sender) flush(source string) {
	for {
		s.mu.Lock()
		waiting := s.waiting[source]
		n := min(len(waiting), sendBatch)
		batch := waiting[:n:n]
		s.waiting[source] = waiting[n:]
		if n == 0 {
			delete(s.waiting, source)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		next := time.Now().Add(sendPace)
		s.sendAll(batch)
		if n < sendBatch {
			time.Sleep(time.Until(next))
		}
	}
}

func (s *Sender) sendAll(batch []webhook.Event) {
	if !s.room() || s.redis.Open() {
		s.unsent(batch)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), sendShare)
	defer cancel()
	for i, err := range (*s.queue.Load()).EnqueueKeys(ctx, batch) {
		if s.redis.note(err); err != nil {
			s.unsent(batch[i : i+1])
		}
	}
}

func (s *Sender) unsent(batch []webhook.Event) {
	for _, ev := range batch {
		s.inbox.Unsent(ev)
	}
}
