package webhook

import (
	"cmp"
	"time"
)

// Terms are what a source allows one attempt.
type Terms struct {
	Timeout   time.Duration // the handler's hard deadline
	Allowance time.Duration // beyond it, before another worker may take the event; 0: DefaultAllowance
	MaxRetry  int           // attempts after the first, counted since the last revival
}

// DefaultAllowance is room for garbage collection and a stalled network.
const DefaultAllowance = 5 * time.Second

// Lease is how long an attempt owns its event, and how long its lock lives.
// Nothing renews it, so work that outlasts it has lost both.
func (t Terms) Lease() time.Duration { return t.Timeout + cmp.Or(t.Allowance, DefaultAllowance) }

// LeaseEnd is when the attempt of the claim has lost its event, by the worker's clock.
func (c Claim) LeaseEnd() time.Time { return c.Deadline.Add(c.Terms.Lease() - c.Terms.Timeout) }

// A Claim is the answer to a worker that asks for an event.
type Claim struct {
	// Mine says that the attempt is the caller's until its lease ends.
	Mine  bool
	Event Event // of a claim that is Mine: the event as stored; Event.Attempt is the fencing token

	Worker     string    // who claimed
	Deadline   time.Time // when the handler must be done, by the worker's clock, counted from when the claim was sent
	Terms      Terms
	BudgetFrom int // the attempts up to this one do not count against MaxRetry
	Lost       int // attempts in a row whose worker died or stalled, before this one

	// Of a claim that is not Mine: how the event stands.
	Status  Status
	Attempt int           // the last one
	Wait    time.Duration // until the lease ends or the next attempt is due
	Spent   bool          // the last attempt was lost, and it was the last one allowed

	// OtherBody says that the event is stored with a body that is not the task's.
	OtherBody bool
}

// LastTry reports whether the attempt is the last that the budget allows.
func (c Claim) LastTry() bool { return c.Event.Attempt-c.BudgetFrom > c.Terms.MaxRetry }

// A Verdict is what an attempt that did not succeed came to.
type Verdict struct {
	Status Status // Failed, Dead, or Received: given back, which costs no retry
	Kind   Kind
	Reason string
	Delay  time.Duration // until the next attempt, of Failed
}

// A Kind sorts the reasons for which an attempt did not succeed.
type Kind string

// The kinds of a Verdict.
const (
	KindError       Kind = "error"       // the handler returned an error
	KindPermanent   Kind = "permanent"   // it said that no retry will help
	KindPanic       Kind = "panic"       // it panicked
	KindTimeout     Kind = "timeout"     // it was still at work at its deadline
	KindStuck       Kind = "stuck"       // it ignored its deadline
	KindLost        Kind = "lost"        // its worker died or stalled past the lease
	KindUnavailable Kind = "unavailable" // a store was cut off; costs no retry
	KindShutdown    Kind = "shutdown"    // the worker was stopped; costs no retry
)
