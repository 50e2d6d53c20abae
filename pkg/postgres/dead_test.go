package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// kill lets an event die of a reason, at its first attempt.
func (f *fixture) kill(tb testing.TB, ev webhook.Event, kind webhook.Kind, reason string) {
	tb.Helper()
	c := f.claim(tb, ev, "me")
	if _, err := f.Settle(tb.Context(), c, webhook.Verdict{Status: webhook.Dead, Kind: kind, Reason: reason}); err != nil {
		tb.Fatal(err)
	}
}

// cemetery has 9 dead events of 2 sources, which died in the order of their
// ids of 3 causes, and some that live.
func (f *fixture) cemetery(tb testing.TB) {
	tb.Helper()
	for i := range 9 {
		ev := event(fmt.Sprint("e-", i), `{}`)
		if i >= 6 {
			ev.Source, ev.Type = "bank", "transfer"
		}
		switch i % 3 {
		case 0:
			f.kill(tb, ev, webhook.KindError, fmt.Sprintf("order %d of cus_%dA: no stock at 10.0.0.%d:5432", i, i*7919, i))
		case 1:
			f.kill(tb, ev, webhook.KindPermanent, fmt.Sprintf("amount -%d is negative", i))
		case 2:
			f.kill(tb, ev, webhook.KindPanic, "nil map")
		}
	}
	f.exec(tb, `UPDATE event_attempts SET ended_at = '2030-01-01Z'::timestamptz + substr(event_id, 3)::int * interval '1 h'`)
	f.fill(tb, "live", webhook.Failed, 2, time.Hour)
	f.fill(tb, "live2", webhook.Completed, 2, time.Hour)
}

func hour(n int) time.Time { return time.Date(2030, 1, 1, n, 0, 0, 0, time.UTC) }

func TestDeadGroups(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	if groups, err := f.DeadGroups(t.Context(), webhook.DeadFilter{}); len(groups) != 0 || err != nil {
		t.Errorf("DeadGroups of none = %+v, %v", groups, err)
	}
	f.cemetery(t)
	groups, err := f.DeadGroups(t.Context(), webhook.DeadFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	causes := map[webhook.Kind]map[string]bool{}
	for _, g := range groups {
		got = append(got, fmt.Sprintf("%s %s %d: %d to %d, %s: %s", g.Source, g.Kind, g.Events, g.First.UTC().Hour(), g.Last.UTC().Hour(), g.Example, g.Error))
		if causes[g.Kind] == nil {
			causes[g.Kind] = map[string]bool{}
		}
		causes[g.Kind][g.Cause] = true
	}
	slices.Sort(got[:3]) // as frequent as each other
	slices.Sort(got[3:])
	want := []string{
		"shop error 2: 0 to 3, e-3: order 3 of cus_23757A: no stock at 10.0.0.3:5432",
		"shop panic 2: 2 to 5, e-5: nil map",
		"shop permanent 2: 1 to 4, e-4: amount -4 is negative",
		"bank error 1: 6 to 6, e-6: order 6 of cus_47514A: no stock at 10.0.0.6:5432",
		"bank panic 1: 8 to 8, e-8: nil map",
		"bank permanent 1: 7 to 7, e-7: amount -7 is negative",
	}
	if !slices.Equal(got, want) {
		t.Errorf("DeadGroups = %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(causes) != 3 || len(causes[webhook.KindError]) != 1 || len(causes[webhook.KindPermanent]) != 1 {
		t.Errorf("causes = %v, want one of each kind, in both sources", causes)
	}
}

// causeOf is the name of the cause that an event died of.
func (f *fixture) causeOf(tb testing.TB, source, id string) string {
	tb.Helper()
	groups, err := f.DeadGroups(tb.Context(), webhook.DeadFilter{Source: source, ID: id})
	if err != nil || len(groups) != 1 {
		tb.Fatalf("DeadGroups(%s/%s) = %+v, %v", source, id, groups, err)
	}
	return groups[0].Cause
}

// TestDeadFilter has each field, in a list and in a replay.
func TestDeadFilter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		filter webhook.DeadFilter
		cause  string // the event that has it
		want   string
	}{
		{"all", webhook.DeadFilter{}, "", "0 1 2 3 4 5 6 7 8"},
		{"source", webhook.DeadFilter{Source: "bank"}, "", "6 7 8"},
		{"other source", webhook.DeadFilter{Source: "Shop"}, "", ""},
		{"id", webhook.DeadFilter{Source: "shop", ID: "e-4"}, "", "4"},
		{"id of another source", webhook.DeadFilter{Source: "bank", ID: "e-4"}, "", ""},
		{"id of a living event", webhook.DeadFilter{Source: "live", ID: "e-1"}, "", ""},
		{"type", webhook.DeadFilter{Type: "transfer"}, "", "6 7 8"},
		{"cause", webhook.DeadFilter{}, "e-0", "0 3 6"},
		{"cause of a source", webhook.DeadFilter{Source: "shop"}, "e-1", "1 4"},
		{"since, that moment included", webhook.DeadFilter{Since: hour(5)}, "", "5 6 7 8"},
		{"until, that moment not included", webhook.DeadFilter{Until: hour(2)}, "", "0 1"},
		{"between", webhook.DeadFilter{Since: hour(3), Until: hour(7)}, "", "3 4 5 6"},
		{"all at once", webhook.DeadFilter{Source: "shop", Type: "payment.succeeded", Since: hour(1), Until: hour(5)}, "e-2", "2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			f.cemetery(t)
			if tt.cause != "" {
				tt.filter.Cause = f.causeOf(t, "shop", tt.cause)
			}
			want := strings.Fields(tt.want)
			groups, err := f.DeadGroups(t.Context(), tt.filter)
			n := 0
			for _, g := range groups {
				n += g.Events
			}
			if n != len(want) || err != nil {
				t.Errorf("DeadGroups has %d events, %v, want %d", n, err, len(want))
			}
			replayed, err := f.Replay(t.Context(), tt.filter, 100, "me", "why")
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.ReplaceAll(strings.Join(ids(replayed), " "), "e-", ""); got != tt.want {
				t.Errorf("Replay(%+v) = %q, want %q", tt.filter, got, tt.want)
			}
			if got := query[int](t, f, `SELECT count(*) FROM received_events WHERE status = 'dead'`); got != 9-len(want) {
				t.Errorf("%d are dead still, want %d", got, 9-len(want))
			}
			if got := query[int](t, f, `SELECT count(*) FROM audit_log`); got != min(1, len(want)) {
				t.Errorf("%d lines in audit_log for %d events", got, len(want))
			}
		})
	}
}

