package custody_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/custody"
	"github.com/hookonce/hookonce/pkg/webhook"
)

var (
	errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	errNo      = errors.New("OOM command not allowed")
)

// A fakeStore answers as it is told and notes what it is asked.
type fakeStore struct {
	takes   time.Duration // until it answers, or its context ends
	receipt webhook.Receipt
	err     error

	sendTakes time.Duration
	sendErr   error

	mu     sync.Mutex
	calls  []string // what was asked, and how long it was allowed to take
	offers []webhook.Event
	unsent []webhook.Event
	sent   [][]webhook.Event // batches, whether or not it went well
}

func (s *fakeStore) Unsent(ev webhook.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsent = append(s.unsent, ev)
}

func (s *fakeStore) Offer(ev webhook.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offers = append(s.offers, ev)
}

func (s *fakeStore) ask(ctx context.Context, what string, takes time.Duration, err error) error {
	allowed := "for ever"
	if deadline, ok := ctx.Deadline(); ok {
		allowed = time.Until(deadline).String()
	}
	s.mu.Lock()
	s.calls = append(s.calls, what+" "+allowed)
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", webhook.ErrNotHeld, ctx.Err())
	}
	if err != nil {
		return fmt.Errorf("%w: %w", webhook.ErrNotHeld, err)
	}
	return nil
}

func (s *fakeStore) Enqueue(ctx context.Context, _ webhook.Event) (webhook.Receipt, error) {
	if err := s.ask(ctx, "enqueue", s.takes, s.err); err != nil {
		return webhook.Receipt{}, err
	}
	return s.receipt, nil
}

func (s *fakeStore) Insert(ctx context.Context, _ webhook.Event) (webhook.Receipt, error) {
	if err := s.ask(ctx, "insert", s.takes, s.err); err != nil {
		return webhook.Receipt{}, err
	}
	return s.receipt, nil
}

func (s *fakeStore) EnqueueKeys(ctx context.Context, events []webhook.Event) []error {
	err := s.ask(ctx, "send", s.sendTakes, s.sendErr)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, events)
	return slices.Repeat([]error{err}, len(events))
}

func (s *fakeStore) asked() string { return strings.Join(s.calls, ", ") }

// A rig is a keeper among fakes.
type rig struct {
	*custody.Keeper
	queue, inbox   *fakeStore
	room, fallback bool
	probe          func(context.Context) error // of both breakers
}

func newRig(mode custody.Mode) *rig {
	r := &rig{
		queue: &fakeStore{receipt: webhook.Receipt{Outcome: webhook.Accepted, Layer: "queue"}},
		inbox: &fakeStore{receipt: webhook.Receipt{Outcome: webhook.Accepted, Layer: "inbox"}},
		room:  true, fallback: true,
		probe: func(context.Context) error { return errRefused },
	}
	probe := func(ctx context.Context) error { return r.probe(ctx) }
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	r.Keeper = &custody.Keeper{
		Mode: mode, Queue: r.queue, Inbox: r.inbox,
		Room: func() bool { return r.room }, Fallback: func() bool { return r.fallback },
		Redis: custody.NewBreaker("redis", probe, log), Postgres: custody.NewBreaker("postgres", probe, log),
	}
	r.Sender = custody.NewSender(r.inbox, r.Room, r.Redis)
	r.Sender.Use(r.queue)
	return r
}

// open lets a store be refused, as an event of the past was.
func (r *rig) open(ctx context.Context, b *custody.Breaker) {
	s, mode, room := r.queue, custody.QueueFirst, r.room
	if b == r.Postgres {
		s, mode = r.inbox, custody.InboxFirst
	}
	k := *r.Keeper
	k.Mode, k.Room, k.Fallback = mode, func() bool { return true }, func() bool { return false }
	old := s.err
	s.err = errRefused
	k.Enqueue(ctx, webhook.Event{})
	r.Sender.Wait()
	s.err, r.room = old, room
	r.queue.calls, r.inbox.calls, r.inbox.unsent = nil, nil, nil
}

const deadline = 800 * time.Millisecond

