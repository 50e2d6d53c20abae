package postgres_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A box is an inbox on the fixture's schema. It does not run unless run is called.
type box struct {
	*postgres.Inbox
	tb testing.TB
}

func (f *fixture) newBox(tb testing.TB) *box {
	tb.Helper()
	return openBox(tb, f.url)
}

func openBox(tb testing.TB, url string) *box {
	tb.Helper()
	store, err := postgres.OpenInbox(context.Background(), url, 4)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(store.Close)
	return &box{store.NewInbox(), tb}
}

// run lets the inbox insert until the end of the test.
func (b *box) run() {
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	b.tb.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			b.tb.Errorf("Run = %v", err)
		}
	})
}

// An answer is what one Insert returned, and when.
type answer struct {
	webhook.Receipt
	err  error
	took time.Duration
}

// insertAll inserts all at once, and waits until those that fit wait for one
// batch before the inbox runs.
func (b *box) insertAll(events []webhook.Event) []answer {
	b.tb.Helper()
	answers := make([]answer, len(events))
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var start time.Time
	for i, ev := range events {
		wg.Go(func() {
			r, err := b.Insert(ctx, ev)
			answers[i] = answer{r, err, time.Since(start)}
		})
		if i < 256 { // one after the other, as they shall stand in the batch
			eventually(b.tb, "the delivery waits", func() bool { return b.Waiting() == i+1 })
		}
	}
	start = time.Now()
	b.run()
	wg.Wait()
	return answers
}

func (b *box) insert(ev webhook.Event) webhook.Receipt {
	b.tb.Helper()
	r, err := b.Insert(context.Background(), ev)
	if err != nil {
		b.tb.Fatalf("Insert(%s) = %v", ev.ID, err)
	}
	return r
}

func events(n int) []webhook.Event {
	var list []webhook.Event
	for i := range n {
		list = append(list, event(fmt.Sprintf("e-%03d", i), fmt.Sprintf(`{"n":%d}`, i)))
	}
	return list
}

func TestInsert(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*webhook.Event)
		typ   string // as stored
		kept  string // X-Kept, as stored
	}{
		{"plain", func(*webhook.Event) {}, "payment.succeeded", "1"},
		{"odd body", func(ev *webhook.Event) { ev.Body = []byte("{\"a\":\"\\u0000\", \"n\": 9007199254740993 }\x00\xff\r\n") }, "payment.succeeded", "1"},
		{"no body", func(ev *webhook.Event) { ev.Body = nil }, "payment.succeeded", "1"},
		{"odd headers", func(ev *webhook.Event) { ev.Headers = map[string]string{"X-Kept": "a\x00\xff\"\\\u2028é"} }, "payment.succeeded", "a\uFFFD\uFFFD\"\\\u2028é"},
		{"no headers", func(ev *webhook.Event) { ev.Headers = nil }, "payment.succeeded", ""},
		{"odd type", func(ev *webhook.Event) { ev.Type = `it's "{,}" \N NULL 💶` }, `it's "{,}" \N NULL 💶`, "1"},
		{"odd content type", func(ev *webhook.Event) { ev.ContentType, ev.TraceParent = "a/b\xff", "\xff" }, "payment.succeeded", "1"},
		{"odd id", func(ev *webhook.Event) { ev.ID = `{"a,b"} NULL \ é` }, "payment.succeeded", "1"},
	}
	f := newStore(t)
	b := f.newBox(t)
	b.run()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ev := event(tt.name, `{"n":1}`)
			tt.spoil(&ev)
			ev.SHA256 = sha256.Sum256(ev.Body)
			if got, want := b.insert(ev), (webhook.Receipt{Outcome: webhook.Accepted}); got != want {
				t.Errorf("Insert = %+v, want %+v", got, want)
			}
			r := f.record(t, ev)
			if r.Status != webhook.Received || r.Attempt != 0 || r.BudgetFrom != 0 || r.LeaseUntil != nil || r.StartedAt != nil || r.Worker != "" {
				t.Errorf("record = %+v, want it received and untouched", r)
			}
			if string(r.Payload) != string(ev.Body) || r.Payload == nil || r.PayloadSHA256 != fmt.Sprintf("%x", ev.SHA256) {
				t.Errorf("payload = %q, want %q, byte for byte", r.Payload, ev.Body)
			}
			if r.EventType != tt.typ || r.Headers["X-Kept"] != tt.kept || r.Delivery != ev.Delivery || !r.ReceivedAt.Equal(ev.ReceivedAt) {
				t.Errorf("record = %+v, want type %q and header %q", r, tt.typ, tt.kept)
			}
			sweep := query[time.Duration](t, f, `SELECT sweep_at - clock_timestamp() FROM received_events WHERE event_id = $1`, ev.ID)
			if sweep > 30*time.Second || sweep < 20*time.Second {
				t.Errorf("swept in %s, want 30s", sweep)
			}
			if got, want := b.insert(ev), (webhook.Receipt{Outcome: webhook.Duplicate, Layer: "postgres"}); got != want {
				t.Errorf("Insert again = %+v, want %+v", got, want)
			}
			key := webhook.Event{Source: ev.Source, ID: ev.ID, Type: ev.Type, Delivery: ev.Delivery, SHA256: ev.SHA256, KeyOnly: true}
			if c := f.claim(t, key, "me"); string(c.Event.Body) != string(ev.Body) || c.Event.Type != tt.typ || c.Event.Headers["X-Kept"] != tt.kept || c.Event.Attempt != 1 {
				t.Errorf("Claim = %+v, want what was inserted, attempt 1", c)
			}
		})
	}
}

