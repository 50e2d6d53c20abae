// Package sweeper finds events that the queue has lost or left lying, and sends
// for them again. It runs in every worker at once: whoever comes first takes a
// row for a while, and a task too many does no harm, since the claim decides.
package sweeper

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Store knows which events wait for an attempt.
type Store interface {
	// Overdue takes events for which an attempt is overdue, oldest first, and
	// takes none of them again for a while that doubles each time.
	Overdue(ctx context.Context, sources []string, limit int) ([]webhook.Event, error)
	// Hasten gives events back that were taken and could not be sent for.
	Hasten(ctx context.Context, events []webhook.Event) error
	// Recall makes all events overdue that wait in the source's queue, and
	// changes the mark from known to next, unless somebody else has.
	Recall(ctx context.Context, source, known, next string) (events int, set bool, err error)
	// Epoch is the mark that the source's queue had when it was last whole.
	Epoch(ctx context.Context, source string) (string, error)
	// Leased returns those of the events that an attempt is running on.
	Leased(ctx context.Context, source string, eventIDs []string) (map[string]bool, error)
	// Dead returns those of the events that are dead.
	Dead(ctx context.Context, source string, eventIDs []string) (map[string]bool, error)
	// PurgePayloads and PurgeDetails forget what was kept of events that were
	// completed longer ago than age, at most limit rows, and return how many.
	PurgePayloads(ctx context.Context, source string, age time.Duration, limit int) (int, error)
	PurgeDetails(ctx context.Context, source string, age time.Duration, limit int) (int, error)
	// Strays counts open events by source, of sources that are not in the list.
	Strays(ctx context.Context, sources []string) (map[string]int, error)
}

// A Queue holds tasks, and may lose them.
type Queue interface {
	// Send makes sure that there is a task for each of the events that can run,
	// and returns for how many there was none.
	Send(ctx context.Context, events []webhook.Event) (int, error)
	// Stuck lists tasks that asynq counts as running, and that nobody runs.
	Stuck(ctx context.Context, source string) ([]webhook.TaskRef, error)
	// Unstick puts such a task at the head of its queue, if it is still stuck.
	Unstick(ctx context.Context, source string, t webhook.TaskRef) (bool, error)
	// Archived lists the archived tasks of a source but for the newest, oldest first.
	Archived(ctx context.Context, source string, but int) ([]webhook.TaskRef, error)
	// Discard deletes archived tasks.
	Discard(ctx context.Context, source string, tasks []webhook.TaskRef) error
	// Epoch is the source's mark in the queue, and the run of the Redis that has it.
	Epoch(ctx context.Context, source string) (mark, run string, err error)
	// SetEpoch marks the source's queue as whole.
	SetEpoch(ctx context.Context, source, mark string) error
	// Room reports whether there is memory for more tasks.
	Room() bool
}

// A Sweeper sweeps the sources of one worker.
type Sweeper struct {
	Store   Store
	Queue   Queue
	Sources []source.Source
	Known   []string // the names of all sources that are configured, also those of other workers
	Every   time.Duration
	Observe func(Report)
	Log     *slog.Logger

	rounds   int
	pressing bool // a dead worker's task only waits for its lease to end
}

// A Report tells what one sweep found and did.
type Report struct {
	Source   string // "" for what is not of one source
	Overdue  int    // events that waited for an attempt longer than they should
	Sent     int    // of these, those that had no task
	Unstuck  int    // tasks of workers that died
	Recalled int    // events whose queue lost its data
	Trimmed  int    // tasks of dead events that were deleted
	Purged   int    // rows of which the body, or the details, were forgotten
	Strays   map[string]int
}

// batch is how many events are looked at in one go.
const batch = 1000

// keptArchived is how many dead events stay on the dashboard.
const keptArchived = 100