func TestKeeper(t *testing.T) {
	t.Parallel()
	const q, i = custody.QueueFirst, custody.InboxFirst
	hangs := func(s *fakeStore) { s.takes = time.Hour }
	refuses := func(s *fakeStore) { s.err = errRefused }
	saysNo := func(s *fakeStore) { s.err = errNo }
	tests := []struct {
		name  string
		mode  custody.Mode
		spoil func(*rig)
		queue string // what it was asked, and for how long
		inbox string
		want  string // the layer of who holds it; "" for nobody
	}{
		{"queue first", q, func(*rig) {}, "enqueue 300ms", "", "queue"},
		{"inbox first", i, func(*rig) {}, "send 200ms", "insert 600ms", "inbox"},
		{"queue says no", q, func(r *rig) { saysNo(r.queue) }, "enqueue 300ms, send 200ms", "insert 800ms", "inbox"},
		{"inbox says no", i, func(r *rig) { saysNo(r.inbox) }, "enqueue 800ms", "insert 600ms", "queue"},
		{"queue refuses: its key is not sent", q, func(r *rig) { refuses(r.queue) }, "enqueue 300ms", "insert 800ms", "inbox"},
		{"inbox refuses", i, func(r *rig) { refuses(r.inbox) }, "enqueue 800ms", "insert 600ms", "queue"},
		{"queue late", q, func(r *rig) { hangs(r.queue) }, "enqueue 300ms, send 200ms", "insert 500ms", "inbox"},
		{"inbox late", i, func(r *rig) { hangs(r.inbox) }, "enqueue 200ms", "insert 600ms", "queue"},
		{"queue nearly late", q, func(r *rig) { r.queue.takes = 299 * time.Millisecond }, "enqueue 300ms", "", "queue"},
		{"queue open", q, func(r *rig) { r.open(context.Background(), r.Redis) }, "", "insert 800ms", "inbox"},
		{"queue open, inbox first", i, func(r *rig) { r.open(context.Background(), r.Redis) }, "", "insert 800ms", "inbox"},
		{"inbox open", i, func(r *rig) { r.open(context.Background(), r.Postgres) }, "enqueue 800ms", "", "queue"},
		{"inbox open, queue first", q, func(r *rig) { r.open(context.Background(), r.Postgres) }, "enqueue 800ms", "", "queue"},
		{"no room", q, func(r *rig) { r.room = false }, "", "insert 800ms", "inbox"},
		{"no room, inbox first", i, func(r *rig) { r.room = false }, "", "insert 800ms", "inbox"},
		{"no room, no inbox", q, func(r *rig) { r.room, r.Inbox = false, nil }, "", "", ""},
		{"no room, inbox refuses", q, func(r *rig) { r.room = false; refuses(r.inbox) }, "", "insert 800ms", ""},
		{"no room, inbox first and away", i, func(r *rig) { r.room = false; refuses(r.inbox) }, "", "insert 800ms", ""},
		{"no inbox", q, func(r *rig) { r.Inbox = nil }, "enqueue 800ms", "", "queue"},
		{"no inbox, queue slow", q, func(r *rig) { r.Inbox = nil; r.queue.takes = 700 * time.Millisecond }, "enqueue 800ms", "", "queue"},
		{"no inbox, queue late", q, func(r *rig) { r.Inbox = nil; hangs(r.queue) }, "enqueue 800ms", "", ""},
		{"no inbox, queue refuses", q, func(r *rig) { r.Inbox = nil; refuses(r.queue) }, "enqueue 800ms", "", ""},
		{"no inbox, queue open", q, func(r *rig) { r.open(context.Background(), r.Redis); r.Inbox = nil }, "", "", ""},
		{"no fallback", i, func(r *rig) { r.fallback = false; refuses(r.inbox) }, "", "insert 800ms", ""},
		{"no fallback, not needed", i, func(r *rig) { r.fallback = false }, "send 200ms", "insert 800ms", "inbox"},
		{"no fallback matters not, queue first", q, func(r *rig) { r.fallback = false }, "enqueue 300ms", "", "queue"},
		{"both refuse", q, func(r *rig) { refuses(r.queue); refuses(r.inbox) }, "enqueue 300ms", "insert 800ms", ""},
		{"both refuse, inbox first", i, func(r *rig) { refuses(r.queue); refuses(r.inbox) }, "enqueue 800ms", "insert 600ms", ""},
		{"both late", q, func(r *rig) { hangs(r.queue); hangs(r.inbox) }, "enqueue 300ms", "insert 500ms", ""},
		{"both open", q, func(r *rig) { r.open(context.Background(), r.Redis); r.open(context.Background(), r.Postgres) }, "", "", ""},
		{"key not sent", i, func(r *rig) { r.queue.sendErr = errRefused }, "send 200ms", "insert 600ms", "inbox"},
		{"key sent late", i, func(r *rig) { r.queue.sendTakes = time.Hour }, "send 200ms", "insert 600ms", "inbox"},
		{"slow insert, key sent late", i, func(r *rig) { r.inbox.takes = 250 * time.Millisecond; r.queue.sendTakes = time.Hour }, "send 200ms", "insert 600ms", "inbox"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(tt.mode)
				tt.spoil(r)
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				start := time.Now()
				got, err := r.Enqueue(ctx, webhook.Event{Body: []byte("{}")})
				if took := time.Since(start); took > deadline {
					t.Errorf("took %s", took)
				}
				r.Sender.Wait()
				if r.queue.asked() != tt.queue || r.inbox.asked() != tt.inbox {
					t.Errorf("asked the queue %q and the inbox %q, want %q and %q", r.queue.asked(), r.inbox.asked(), tt.queue, tt.inbox)
				}
				if offered, instead := len(r.inbox.offers) == 1, tt.mode == custody.InboxFirst && tt.want == "queue"; offered != instead {
					t.Errorf("the inbox was offered %d events, want the one that the queue holds instead: %v", len(r.inbox.offers), instead)
				}
				if tt.want == "" {
					if !errors.Is(err, webhook.ErrNotHeld) || got != (webhook.Receipt{}) {
						t.Errorf("Enqueue = %+v, %v, want %v", got, err, webhook.ErrNotHeld)
					}
				} else if want := (webhook.Receipt{Outcome: webhook.Accepted, Layer: tt.want}); err != nil || got != want {
					t.Errorf("Enqueue = %+v, %v, want %+v", got, err, want)
				}
			})
		})
	}
}