// TestInsertMany has 300 deliveries at once, some of them copies of others.
func TestInsertMany(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	b := f.newBox(t)
	all := events(200)
	all = append(all, all[:100]...) // 100 keys twice, most of them within a batch
	outcomes := map[string]map[webhook.Outcome]int{}
	for i, a := range b.insertAll(all) {
		if a.err != nil {
			t.Fatalf("Insert(%s) = %v", all[i].ID, a.err)
		}
		if a.OtherBody || a.Done {
			t.Errorf("Insert(%s) = %+v, want no other body, and not done", all[i].ID, a.Receipt)
		}
		id := all[i].ID
		if outcomes[id] == nil {
			outcomes[id] = map[webhook.Outcome]int{}
		}
		outcomes[id][a.Outcome]++
	}
	for i, ev := range all[:200] {
		copies := 0
		if i < 100 {
			copies = 1
		}
		if got := outcomes[ev.ID]; got[webhook.Accepted] != 1 || got[webhook.Duplicate] != copies {
			t.Errorf("%s: %v, want 1 accepted and %d duplicates", ev.ID, got, copies)
		}
	}
	if n := query[int](t, f, `SELECT count(*) FROM received_events`); n != 200 {
		t.Errorf("%d rows, want 200", n)
	}
	// Each statement is a transaction of its own, which the rows tell.
	if n := query[int](t, f, `SELECT count(DISTINCT xmin::text) FROM received_events`); n > 20 {
		t.Errorf("%d statements for 300 deliveries: they do not share them", n)
	}
}

// TestInsertRaces lets two ingests insert the same keys.
func TestInsertRaces(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	boxes := []*box{f.newBox(t), f.newBox(t)}
	all := events(100)
	results := make([][]answer, len(boxes))
	var wg sync.WaitGroup
	for i, b := range boxes {
		wg.Go(func() { results[i] = b.insertAll(all) })
	}
	wg.Wait()
	for i, ev := range all {
		a, b := results[0][i], results[1][i]
		if a.err != nil || b.err != nil || (a.Outcome == webhook.Accepted) == (b.Outcome == webhook.Accepted) {
			t.Errorf("%s: %+v and %+v, want it accepted once", ev.ID, a, b)
		}
	}
}