// soon is when a sweep follows that found a task which only waits for its lease.
const soon = time.Second

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "sweep not finished", "err", err)
		}
		wait := s.Every
		if s.pressing {
			wait = min(wait, soon)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// Sweep looks once at everything. What one step cannot do is no reason to leave
// out the next.
func (s *Sweeper) Sweep(ctx context.Context) error {
	s.pressing = false
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	var answering []string
	for _, src := range s.Sources {
		answers, err := s.checkEpoch(ctx, src.Name)
		if answers {
			answering = append(answering, src.Name)
		}
		note(err)
		note(s.unstick(ctx, src.Name))
		note(s.trim(ctx, src.Name))
	}
	note(s.sendOverdue(ctx, answering))
	if s.rounds%s.slow() == 0 {
		for _, src := range s.Sources {
			note(s.purge(ctx, src))
		}
		note(s.countStrays(ctx))
	}
	s.rounds++
	return first
}

// slow is how many sweeps there are in a minute: what need not be looked at
// more often waits for so many.
func (s *Sweeper) slow() int { return max(1, int(time.Minute/max(s.Every, time.Second))) }

// sendOverdue sends for what is overdue of the sources, a batch at a time, as
// long as there is more and room for it. A source whose queue does not answer is
// left out: its events would be put off, twice as far each time, for nothing.
func (s *Sweeper) sendOverdue(ctx context.Context, sources []string) error {
	for len(sources) > 0 && s.Queue.Room() {
		events, err := s.Store.Overdue(ctx, sources, batch)
		if err != nil || len(events) == 0 {
			return err
		}
		sent, err := s.Queue.Send(ctx, events)
		s.Observe(Report{Overdue: len(events), Sent: sent})
		if sent > 0 {
			s.Log.InfoContext(ctx, "sent again for events that had no task", "overdue", len(events), "sent", sent)
		}
		if err != nil {
			return errors.Join(err, s.Store.Hasten(ctx, events))
		}
		if len(events) < batch {
			return nil
		}
	}
	return nil
}

// unstick frees the tasks of workers that died, before their claim or after.
func (s *Sweeper) unstick(ctx context.Context, source string) error {
	tasks, err := s.Queue.Stuck(ctx, source)
	if err != nil || len(tasks) == 0 {
		return err
	}
	leased, err := s.Store.Leased(ctx, source, eventIDs(tasks))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if leased[t.EventID] {
			s.pressing = true
			continue
		}
		done, err := s.Queue.Unstick(ctx, source, t)
		if err != nil {
			return err
		}
		if done {
			s.Observe(Report{Source: source, Unstuck: 1})
			s.Log.WarnContext(ctx, "task of a dead worker runs again", "source", source, "event_id", t.EventID)
		}
	}
	return nil
}

// checkEpoch notices that Redis lost its data, or was replaced: the mark that
// was left there is not the one that Postgres remembers. It reports whether the
// source's queue answers.
func (s *Sweeper) checkEpoch(ctx context.Context, source string) (answers bool, err error) {
	mark, run, err := s.Queue.Epoch(ctx, source)
	if err != nil {
		return false, err
	}
	known, err := s.Store.Epoch(ctx, source)
	if err != nil || mark != "" && mark+"@"+run == known {
		return true, err
	}
	next := rand.Text()
	n, set, err := s.Store.Recall(ctx, source, known, next+"@"+run)
	if err != nil || !set {
		return true, err
	}
	if n > 0 {
		s.Observe(Report{Source: source, Recalled: n})
		s.Log.WarnContext(ctx, "the queue lost its data: all events that wait are sent for again", "source", source, "events", n)
	}
	return true, s.Queue.SetEpoch(ctx, source, next)
}

// trim deletes tasks of dead events, which asynq would keep by the thousand.
// Postgres has the record.
func (s *Sweeper) trim(ctx context.Context, source string) error {
	tasks, err := s.Queue.Archived(ctx, source, keptArchived)
	if err != nil || len(tasks) == 0 {
		return err
	}
	dead, err := s.Store.Dead(ctx, source, eventIDs(tasks))
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(tasks, func(t webhook.TaskRef) bool { return !dead[t.EventID] })
	if len(gone) == 0 {
		return nil
	}
	if err := s.Queue.Discard(ctx, source, gone); err != nil {
		return err
	}
	s.Observe(Report{Source: source, Trimmed: len(gone)})
	return nil
}

// purge forgets one batch of what need not be kept any longer.
func (s *Sweeper) purge(ctx context.Context, src source.Source) error {
	payloads, err := s.Store.PurgePayloads(ctx, src.Name, src.KeepPayload, batch)
	if err != nil {
		return err
	}
	details, err := s.Store.PurgeDetails(ctx, src.Name, src.KeepDetails, batch)
	s.Observe(Report{Source: src.Name, Purged: payloads + details})
	return err
}

func eventIDs(tasks []webhook.TaskRef) []string {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.EventID
	}
	return ids
}

// countStrays counts what no worker would find: events of a source that is in
// no configuration any more.
func (s *Sweeper) countStrays(ctx context.Context) error {
	strays, err := s.Store.Strays(ctx, s.Known)
	if err != nil {
		return err
	}
	s.Observe(Report{Strays: strays})
	return nil
}
