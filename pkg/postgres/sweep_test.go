package postgres_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// What makes of n rows of a source, e-1 to e-n, events of a status. The last
// one's body, type and so on are those of event.
const fill = `
INSERT INTO received_events (source, event_id, event_type, status, payload, payload_sha256, headers, delivery, received_at,
	attempt, lease_until, completed_at, next_attempt_at, sweep_at, last_error, error_kind)
SELECT $1, 'e-' || n, 'payment.succeeded', $2, '{}', sha256('{}'), '{"X-Kept": "1"}', 'd-e-' || n, '2030-01-02 12:00:00Z',
	1, CASE $2 WHEN 'processing' THEN clock_timestamp() END, CASE $2 WHEN 'completed' THEN clock_timestamp() END,
	CASE $2 WHEN 'failed' THEN clock_timestamp() END,
	CASE WHEN $2 NOT IN ('completed', 'dead') THEN clock_timestamp() + $4::interval + n * interval '1 ms' END,
	CASE WHEN $2 IN ('failed', 'dead') THEN 'boom' END, CASE WHEN $2 IN ('failed', 'dead') THEN 'error' END
FROM generate_series(1, $3::int) n`

// fill adds events e-1 to e-n of a source, due for the sweeper in that time.
func (f *fixture) fill(tb testing.TB, source string, status webhook.Status, n int, due time.Duration) {
	tb.Helper()
	f.exec(tb, fill, source, string(status), n, due)
}

func (f *fixture) overdue(tb testing.TB, limit int, sources ...string) []webhook.Event {
	tb.Helper()
	list, err := f.Overdue(context.Background(), sources, limit)
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

func ids(events []webhook.Event) []string {
	var list []string
	for _, ev := range events {
		list = append(list, ev.ID)
	}
	slices.Sort(list)
	return list
}

func TestOverdue(t *testing.T) {
	t.Parallel()
	const past, future = -time.Minute, time.Minute
	tests := []struct {
		status webhook.Status
		due    time.Duration
		want   int
	}{
		{webhook.Received, past, 3}, {webhook.Failed, past, 3}, {webhook.Processing, past, 3},
		{webhook.Received, future, 0}, {webhook.Failed, future, 0}, {webhook.Processing, future, 0},
		{webhook.Completed, past, 0}, {webhook.Dead, past, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s in %s", tt.status, tt.due), func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			f.fill(t, "shop", tt.status, 3, tt.due)
			got := f.overdue(t, 10, "shop")
			if len(got) != tt.want {
				t.Fatalf("Overdue = %v, want %d", ids(got), tt.want)
			}
			for _, ev := range got {
				want := webhook.Event{
					Source: "shop", ID: ev.ID, Type: "payment.succeeded", Delivery: "d-" + ev.ID, SHA256: sha256.Sum256([]byte(`{}`)), KeyOnly: true,
					ReceivedAt: time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC),
				}
				ev.ReceivedAt = ev.ReceivedAt.UTC()
				if fmt.Sprint(ev) != fmt.Sprint(want) {
					t.Errorf("Overdue = %+v, want %+v", ev, want)
				}
			}
			if again := f.overdue(t, 10, "shop"); len(again) != 0 {
				t.Errorf("Overdue again = %v, want none", ids(again))
			}
		})
	}
}

func TestOverdueChooses(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	for _, source := range []string{"a", "b", "c"} {
		f.fill(t, source, webhook.Received, 3, -time.Minute)
	}
	tests := []struct {
		sources []string
		limit   int
		want    string
	}{
		{nil, 10, ""},
		{[]string{"%", "A", ""}, 10, ""},
		{[]string{"a"}, 2, "e-1 e-2"}, // oldest first
		{[]string{"a", "b"}, 3, "e-1 e-2 e-3"},
		{[]string{"a", "b"}, 10, "e-3"},
		{[]string{"a", "b", "c"}, 10, "e-1 e-2 e-3"},
	}
	for _, tt := range tests {
		if tt.limit == 3 {
			f.exec(t, `UPDATE received_events SET sweep_at = clock_timestamp() - interval '1 h' WHERE source = 'b' AND event_id <> 'e-3'`)
		}
		if got := strings.Join(ids(f.overdue(t, tt.limit, tt.sources...)), " "); got != tt.want {
			t.Errorf("Overdue(%q, %d) = %q, want %q", tt.sources, tt.limit, got, tt.want)
		}
	}
}