// TestInsertTable walks the table over the row's status.
func TestInsertTable(t *testing.T) {
	t.Parallel()
	duplicate := webhook.Receipt{Outcome: webhook.Duplicate, Layer: "postgres"}
	done := duplicate
	done.Done = true
	tests := []struct {
		name   string
		row    string // assignments, to a row in attempt 3
		want   webhook.Receipt
		status webhook.Status
	}{
		{"received", `status = 'received', lease_until = NULL`, duplicate, webhook.Received},
		{"processing", `lease_until = clock_timestamp() + interval '9 s'`, duplicate, webhook.Processing},
		{"processing, lease over", `lease_until = clock_timestamp() - interval '9 s'`, duplicate, webhook.Processing},
		{"failed, due", `status = 'failed', lease_until = NULL, next_attempt_at = clock_timestamp()`, duplicate, webhook.Failed},
		{"failed, not due", `status = 'failed', lease_until = NULL, next_attempt_at = clock_timestamp() + interval '1 h'`, duplicate, webhook.Failed},
		{"completed", `status = 'completed', lease_until = NULL, completed_at = clock_timestamp(), sweep_at = NULL`, done, webhook.Completed},
		{"dead", `status = 'dead', lease_until = NULL, sweep_at = NULL, lost = 2`, webhook.Receipt{Outcome: webhook.Requeued}, webhook.Received},
	}
	for _, other := range []bool{false, true} {
		for _, tt := range tests {
			name := tt.name
			if other {
				name += ", other body"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f := newStore(t)
				b := f.newBox(t)
				b.run()
				ev := event("e-1", `{"n":1}`)
				f.claim(t, ev, "other")
				f.exec(t, `UPDATE received_events SET attempt = 3, `+tt.row)
				again := ev
				again.Delivery = "second"
				want := tt.want
				if other {
					again.Body = []byte(`{"n":2}`)
					again.SHA256 = sha256.Sum256(again.Body)
					want.OtherBody = true
				}
				insert := func() webhook.Receipt { return b.insert(again) }
				var got webhook.Receipt
				if tt.want.Outcome == webhook.Duplicate {
					f.untouched(t, func() { got = insert() })
				} else {
					got = insert()
				}
				if got != want {
					t.Errorf("Insert = %+v, want %+v", got, want)
				}
				r := f.record(t, ev)
				if r.Status != tt.status || r.Attempt != 3 || string(r.Payload) != string(ev.Body) {
					t.Errorf("record = %+v, want %s at attempt 3 with the first body", r, tt.status)
				}
				if tt.want.Outcome == webhook.Requeued {
					wantFullBudget(t, f, r, "second")
				}
				insert() // keeps no second copy
				var kept []string
				if other {
					kept = []string{fmt.Sprintf("%x", again.SHA256)}
				}
				if got := f.record(t, ev).Conflicts; fmt.Sprint(got) != fmt.Sprint(kept) {
					t.Errorf("conflicts = %v, want %v", got, kept)
				}
			})
		}
	}
}

// wantFullBudget wants a revived event to wait for a worker, and to have as
// many attempts as a new one.
func wantFullBudget(t *testing.T, f *fixture, r webhook.Record, delivery string) {
	t.Helper()
	if r.Status != webhook.Received || r.BudgetFrom != r.Attempt || r.Lost != 0 || r.Delivery != delivery || r.NextAttemptAt != nil {
		t.Errorf("record = %+v, want it received, budget from %d, delivery %s", r, r.Attempt, delivery)
	}
	sweep := query[*time.Duration](t, f, `SELECT sweep_at - clock_timestamp() FROM received_events WHERE source = $1 AND event_id = $2`, r.Source, r.EventID)
	if sweep == nil || *sweep > 30*time.Second || *sweep < 20*time.Second {
		t.Errorf("swept in %v, want 30s", sweep)
	}
	key := webhook.Event{Source: r.Source, ID: r.EventID, Delivery: delivery, KeyOnly: true}
	for n := range terms.MaxRetry + 1 {
		c := f.claim(t, key, "me")
		if last := n == terms.MaxRetry; c.LastTry() != last {
			t.Errorf("attempt %d is the last of the budget: %v, want %v", c.Event.Attempt, c.LastTry(), last)
		}
		if _, err := f.Settle(t.Context(), c, webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindError, Reason: "boom"}); err != nil {
			t.Fatal(err)
		}
	}
	f.exec(t, `UPDATE received_events SET status = 'received', next_attempt_at = NULL, budget_from = attempt, sweep_at = clock_timestamp() WHERE source = $1 AND event_id = $2`, r.Source, r.EventID)
}