// TestKeeperIsFair asks with what is left of a deadline, as for the last events
// of a large batch: that a store did not answer then tells nothing of it.
func TestKeeperIsFair(t *testing.T) {
	t.Parallel()
	const fair = 100 * time.Millisecond
	tests := []struct {
		name        string
		left, takes time.Duration
		away        bool // what becomes of the store that is asked first
	}{
		{"nothing is left", 0, time.Millisecond, false},
		{"less than is fair is left", fair - 1, time.Hour, false},
		{"as much as is fair is left", fair, time.Hour, true},
		{"it answers", deadline, time.Millisecond, false},
	}
	for _, tt := range tests {
		for _, mode := range []custody.Mode{custody.QueueFirst, custody.InboxFirst} {
			t.Run(tt.name+", "+string(mode), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					r := newRig(mode)
					r.Fair = fair
					store, first, second := r.queue, r.Redis, r.Postgres
					if mode == custody.InboxFirst {
						store, first, second = r.inbox, r.Postgres, r.Redis
					}
					r.queue.takes, r.inbox.takes = time.Millisecond, time.Millisecond
					store.takes = tt.takes
					for range 3 {
						ctx, cancel := context.WithTimeout(t.Context(), tt.left)
						r.Enqueue(ctx, webhook.Event{})
						cancel()
					}
					if first.Open() != tt.away || second.Open() {
						t.Errorf("away: the first store %v, the second %v, want %v, false", first.Open(), second.Open(), tt.away)
					}
					r.Sender.Wait()
				})
			})
		}
	}
}

