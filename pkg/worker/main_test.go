package worker_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/webhook"
	"github.com/hookonce/hookonce/pkg/worker"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

var (
	errBoom = errors.New("boom")
	errAway = fmt.Errorf("%w: no route to host", webhook.ErrUnavailable)

	terms = webhook.Terms{Timeout: 15 * time.Second, MaxRetry: 2}
)

func event(id, body string) webhook.Event {
	return webhook.Event{
		Source: "shop", ID: id, Type: "payment.succeeded", Delivery: "d-" + id, ReceivedAt: time.Now(),
		Body: []byte(body), SHA256: sha256.Sum256([]byte(body)),
	}
}

// A fakeLock gives every lock, or err.
type fakeLock struct {
	err        error
	releaseErr error

	mu       sync.Mutex
	ttl      time.Duration
	acquired int
	released int
}

func (l *fakeLock) Acquire(_ context.Context, _, _ string, ttl time.Duration) (func(context.Context) error, error) {
	if l.err != nil {
		return nil, l.err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acquired, l.ttl = l.acquired+1, ttl
	return func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.released++
		return l.releaseErr
	}, nil
}

// A fakeStore answers as it is told, and notes what it is asked.
type fakeStore struct {
	mu sync.Mutex // guards away and verdicts: an outcome may be settled later

	answer   webhook.Claim // of Claim; its deadline is set when the claim arrives
	claimErr error
	hang     bool // Claim and Settle answer claimErr and settleErr only when their context ends
	away     int  // how many of the first exchanges fail, whatever else is set

	settled   webhook.Status // of Settle; the verdict's if ""
	settleErr error
	buried    bool
	buryErr   error
	keepErr   error

	claims   []claimed
	verdicts []webhook.Verdict
	burials  []int
	kept     []webhook.Event
	restarts int
}

func (s *fakeStore) Restart(_ context.Context, c webhook.Claim) (webhook.Claim, error) {
	s.restarts++
	c.Deadline = time.Now().Add(c.Terms.Timeout)
	return c, nil
}

// A claimed is one call of Claim.
type claimed struct {
	worker string
	terms  webhook.Terms
	revive int
}

func (s *fakeStore) Claim(ctx context.Context, ev webhook.Event, name string, terms webhook.Terms, revive int) (webhook.Claim, error) {
	s.claims = append(s.claims, claimed{name, terms, revive})
	if err := s.exchange(ctx); err != nil {
		return webhook.Claim{}, err
	}
	c := s.answer
	if c.Mine {
		attempt := c.Event.Attempt
		c.Event = ev
		c.Event.Attempt = attempt
		c.Worker, c.Terms, c.Deadline = name, terms, time.Now().Add(terms.Timeout)
	}
	return c, s.claimErr
}

func (s *fakeStore) Settle(ctx context.Context, _ webhook.Claim, v webhook.Verdict) (webhook.Status, error) {
	s.mu.Lock()
	s.verdicts = append(s.verdicts, v)
	s.mu.Unlock()
	if err := s.exchange(ctx); err != nil {
		return "", err
	}
	if s.settleErr != nil {
		return "", s.settleErr
	}
	if s.settled != "" {
		return s.settled, nil
	}
	return v.Status, nil
}

func (s *fakeStore) exchange(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("fake: the context had ended before the call: %w", err)
	}
	if s.hang {
		<-ctx.Done()
		return errAway
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away > 0 {
		s.away--
		return errAway
	}
	return nil
}

// setAway lets the next n exchanges fail.
func (s *fakeStore) setAway(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = n
}

// settledSoFar returns what Settle was called with.
func (s *fakeStore) settledSoFar() []webhook.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.verdicts)
}

func (s *fakeStore) Bury(_ context.Context, _ webhook.Event, attempt, _ int, _ string) (bool, error) {
	s.burials = append(s.burials, attempt)
	return s.buried, s.buryErr
}

func (s *fakeStore) KeepConflict(_ context.Context, ev webhook.Event) error {
	s.kept = append(s.kept, ev)
	return s.keepErr
}

// A rig is a worker among fakes, on whose clock nobody waits: see synctest.
type rig struct {
	*worker.Worker
	t     *testing.T
	lock  *fakeLock
	store *fakeStore
	log   bytes.Buffer

	mu      sync.Mutex
	runs    int
	reports []worker.Report
}

// newRig claims attempt 1 of every event, and its handler does what handle
// says, which may be nil.
func newRig(t *testing.T, handle func(ctx context.Context) error) *rig {
	t.Helper()
	r := &rig{t: t, lock: &fakeLock{}, store: &fakeStore{answer: mine(1, 0)}}
	r.Worker = &worker.Worker{
		Name:  "me",
		Lock:  r.lock,
		Store: r.store,
		Attempt: func(ctx context.Context, _ webhook.Claim) error {
			r.mu.Lock()
			r.runs++
			r.mu.Unlock()
			if handle == nil {
				return nil
			}
			return handle(ctx)
		},
		Terms:   map[string]webhook.Terms{"shop": terms},
		Backoff: worker.Backoff{Min: 2 * time.Second, Max: 4 * time.Hour, Rand: func() float64 { return 0.5 }},
		Away:    worker.Away{Probe: time.Second, Patience: 15 * time.Second},
		Observe: func(report worker.Report) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reports = append(r.reports, report)
		},
		Log: slog.New(slog.NewTextHandler(&r.log, nil)),
	}
	return r
}

// mine is a claim of the given attempt.
func mine(attempt, budgetFrom int) webhook.Claim {
	return webhook.Claim{Mine: true, Event: webhook.Event{Attempt: attempt}, BudgetFrom: budgetFrom}
}

// process runs one task. Whatever becomes of it, it is reported once, and the
// lock does not stay behind.
func (r *rig) process(ctx context.Context) (string, worker.Report) {
	r.t.Helper()
	r.reports = nil
	err := r.Process(ctx, event("e-1", `{}`), 0)
	if len(r.reports) != 1 {
		r.t.Fatalf("%d reports, want one: %+v", len(r.reports), r.reports)
	}
	if r.lock.released != r.lock.acquired {
		r.t.Errorf("lock acquired %d times, released %d times", r.lock.acquired, r.lock.released)
	}
	return told(err), r.reports[0]
}

// told says in short what an error tells the queue. The time of a task that
// comes back after an outage is random.
func told(err error) string {
	again, isAgain := errors.AsType[*webhook.RetryError](err)
	dead, isDead := errors.AsType[*webhook.DeadError](err)
	switch {
	case err == nil:
		return "done"
	case isAgain && again.Failed:
		return fmt.Sprintf("failed, again in %s", again.After)
	case isAgain && again.After >= 5*time.Second && again.After < 10*time.Second:
		return "again after the outage"
	case isAgain:
		return fmt.Sprintf("again in %s", again.After)
	case isDead && dead.Leftover:
		return fmt.Sprintf("leftover of attempt %d", dead.Attempt)
	case isDead:
		return fmt.Sprintf("dead at attempt %d", dead.Attempt)
	}
	return "error: " + err.Error()
}