// TestInsertOtherBodyInOneBatch keeps the bodies that came after the first.
func TestInsertOtherBodyInOneBatch(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	list := []webhook.Event{event("e-1", `first`), event("e-2", `x`), event("e-1", `second`), event("e-1", `first`), event("e-1", `third`)}
	answers := f.newBox(t).insertAll(list)
	r := f.record(t, list[0]) // of the first body
	if len(r.Conflicts) != 2 {
		t.Errorf("conflicts = %v, want the two other bodies", r.Conflicts)
	}
	accepted := map[string]int{}
	for i, a := range answers {
		if a.err != nil {
			t.Fatal(a.err)
		}
		if a.Outcome == webhook.Accepted {
			accepted[list[i].ID]++
		}
		if other := list[i].ID == "e-1" && string(list[i].Body) != string(r.Payload); a.OtherBody != other {
			t.Errorf("Insert of %s with %s = %+v, want OtherBody %v, since %s is stored", list[i].ID, list[i].Body, a.Receipt, other, r.Payload)
		}
	}
	if accepted["e-1"] != 1 || accepted["e-2"] != 1 {
		t.Errorf("accepted %v, want each key once", accepted)
	}
}

// hold opens a transaction that does what sql says, and holds it to the end of
// the test.
func (f *fixture) hold(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	tx, err := f.db.Begin(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { tx.Rollback(context.Background()) })
	if _, err := tx.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatal(err)
	}
}

// TestInsertPastALock has a row in the batch that somebody else holds: the
// others do not wait for it, and are told what is true of them.
func TestInsertPastALock(t *testing.T) {
	t.Parallel()
	const insert = `INSERT INTO received_events (source, event_id, event_type, status, payload_sha256, delivery, received_at)
		VALUES ('shop', 'e-050', 't', 'received', sha256(''), 'd', clock_timestamp())`
	tests := []struct {
		name string
		row  string          // of e-050, committed
		held string          // by an open transaction
		want webhook.Outcome // of e-050, if it is held
	}{
		{"completion", `attempt = 1`, `UPDATE received_events SET status = 'completed', completed_at = clock_timestamp(), lease_until = NULL`, webhook.Duplicate},
		{"insert", ``, insert, ""},
		{"revival", `status = 'dead', lease_until = NULL, sweep_at = NULL`, `UPDATE received_events SET status = 'received'`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			list := events(101)
			if tt.row != "" {
				f.claim(t, list[50], "other")
				f.exec(t, `UPDATE received_events SET `+tt.row)
			}
			f.hold(t, tt.held)
			for i, a := range f.newBox(t).insertAll(list) {
				if tt.want != "" && a.took > time.Second { // nor does it take the statement a second try
					t.Errorf("Insert(%s) took %s", list[i].ID, a.took)
				}
				switch {
				case i != 50:
					if a.err != nil || a.Receipt != (webhook.Receipt{Outcome: webhook.Accepted}) {
						t.Errorf("Insert(%s) = %+v, %v, want accepted", list[i].ID, a.Receipt, a.err)
					}
				case tt.want != "":
					if a.err != nil || a.Outcome != tt.want {
						t.Errorf("Insert of the held row = %+v, %v, want %s", a.Receipt, a.err, tt.want)
					}
				default:
					if !errors.Is(a.err, webhook.ErrNotHeld) || a.Receipt != (webhook.Receipt{}) {
						t.Errorf("Insert of the held row = %+v, %v, want %v", a.Receipt, a.err, webhook.ErrNotHeld)
					}
				}
			}
		})
	}
}

// TestInsertBesideLocks has many rows in the batch that somebody holds: a new
// event, which is committed before they are looked at, does not wait for them.
func TestInsertBesideLocks(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	list := events(31)
	for _, ev := range list[:30] {
		f.claim(t, ev, "other")
	}
	f.exec(t, `UPDATE received_events SET status = 'dead', lease_until = NULL, sweep_at = NULL`)
	f.hold(t, `UPDATE received_events SET status = 'received'`)
	answers := f.newBox(t).insertAll(list)
	if a := answers[30]; a.err != nil || a.Receipt != (webhook.Receipt{Outcome: webhook.Accepted}) {
		t.Errorf("Insert = %+v, %v, want accepted", a.Receipt, a.err)
	}
	for i, a := range answers[:30] {
		if a.err == nil || a.took <= answers[30].took {
			t.Errorf("Insert of the held row %d took %s (%v), and the new one after it %s", i, a.took, a.err, answers[30].took)
		}
	}
}