// TestKeeperUnsent tells the inbox of each event that it holds and that nobody
// was sent for.
func TestKeeperUnsent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*rig)
		want  int
	}{
		{"sent", func(*rig) {}, 0},
		{"not sent", func(r *rig) { r.queue.sendErr = errNo }, 1},
		{"sent late", func(r *rig) { r.queue.sendTakes = time.Hour }, 1},
		{"queue open", func(r *rig) { r.open(context.Background(), r.Redis) }, 1},
		{"no room", func(r *rig) { r.room = false }, 1},
		{"duplicate", func(r *rig) { r.room, r.inbox.receipt.Outcome = false, webhook.Duplicate }, 0},
		{"not inserted", func(r *rig) { r.inbox.err, r.room = errRefused, false }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(custody.InboxFirst)
				tt.spoil(r)
				r.Enqueue(t.Context(), webhook.Event{})
				r.Sender.Wait()
				if got := len(r.inbox.unsent); got != tt.want {
					t.Errorf("the inbox was told of %d unsent events, want %d", got, tt.want)
				}
			})
		})
	}
}

// TestKeeperLargeBody keeps large bodies out of Redis, where there is a choice.
func TestKeeperLargeBody(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	tests := []struct {
		name  string
		mode  custody.Mode
		size  int
		inbox bool
		want  string
	}{
		{"queue first, at the limit", custody.QueueFirst, limit, true, "queue"},
		{"queue first, large", custody.QueueFirst, limit + 1, true, "inbox"},
		{"inbox first, large", custody.InboxFirst, limit + 1, true, "inbox"},
		{"no inbox, large", custody.QueueFirst, limit + 1, false, "queue"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(tt.mode)
			if !tt.inbox {
				r.Inbox = nil
			}
			got, err := r.Enqueue(t.Context(), webhook.Event{Body: make([]byte, tt.size)})
			if err != nil || got.Layer != tt.want {
				t.Errorf("Enqueue = %+v, %v, want it in the %s", got, err, tt.want)
			}
		})
	}
}

// TestKeeperSays hands on what the store says, and sends only for what shall
// run.
func TestKeeperSays(t *testing.T) {
	t.Parallel()
	tests := []struct {
		receipt webhook.Receipt
		sent    bool
	}{
		{webhook.Receipt{Outcome: webhook.Accepted}, true},
		{webhook.Receipt{Outcome: webhook.Requeued, OtherBody: true}, true},
		{webhook.Receipt{Outcome: webhook.Duplicate, Layer: "postgres"}, false},
		{webhook.Receipt{Outcome: webhook.Duplicate, Layer: "postgres", Done: true, OtherBody: true}, false},
	}
	for _, tt := range tests {
		r := newRig(custody.InboxFirst)
		r.inbox.receipt = tt.receipt
		if got, err := r.Enqueue(t.Context(), webhook.Event{}); got != tt.receipt || err != nil {
			t.Errorf("Enqueue = %+v, %v, want %+v", got, err, tt.receipt)
		}
		r.Sender.Wait()
		if sent := strings.HasPrefix(r.queue.asked(), "send"); sent != tt.sent {
			t.Errorf("after %+v the queue was asked %q, want sent %v", tt.receipt, r.queue.asked(), tt.sent)
		}
		q := newRig(custody.QueueFirst)
		q.queue.receipt = tt.receipt
		if got, err := q.Enqueue(t.Context(), webhook.Event{}); got != tt.receipt || err != nil || q.inbox.asked() != "" {
			t.Errorf("Enqueue to the queue = %+v, %v, want %+v, and nothing of the inbox", got, err, tt.receipt)
		}
	}
}