// TestReplayWaits replays while somebody holds the table for longer than a claim
// would wait: a person is there, and no task that comes back.
func TestReplayWaits(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.cemetery(t)
	tx, err := f.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `LOCK TABLE received_events IN SHARE MODE`); err != nil {
		t.Fatal(err)
	}
	replayed := make(chan error, 1)
	go func() {
		list, err := f.Replay(context.Background(), webhook.DeadFilter{}, 100, "me", "why")
		if err == nil && len(list) != 9 {
			err = fmt.Errorf("%d events were replayed, want 9", len(list))
		}
		replayed <- err
	}()
	const waits = `SELECT count(*) FROM pg_locks
		WHERE relation = 'received_events'::regclass AND NOT granted AND clock_timestamp() - waitstart > interval '1 second'`
	eventually(t, "it waits", func() bool { return query[int](t, f, waits) == 1 || len(replayed) > 0 })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-replayed; err != nil {
		t.Errorf("Replay = %v", err)
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.cemetery(t)
	f.exec(t, `UPDATE received_events SET attempt = 3, lost = 1 WHERE status = 'dead'`)
	list, err := f.Replay(t.Context(), webhook.DeadFilter{Source: "shop"}, 2, "ada", "stock is back")
	if err != nil || fmt.Sprint(ids(list)) != "[e-0 e-1]" {
		t.Fatalf("Replay = %v, %v, want the two oldest", ids(list), err)
	}
	for _, ev := range list {
		if want := event(ev.ID, `{}`); !ev.KeyOnly || ev.Delivery != want.Delivery || ev.Type != want.Type || ev.SHA256 != want.SHA256 || ev.Source != "shop" {
			t.Errorf("Replay = %+v, want what a task needs", ev)
		}
		wantFullBudget(t, f, f.record(t, ev), ev.Delivery)
	}
	const audit = `SELECT concat_ws(' ', actor, action, reason, details->>'Events', details->'Filter'->>'Source', at > now() - interval '1 minute') FROM audit_log`
	if got, want := query[string](t, f, audit), "ada replay stock is back 2 shop t"; got != want {
		t.Errorf("audit_log = %q, want %q", got, want)
	}
}

// TestReplayUnaudited lets nothing run again of which there is no record.
func TestReplayUnaudited(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.cemetery(t)
	f.exec(t, `ALTER TABLE audit_log ADD CHECK (reason <> 'because')`)
	f.untouched(t, func() {
		if list, err := f.Replay(t.Context(), webhook.DeadFilter{}, 100, "me", "because"); err == nil || list != nil {
			t.Errorf("Replay = %v, %v, want an error", list, err)
		}
	})
}

// TestReplayTwice lets two people replay the same events at once.
func TestReplayTwice(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.fill(t, "shop", webhook.Dead, 500, 0)
	var mu sync.Mutex
	count := map[string]int{}
	var wg sync.WaitGroup
	for who := range 2 {
		wg.Go(func() {
			for misses := 0; misses < 10; {
				list, err := f.Replay(context.Background(), webhook.DeadFilter{Source: "shop"}, 60, fmt.Sprint(who), "why")
				if err != nil {
					t.Error(err)
					return
				}
				if len(list) == 0 {
					misses++
				}
				mu.Lock()
				for _, ev := range list {
					count[ev.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range count {
		if n != 1 {
			t.Errorf("%s was replayed %d times", id, n)
		}
	}
	if len(count) != 500 {
		t.Errorf("%d were replayed, want 500", len(count))
	}
	if n := query[int](t, f, `SELECT sum((details->>'Events')::int) FROM audit_log`); n != 500 {
		t.Errorf("audit_log tells of %d, want 500", n)
	}
}

// TestDeadMany lists many, with texts of the kind that make patterns slow, within
// the time that a statement may take. The fault suite lists 20,000.
func TestDeadMany(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.fill(t, "shop", webhook.Dead, 5000, 0)
	f.exec(t, `UPDATE received_events SET last_error = CASE id % 4
		WHEN 0 THEN repeat('word ', 100) WHEN 1 THEN repeat('w0rd ', 100) WHEN 2 THEN repeat('x', 500) ELSE repeat('1', 500) END`)
	f.exec(t, `INSERT INTO event_attempts SELECT source, event_id, attempt, 'error', 'boom', NULL, clock_timestamp(), 'w' FROM received_events`)
	for _, filter := range []webhook.DeadFilter{{}, {Since: time.Now().Add(-time.Hour), Source: "shop"}} {
		groups, err := f.DeadGroups(t.Context(), filter)
		if err != nil || len(groups) != 4 {
			t.Errorf("DeadGroups(%+v) = %d groups, %v, want 4", filter, len(groups), err)
		}
	}
}