// TestInboxEndsBesideALock ends while the table is locked: its deliveries have
// been answered, and there are more of them than can each wait for the lock.
func TestInboxEndsBesideALock(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.hold(t, `LOCK TABLE received_events IN SHARE MODE`)
	b := f.newBox(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, ev := range events(200) { // the last of them would wait for 20 s
		b.Offer(ev)
	}
	ctx, end := context.WithTimeout(context.Background(), 11*time.Second) // ingest has 12 s
	defer end()
	done := make(chan error, 1)
	go func() { done <- b.Run(gone) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("the inbox has not ended after 11 s")
	}
}

// TestOfferIsBounded offers more than may wait: nobody answers for the memory of
// what is offered.
func TestOfferIsBounded(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	b := f.newBox(t)
	body := string(make([]byte, 1<<20))
	for i := range 20 {
		b.Offer(event(fmt.Sprintf("e-%d", i), body))
	}
	rows := func() int { return query[int](t, f, `SELECT count(*) FROM received_events`) }
	b.run()
	eventually(t, "16 MiB are inserted", func() bool { return rows() == 16 })
	eventually(t, "and there is room again", func() bool {
		b.Offer(event("e-20", body))
		return rows() == 17
	})
}

// TestInsertBesideASlowBatch has one batch that does not get to Postgres: the next
// one does not wait for it.
func TestInsertBesideASlowBatch(t *testing.T) {
	t.Parallel()
	url, held, release := holdBack(t, newStore(t).url, "e-slow")
	defer release()
	b := openBox(t, url)
	b.run()
	slow := make(chan error, 1)
	go func() {
		_, err := b.Insert(context.Background(), event("e-slow", `{}`))
		slow <- err
	}()
	<-held
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // after 2 s the slow one ends by itself
	defer cancel()
	if _, err := b.Insert(ctx, event("e-fast", `{}`)); err != nil {
		t.Errorf("Insert beside a slow batch = %v", err)
	}
	release()
	if err := <-slow; err != nil {
		t.Errorf("Insert of the slow batch = %v", err)
	}
}

// TestInsertGivesUp ends the context before the answer, at each place where
// Insert waits.
func TestInsertGivesUp(t *testing.T) {
	t.Parallel()
	b := newStore(t).newBox(t) // nobody runs it
	fill := func(n int) {
		for i := range n {
			go b.Insert(t.Context(), event(fmt.Sprint("filling-", b.Waiting(), "-", i), `{}`))
		}
		eventually(t, "all wait", func() bool { return b.Waiting() >= n })
	}
	for _, waiting := range []int{0, 256} { // for a batch, and for a place in it
		fill(waiting)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		r, err := b.Insert(ctx, event("e-1", `{}`))
		cancel()
		if !errors.Is(err, webhook.ErrNotHeld) || !errors.Is(err, context.DeadlineExceeded) || r != (webhook.Receipt{}) {
			t.Errorf("Insert behind %d = %+v, %v, want %v", waiting, r, err, webhook.ErrNotHeld)
		}
	}
}

func TestInsertAway(t *testing.T) {
	t.Parallel()
	b := openBox(t, nowhere(t))
	for _, a := range b.insertAll(events(20)) {
		if !errors.Is(a.err, webhook.ErrNotHeld) || !errors.Is(a.err, webhook.ErrUnavailable) || a.Receipt != (webhook.Receipt{}) {
			t.Errorf("Insert = %+v, %v, want %v because of %v", a.Receipt, a.err, webhook.ErrNotHeld, webhook.ErrUnavailable)
		}
		if a.took > 3*time.Second {
			t.Errorf("Insert took %s", a.took)
		}
	}
}

// TestInboxEnds inserts what was handed over before the end.
func TestInboxEnds(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	b := f.newBox(t)
	results := make(chan answer, 200)
	for _, ev := range events(200) {
		go func() {
			r, err := b.Insert(context.Background(), ev)
			results <- answer{Receipt: r, err: err}
		}()
	}
	eventually(t, "all wait", func() bool { return b.Waiting() == 200 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
	for range 200 {
		if a := <-results; a.err != nil || a.Outcome != webhook.Accepted {
			t.Errorf("Insert = %+v, %v, want accepted", a.Receipt, a.err)
		}
	}
	if n := query[int](t, f, `SELECT count(*) FROM received_events`); n != 200 {
		t.Errorf("%d rows, want 200", n)
	}
}