// TestBreakerOpens has answers one after the other, and says after which the
// store counts as away.
func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		answers string // l late, r refused, n no, k ok, c called off
		open    bool
	}{
		{"ok", "kkkk", false},
		{"two late", "ll", false},
		{"three late", "lll", true},
		{"late, but not in a row", "llkll", false},
		{"an answer that says no is one", "llnll", false},
		{"any number of no", "nnnnnnnn", false},
		{"refused once", "r", true},
		{"refused after ok", "kkr", true},
		{"called off by the sender", "cccccc", false},
		{"read timed out", "ttt", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(custody.QueueFirst)
				r.Inbox = nil
				for i, a := range tt.answers {
					if r.Redis.Open() {
						t.Fatalf("open before answer %d", i+1)
					}
					ctx, cancel := context.WithTimeout(t.Context(), deadline)
					r.queue.takes, r.queue.err = 0, nil
					switch a {
					case 'l':
						r.queue.takes = time.Hour
					case 'r':
						r.queue.err = fmt.Errorf("connect: %w", errors.Join(errNo, errRefused))
					case 'n':
						r.queue.err = errNo
					case 't':
						r.queue.err = &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}
					case 'c':
						cancel()
						r.queue.takes = time.Hour
					}
					r.Enqueue(ctx, webhook.Event{})
					cancel()
				}
				if r.Redis.Open() != tt.open {
					t.Errorf("Open = %v after %s, want %v", r.Redis.Open(), tt.answers, tt.open)
				}
				if r.Postgres.Open() {
					t.Error("the other breaker is open too")
				}
			})
		})
	}
}

// TestBreakerProbes closes only by its own probe, and lets nothing through
// before.
func TestBreakerProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		probes, hang, answer := 0, false, error(errRefused)
		r := newRig(custody.QueueFirst)
		r.Inbox = nil
		r.probe = func(ctx context.Context) error {
			mu.Lock()
			defer mu.Unlock()
			probes++
			if hang {
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				return ctx.Err()
			}
			return answer
		}
		set := func(h bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			hang, answer = h, err
		}
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return probes
		}
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Redis.Run(ctx) }()

		time.Sleep(time.Minute)
		if n := count(); n != 0 {
			t.Errorf("probed %d times while closed", n)
		}
		for round := range 3 { // it opens again after it was closed
			r.queue.err, r.queue.calls = errRefused, nil
			r.Enqueue(t.Context(), webhook.Event{})
			r.queue.err = nil
			before := count()
			time.Sleep(10*time.Second + 50*time.Millisecond)
			if n := count() - before; n < 45 || n > 51 {
				t.Errorf("round %d: probed %d times in 10 s, want 50", round, n)
			}
			set(true, nil)
			before = count()
			time.Sleep(10 * time.Second)
			if n := count() - before; n < 15 || n > 21 {
				t.Errorf("round %d: probed a store that hangs %d times in 10 s, want 20 or less", round, n)
			}
			for range 5 {
				if _, err := r.Enqueue(t.Context(), webhook.Event{}); !errors.Is(err, webhook.ErrNotHeld) {
					t.Errorf("Enqueue while open = %v", err)
				}
			}
			if n := len(r.queue.calls); n != 1 {
				t.Errorf("round %d: %d requests while open", round, n-1)
			}
			set(false, nil)
			time.Sleep(time.Second)
			if r.Redis.Open() {
				t.Fatal("open after its probe succeeded")
			}
			if _, err := r.Enqueue(t.Context(), webhook.Event{}); err != nil {
				t.Errorf("Enqueue afterwards = %v", err)
			}
			before = count()
			time.Sleep(10 * time.Second)
			if n := count() - before; n != 0 {
				t.Errorf("probed %d times after it closed", n)
			}
			set(false, errRefused)
		}
		end()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
}

// TestBreakerEndsOpen ends Run between two probes, and within one.
func TestBreakerEndsOpen(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(custody.QueueFirst)
			r.probe = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			r.open(t.Context(), r.Redis)
			ctx, end := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Redis.Run(ctx) }()
			time.Sleep(after)
			end()
			synctest.Wait()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("Run = %v", err)
				}
			default:
				t.Errorf("Run does not return %s after the breaker opened", after)
			}
		})
	}
}

