package sweeper_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/sweeper"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

var errBoom = errors.New("boom")

// A world is a fake of both stores of one source. What fails, fails by the
// name of its method.
type world struct {
	fails map[string]bool

	mu       sync.Mutex
	calls    []string
	overdue  []webhook.Event // what Overdue takes next, of which
	missing  int             // so many of a batch have no task
	stuck    []webhook.TaskRef
	free     map[string]bool // tasks that are no longer stuck
	leased   map[string]bool
	archived []webhook.TaskRef
	dead     map[string]bool
	known    string // the mark in Postgres
	mark     string // the mark in Redis
	run      string // of Redis
	waiting  int    // events that a recall finds
	strays   map[string]int
	rooms    int // for so many batches there is room; -1: always
	purged   [2]int

	unstuck   []string
	discarded []string
}

func newWorld() *world {
	return &world{fails: map[string]bool{}, rooms: -1, known: "m@r", mark: "m", run: "r"}
}

func (w *world) call(name string, args ...any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, strings.TrimSpace(fmt.Sprint(name, " ", fmt.Sprint(args...))))
	if w.fails[name] {
		return fmt.Errorf("%s: %w", name, errBoom)
	}
	return nil
}

// called are the names of all calls so far, without what was asked.
func (w *world) called() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for _, c := range w.calls {
		name, _, _ := strings.Cut(c, " ")
		names = append(names, name)
	}
	return names
}

// A fakeStore is the world as the store sees it.
type fakeStore struct{ *world }

func (w fakeStore) Overdue(_ context.Context, sources []string, limit int) ([]webhook.Event, error) {
	if err := w.call("Overdue", strings.Join(sources, ",")); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(limit, len(w.overdue))
	batch := w.overdue[:n]
	w.overdue = w.overdue[n:]
	return batch, nil
}

func (w fakeStore) Hasten(_ context.Context, events []webhook.Event) error {
	return w.call("Hasten", len(events))
}

func (w fakeStore) Recall(_ context.Context, _, known, next string) (int, bool, error) {
	if err := w.call("Recall", known); err != nil {
		return 0, false, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if known != w.known {
		return 0, false, nil
	}
	w.known = next
	return w.waiting, true, nil
}

func (w fakeStore) Epoch(context.Context, string) (string, error) {
	err := w.call("KnownEpoch")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known, err
}

func (w fakeStore) Leased(_ context.Context, _ string, ids []string) (map[string]bool, error) {
	return w.leased, w.call("Leased", strings.Join(ids, ","))
}

func (w fakeStore) Dead(_ context.Context, _ string, ids []string) (map[string]bool, error) {
	return w.dead, w.call("Dead")
}

func (w fakeStore) PurgePayloads(_ context.Context, source string, age time.Duration, limit int) (int, error) {
	return w.purged[0], w.call("PurgePayloads", source, " ", age, " ", limit)
}

func (w fakeStore) PurgeDetails(_ context.Context, source string, age time.Duration, limit int) (int, error) {
	return w.purged[1], w.call("PurgeDetails", source, " ", age, " ", limit)
}

func (w fakeStore) Strays(_ context.Context, sources []string) (map[string]int, error) {
	return w.strays, w.call("Strays", strings.Join(sources, ","))
}

// A fakeQueue is the world as the queue sees it.
type fakeQueue struct{ *world }

func (w fakeQueue) Send(_ context.Context, events []webhook.Event) (int, error) {
	err := w.call("Send", len(events))
	return min(w.missing, len(events)), err
}

func (w fakeQueue) Stuck(context.Context, string) ([]webhook.TaskRef, error) {
	return w.stuck, w.call("Stuck")
}

func (w fakeQueue) Unstick(_ context.Context, _ string, t webhook.TaskRef) (bool, error) {
	if err := w.call("Unstick", t.TaskID); err != nil {
		return false, err
	}
	if w.free[t.TaskID] {
		return false, nil
	}
	w.unstuck = append(w.unstuck, t.TaskID)
	return true, nil
}

func (w fakeQueue) Archived(_ context.Context, _ string, but int) ([]webhook.TaskRef, error) {
	n := max(0, len(w.archived)-but)
	return slices.Clone(w.archived[:n]), w.call("Archived", but)
}

func (w fakeQueue) Discard(_ context.Context, _ string, tasks []webhook.TaskRef) error {
	if err := w.call("Discard"); err != nil {
		return err
	}
	for _, t := range tasks {
		w.discarded = append(w.discarded, t.TaskID)
	}
	return nil
}

func (w fakeQueue) Epoch(context.Context, string) (mark, run string, err error) {
	err = w.call("Epoch")
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mark, w.run, err
}

func (w fakeQueue) SetEpoch(_ context.Context, _, mark string) error {
	if err := w.call("SetEpoch"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mark = mark
	return nil
}

func (w fakeQueue) Room() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rooms == 0 {
		return false
	}
	w.rooms--
	return true
}

// A rig is a sweeper in a world, and what it reports.
type rig struct {
	*sweeper.Sweeper
	*world

	mu      sync.Mutex
	reports []sweeper.Report
}

func newRig(w *world) *rig {
	r := &rig{world: w}
	r.Sweeper = &sweeper.Sweeper{
		Store: fakeStore{w}, Queue: fakeQueue{w}, Every: 5 * time.Second,
		Known:   []string{"shop"},
		Sources: []source.Source{{Name: "shop", KeepPayload: 24 * time.Hour, KeepDetails: 48 * time.Hour}},
		Observe: func(report sweeper.Report) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reports = append(r.reports, report)
		},
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	return r
}

// sum adds up the reports.
func (r *rig) sum() sweeper.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sum sweeper.Report
	for _, one := range r.reports {
		sum.Overdue += one.Overdue
		sum.Sent += one.Sent
		sum.Unstuck += one.Unstuck
		sum.Recalled += one.Recalled
		sum.Trimmed += one.Trimmed
		sum.Purged += one.Purged
		if one.Strays != nil {
			sum.Strays = maps.Clone(one.Strays)
		}
	}
	return sum
}

func tasks(n int) []webhook.TaskRef {
	var list []webhook.TaskRef
	for i := range n {
		list = append(list, webhook.TaskRef{TaskID: fmt.Sprint("t", i), EventID: fmt.Sprint("e", i)})
	}
	return list
}