// TestOverdueDoubles looks at the distance between two looks at one event, and
// that an attempt starts it anew.
func TestOverdueDoubles(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	ev := event("e-1", `{}`)
	f.fill(t, "shop", webhook.Received, 1, -time.Minute)
	seconds := []int{30, 60, 120, 240, 480, 600, 600, 600, 600, 600, 600, 600, 600}
	for i, want := range append(seconds, 30, 60) {
		if i == len(seconds) {
			f.claim(t, ev, "me")
		}
		if n := len(f.overdue(t, 1, "shop")); n != min(1, want) && i != len(seconds) {
			t.Fatalf("look %d finds %d", i, n)
		}
		if i == len(seconds) { // claimed: due at the end of the lease
			f.exec(t, `UPDATE received_events SET sweep_at = clock_timestamp()`)
			f.overdue(t, 1, "shop")
		}
		got := query[time.Duration](t, f, `SELECT sweep_at - clock_timestamp() FROM received_events`)
		if d := time.Duration(want) * time.Second; got > d || got < d-10*time.Second {
			t.Errorf("look %d comes again in %s, want %s", i, got, d)
		}
		f.exec(t, `UPDATE received_events SET sweep_at = clock_timestamp()`)
	}
}

// TestOverdueShared has several sweepers, none of which may take what another
// took.
func TestOverdueShared(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.fill(t, "shop", webhook.Received, 1000, -time.Minute)
	var mu sync.Mutex
	taken := map[string]int{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for misses := 0; misses < 20; {
				list, err := f.Overdue(context.Background(), []string{"shop"}, 37)
				if err != nil {
					t.Error(err)
					return
				}
				if len(list) == 0 { // or all are locked by another
					misses++
				}
				mu.Lock()
				for _, ev := range list {
					taken[ev.ID]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for id, n := range taken {
		if n != 1 {
			t.Errorf("%s was taken %d times", id, n)
		}
	}
	if len(taken) != 1000 {
		t.Errorf("%d events were taken, want 1000", len(taken))
	}
}

// TestLimitsHold has a planner that joins by nested loops, which would run the
// choice of rows once for each row of the table.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	store := openStore(t, f.url+"&enable_hashjoin=off&enable_mergejoin=off&enable_indexscan=off&enable_bitmapscan=off&enable_hashagg=off&enable_material=off", 2)
	f.fill(t, "shop", webhook.Received, 20, -time.Minute)
	f.fill(t, "bank", webhook.Dead, 20, 0)
	f.fill(t, "club", webhook.Completed, 20, 0)
	f.old(t, "club", 2*time.Hour)
	overdue, err := store.Overdue(t.Context(), []string{"shop"}, 3)
	if err != nil || fmt.Sprint(ids(overdue)) != "[e-1 e-2 e-3]" {
		t.Errorf("Overdue = %v, %v, want the 3 oldest", ids(overdue), err)
	}
	replayed, err := store.Replay(t.Context(), webhook.DeadFilter{Source: "bank"}, 3, "me", "why")
	if err != nil || fmt.Sprint(ids(replayed)) != "[e-1 e-2 e-3]" {
		t.Errorf("Replay = %v, %v, want the 3 oldest", ids(replayed), err)
	}
	if n, err := store.PurgePayloads(t.Context(), "club", time.Hour, 3); n != 3 || err != nil {
		t.Errorf("PurgePayloads = %d, %v, want 3", n, err)
	}
	if n := query[int](t, f, `SELECT count(*) FROM received_events WHERE payload IS NULL OR sweeps > 0 OR source = 'bank' AND status <> 'dead'`); n != 9 {
		t.Errorf("%d rows were touched, want 9", n)
	}
}

// TestOverduePassesLocks leaves rows to whoever holds them.
func TestOverduePassesLocks(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.fill(t, "shop", webhook.Failed, 3, -time.Minute)
	f.hold(t, `SELECT FROM received_events WHERE event_id = 'e-1' FOR UPDATE`)
	if got := ids(f.overdue(t, 10, "shop")); fmt.Sprint(got) != "[e-2 e-3]" {
		t.Errorf("Overdue = %v, want the two that nobody holds", got)
	}
}

func TestRecall(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	ctx := context.Background()
	f.fill(t, "bank", webhook.Received, 1, time.Hour)
	for status, i := range map[webhook.Status]int{webhook.Received: 1, webhook.Failed: 2, webhook.Processing: 3, webhook.Completed: 4, webhook.Dead: 5} {
		f.fill(t, "shop", status, 1, time.Hour)
		f.exec(t, `UPDATE received_events SET event_id = $1, sweeps = 7 WHERE event_id = 'e-1' AND source = 'shop'`, fmt.Sprint("s-", i))
	}
	epoch := func(want string) {
		t.Helper()
		if got, err := f.Epoch(ctx, "shop"); err != nil || got != want {
			t.Errorf("Epoch = %q, %v, want %q", got, err, want)
		}
	}
	recall := func(known, next string, wantN int, wantSet bool) {
		t.Helper()
		if n, set, err := f.Recall(ctx, "shop", known, next); n != wantN || set != wantSet || err != nil {
			t.Errorf("Recall(%q, %q) = %d, %v, %v, want %d, %v", known, next, n, set, err, wantN, wantSet)
		}
	}
	epoch("")
	recall("", "one", 2, true)
	epoch("one")
	if got := ids(f.overdue(t, 10, "shop", "bank")); fmt.Sprint(got) != "[s-1 s-2]" {
		t.Errorf("overdue are %v, want those that wait", got)
	}
	if got := query[int](t, f, `SELECT sum(sweeps) FROM received_events WHERE source = 'shop'`); got != 2+3*7 {
		t.Errorf("sweeps add up to %d: others were touched", got)
	}
	f.untouched(t, func() {
		recall("", "two", 0, false)
		recall("two", "three", 0, false)
	})
	epoch("one")
	recall("one", "two", 2, true)
	epoch("two")
	if got, err := f.Epoch(ctx, "bank"); got != "" || err != nil {
		t.Errorf("Epoch of another source = %q, %v", got, err)
	}
}

// TestRecallOnce lets workers notice the same loss at once.
func TestRecallOnce(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.fill(t, "shop", webhook.Received, 5, time.Hour)
	known := ""
	for round := range 10 {
		var mu sync.Mutex
		won := map[string]int{}
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				next := fmt.Sprint(round, "-", i)
				n, set, err := f.Recall(context.Background(), "shop", known, next)
				if err != nil {
					t.Error(err)
				}
				if set {
					mu.Lock()
					won[next] = n
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%v set the mark, want one", won)
		}
		known = slices.Collect(maps.Keys(won))[0]
		if got, err := f.Epoch(t.Context(), "shop"); got != known || err != nil || won[known] != 5 {
			t.Errorf("Epoch = %q, %v after %v", got, err, won)
		}
	}
}

func TestLeasedAndDead(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	for _, status := range []webhook.Status{webhook.Received, webhook.Processing, webhook.Failed, webhook.Completed, webhook.Dead} {
		f.fill(t, "shop", status, 1, time.Hour)
		f.exec(t, `UPDATE received_events SET event_id = $1, lease_until = lease_until + interval '1 h' WHERE event_id = 'e-1'`, string(status))
	}
	f.fill(t, "shop", webhook.Processing, 1, time.Hour) // e-1: its lease is over
	f.fill(t, "bank", webhook.Processing, 1, time.Hour)
	f.exec(t, `UPDATE received_events SET lease_until = lease_until + interval '1 h', event_id = 'e-2' WHERE source = 'bank'`)
	all := []string{"received", "processing", "failed", "completed", "dead", "e-1", "e-2", "none", ""}
	leased, err := f.Leased(t.Context(), "shop", all)
	if fmt.Sprint(leased) != "map[processing:true]" || err != nil {
		t.Errorf("Leased = %v, %v, want processing", leased, err)
	}
	dead, err := f.Dead(t.Context(), "shop", all)
	if fmt.Sprint(dead) != "map[dead:true]" || err != nil {
		t.Errorf("Dead = %v, %v, want dead", dead, err)
	}
	for name, ask := range map[string]func(context.Context, string, []string) (map[string]bool, error){"Leased": f.Leased, "Dead": f.Dead} {
		for _, list := range [][]string{nil, {}, {"none"}} {
			if got, err := ask(t.Context(), "shop", list); len(got) != 0 || err != nil {
				t.Errorf("%s(%q) = %v, %v, want none", name, list, got, err)
			}
		}
	}
}

func TestStrays(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.fill(t, "a", webhook.Received, 2, time.Hour)
	f.fill(t, "b", webhook.Failed, 3, -time.Hour)
	f.fill(t, "c", webhook.Processing, 1, time.Hour)
	f.fill(t, "d", webhook.Completed, 4, 0)
	f.fill(t, "e", webhook.Dead, 4, 0)
	for _, tt := range []struct {
		known []string
		want  string
	}{
		{[]string{"a"}, "map[b:3 c:1]"},
		{[]string{"a", "b", "c"}, "map[]"},
		{[]string{}, "map[a:2 b:3 c:1]"},
	} {
		if got, err := f.Strays(t.Context(), tt.known); fmt.Sprint(got) != tt.want || err != nil {
			t.Errorf("Strays(%q) = %v, %v, want %s", tt.known, got, err, tt.want)
		}
	}
}

// old makes all events of a source older.
func (f *fixture) old(tb testing.TB, source string, age time.Duration) {
	tb.Helper()
	f.exec(tb, `UPDATE received_events SET completed_at = completed_at - $2::interval, received_at = received_at - $2::interval WHERE source = $1`, source, age)
}

func TestPurgePayloads(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	ctx := t.Context()
	purge := func(age time.Duration, limit, want int) {
		t.Helper()
		if n, err := f.PurgePayloads(ctx, "shop", age, limit); n != want || err != nil {
			t.Errorf("PurgePayloads(%s, %d) = %d, %v, want %d", age, limit, n, err, want)
		}
	}
	for status, i := range map[webhook.Status]int{webhook.Received: 1, webhook.Failed: 2, webhook.Processing: 3, webhook.Dead: 4} {
		f.fill(t, "shop", status, 1, time.Hour)
		f.exec(t, `UPDATE received_events SET event_id = $1 WHERE event_id = 'e-1'`, fmt.Sprint("s-", i))
	}
	f.old(t, "shop", 1000*time.Hour)
	f.fill(t, "shop", webhook.Completed, 5, 0)
	f.fill(t, "bank", webhook.Completed, 1, 0)
	f.old(t, "bank", 1000*time.Hour)
	f.untouched(t, func() { purge(time.Hour, 10, 0) })
	f.exec(t, `UPDATE received_events SET completed_at = completed_at - interval '2 h' WHERE event_id IN ('e-1', 'e-2', 'e-3') AND source = 'shop'`)
	f.exec(t, `UPDATE received_events SET completed_at = completed_at - interval '1 h' WHERE event_id = 'e-3' AND source = 'shop'`)
	f.untouched(t, func() { purge(4*time.Hour, 10, 0) })
	const purged = `SELECT coalesce(string_agg(event_id, ' ' ORDER BY event_id), '') FROM received_events WHERE payload IS NULL AND headers = '{}'`
	purge(time.Hour, 1, 1)
	if got := query[string](t, f, purged); got != "e-3" {
		t.Errorf("purged %q, want the oldest", got)
	}
	purge(time.Hour, 10, 2)
	purge(time.Hour, 10, 0)
	if got := query[string](t, f, purged); got != "e-1 e-2 e-3" {
		t.Errorf("purged %q, want e-1 e-2 e-3", got)
	}
	if n := query[int](t, f, `SELECT count(*) FROM received_events WHERE payload IS NULL OR headers = '{}'`); n != 3 {
		t.Errorf("%d rows lost something, want 3", n)
	}
}

// TestPurgedIsDuplicate delivers an event again, of which only the key is left.
func TestPurgedIsDuplicate(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	b := f.newBox(t)
	b.run()
	f.fill(t, "shop", webhook.Completed, 1, 0)
	f.old(t, "shop", 2*time.Hour)
	if n, err := f.PurgePayloads(t.Context(), "shop", time.Hour, 10); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	for _, other := range []bool{false, true} {
		ev := event("e-1", `{}`)
		if other {
			ev = event("e-1", `{"n":2}`)
		}
		ev.Delivery = "second"
		want := webhook.Receipt{Outcome: webhook.Duplicate, Layer: "postgres", Done: true, OtherBody: other}
		if got := b.insert(ev); got != want {
			t.Errorf("Insert = %+v, want %+v", got, want)
		}
		c, err := f.Claim(t.Context(), ev, "me", terms, 0)
		if err != nil || c.Mine || c.Status != webhook.Completed || c.OtherBody != other {
			t.Errorf("Claim = %+v, %v, want a duplicate", c, err)
		}
		c, err = f.Claim(t.Context(), key(ev), "me", terms, 0)
		if err != nil || c.Mine || c.Status != webhook.Completed {
			t.Errorf("Claim by the key = %+v, %v, want a duplicate", c, err)
		}
	}
	if r := f.record(t, event("e-1", "")); r.Payload != nil || len(r.Headers) != 0 || r.PayloadSHA256 != fmt.Sprintf("%x", sha256.Sum256([]byte(`{}`))) {
		t.Errorf("record = %+v, want the hash and no body", r)
	}
}

func TestPurgeDetails(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	for _, source := range []string{"shop", "bank"} {
		f.fill(t, source, webhook.Completed, 3, 0)
		f.fill(t, source+"2", webhook.Dead, 1, 0)
	}
	f.exec(t, `INSERT INTO event_attempts SELECT source, event_id, n, 'error', 'boom', NULL, clock_timestamp(), 'w' FROM received_events, generate_series(1, 2) n`)
	f.exec(t, `INSERT INTO payload_conflicts SELECT source, event_id, sha256('x'), 'x', '', 'd', clock_timestamp() FROM received_events`)
	for _, source := range []string{"shop", "bank", "shop2", "bank2"} {
		f.old(t, source, 2*time.Hour)
	}
	purge := func(source string, age time.Duration, limit, want int) {
		t.Helper()
		if n, err := f.PurgeDetails(t.Context(), source, age, limit); n != want || err != nil {
			t.Errorf("PurgeDetails(%s, %s, %d) = %d, %v, want %d", source, age, limit, n, err, want)
		}
	}
	const counts = `SELECT (SELECT count(*) FROM event_attempts) || ' ' || (SELECT count(*) FROM payload_conflicts)`
	want := func(want string) {
		t.Helper()
		if got := query[string](t, f, counts); got != want {
			t.Errorf("attempts and other bodies: %s, want %s", got, want)
		}
	}
	purge("shop", 3*time.Hour, 100, 0)
	want("16 8")
	f.exec(t, `UPDATE received_events SET payload = NULL WHERE status = 'completed'`)
	purge("shop", 3*time.Hour, 100, 0)
	purge("shop2", time.Hour, 100, 0)
	want("16 8")
	purge("shop", time.Hour, 2, 2)
	purge("shop", time.Hour, 100, 4)
	purge("shop", time.Hour, 100, 0)
	want("10 5")
	if n := query[int](t, f, `SELECT count(*) FROM received_events`); n != 8 {
		t.Errorf("%d events are left of 8", n)
	}
}

func TestSweepAway(t *testing.T) {
	t.Parallel()
	store := openStore(t, nowhere(t), 2)
	ctx := t.Context()
	_, overdueErr := store.Overdue(ctx, []string{"shop"}, 1)
	_, epochErr := store.Epoch(ctx, "shop")
	_, _, recallErr := store.Recall(ctx, "shop", "", "x")
	_, leasedErr := store.Leased(ctx, "shop", []string{"e"})
	_, deadErr := store.Dead(ctx, "shop", []string{"e"})
	_, straysErr := store.Strays(ctx, []string{"shop"})
	_, payloadsErr := store.PurgePayloads(ctx, "shop", time.Hour, 1)
	_, detailsErr := store.PurgeDetails(ctx, "shop", time.Hour, 1)
	_, groupsErr := store.DeadGroups(ctx, webhook.DeadFilter{})
	_, replayErr := store.Replay(ctx, webhook.DeadFilter{}, 1, "me", "why")
	for call, err := range map[string]error{
		"Overdue": overdueErr, "Epoch": epochErr, "Recall": recallErr, "Leased": leasedErr, "Dead": deadErr, "Strays": straysErr,
		"PurgePayloads": payloadsErr, "PurgeDetails": detailsErr, "DeadGroups": groupsErr, "Replay": replayErr,
	} {
		if !errors.Is(err, webhook.ErrUnavailable) {
			t.Errorf("%s = %v, want %v", call, err, webhook.ErrUnavailable)
		}
	}
}