// TestBreakerLateAnswerOfThePast does not close: only the probe does.
func TestBreakerLateAnswerOfThePast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(custody.QueueFirst)
		r.Inbox = nil
		r.queue.takes = time.Second
		done := make(chan error)
		go func() { // asked before it opens, answered after
			_, err := r.Enqueue(t.Context(), webhook.Event{})
			done <- err
		}()
		synctest.Wait()
		r.queue.takes, r.queue.err = 0, errRefused
		r.Enqueue(t.Context(), webhook.Event{})
		if !r.Redis.Open() {
			t.Fatal("closed")
		}
		r.queue.err = nil
		if err := <-done; err != nil {
			t.Errorf("Enqueue = %v: it was held", err)
		}
		if !r.Redis.Open() {
			t.Error("an answer of the past closed it")
		}
	})
}

// TestKeeperManyAtOnce is for the race detector: nobody is told that an event
// is held unless a store said so.
func TestKeeperManyAtOnce(t *testing.T) {
	t.Parallel()
	for _, mode := range []custody.Mode{custody.QueueFirst, custody.InboxFirst} {
		synctest.Test(t, func(t *testing.T) {
			queue, inbox := &flaky{held: map[string]bool{}}, &flaky{held: map[string]bool{}}
			log := slog.New(slog.NewTextHandler(io.Discard, nil))
			k := &custody.Keeper{
				Mode: mode, Queue: queue, Inbox: inbox, Room: func() bool { return true }, Fallback: func() bool { return true },
				Redis:    custody.NewBreaker("redis", func(context.Context) error { return nil }, log),
				Postgres: custody.NewBreaker("postgres", func(context.Context) error { return nil }, log),
			}
			k.Sender = custody.NewSender(inbox, k.Room, k.Redis)
			k.Sender.Use(queue)
			ctx, end := context.WithCancel(t.Context())
			var beside, wg sync.WaitGroup
			for _, b := range []*custody.Breaker{k.Redis, k.Postgres} {
				beside.Go(func() { b.Run(ctx) })
			}
			var held, lost sync.Map
			for worker := range 20 {
				wg.Go(func() {
					for n := range 50 {
						id := fmt.Sprint(worker, "-", n)
						bounded, cancel := context.WithTimeout(ctx, deadline)
						r, err := k.Enqueue(bounded, webhook.Event{ID: id})
						cancel()
						switch {
						case err == nil && r.Outcome == webhook.Accepted:
							held.Store(id, true)
						case errors.Is(err, webhook.ErrNotHeld):
							lost.Store(id, true)
						default:
							t.Errorf("Enqueue = %+v, %v", r, err)
						}
						time.Sleep(time.Duration(n) * time.Millisecond)
					}
				})
			}
			wg.Wait()
			k.Sender.Wait()
			end()
			beside.Wait()
			n := 0
			held.Range(func(id, _ any) bool {
				n++
				if !queue.held[id.(string)] && !inbox.held[id.(string)] {
					t.Errorf("%s is held nowhere", id)
				}
				return true
			})
			if n == 0 {
				t.Error("nothing was held")
			}
		})
	}
}

// A flaky store refuses, hangs and answers in turn.
func (*flaky) Offer(webhook.Event) {}

type flaky struct {
	mu   sync.Mutex
	n    int
	held map[string]bool
}

func (f *flaky) Unsent(webhook.Event) {}

func (f *flaky) hold(ctx context.Context, id string) (webhook.Receipt, error) {
	f.mu.Lock()
	f.n++
	n := f.n
	f.mu.Unlock()
	switch n % 7 {
	case 0:
		return webhook.Receipt{}, fmt.Errorf("%w: %w", webhook.ErrNotHeld, errRefused)
	case 1, 2:
		<-ctx.Done()
		return webhook.Receipt{}, fmt.Errorf("%w: %w", webhook.ErrNotHeld, ctx.Err())
	case 3:
		return webhook.Receipt{}, fmt.Errorf("%w: %w", webhook.ErrNotHeld, errNo)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[id] = true
	return webhook.Receipt{Outcome: webhook.Accepted}, nil
}

func (f *flaky) Enqueue(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	return f.hold(ctx, ev.ID)
}

func (f *flaky) Insert(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	return f.hold(ctx, ev.ID)
}

func (f *flaky) EnqueueKeys(_ context.Context, events []webhook.Event) []error {
	return make([]error, len(events))
}
