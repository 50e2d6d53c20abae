package postgres_test

import (
	"testing"

	"github.com/hookonce/hookonce/pkg/webhook"
)

func sameStart(source string, a, b []byte) bool {
	return source == "shop" && len(a) > 5 && len(b) > 5 && string(a[:5]) == string(b[:5])
}

// TestSameBody has bodies that differ only in what their provider changes: they
// are no conflict, whoever finds them, and however the event stands.
func TestSameBody(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.CompareBy(sameStart)
	first, again, other := event("e-1", "first 1"), event("e-1", "first 2"), event("e-1", "other 1")
	f.claim(t, first, "me")
	for ev, want := range map[*webhook.Event]bool{&again: false, &other: true} {
		c, err := f.Claim(t.Context(), *ev, "me", terms, 0)
		if err != nil || c.Mine || c.OtherBody != want {
			t.Errorf("Claim of %s in hand = %+v, %v, want OtherBody %t", ev.Body, c, err, want)
		}
	}
	for _, ev := range []webhook.Event{again, other} {
		if err := f.KeepConflict(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	if r := f.record(t, first); len(r.Conflicts) != 1 {
		t.Errorf("conflicts = %v, want that of the other body", r.Conflicts)
	}
	f.exec(t, `UPDATE received_events SET status = 'received', lease_until = NULL`)
	if c := f.claim(t, again, "me"); c.OtherBody || string(c.Event.Body) != "first 1" {
		t.Errorf("Claim = %+v, want the first body", c)
	}
	inbox := func() *box { return &box{f.NewInbox(), t} }
	answers := inbox().insertAll([]webhook.Event{again, other})
	if answers[0].OtherBody || !answers[1].OtherBody || answers[0].Outcome != webhook.Duplicate {
		t.Errorf("Insert = %+v", answers)
	}
	f.exec(t, `UPDATE received_events SET payload = NULL`)
	if r := inbox().insertAll([]webhook.Event{again}); !r[0].OtherBody {
		t.Errorf("Insert where the body is purged = %+v: nobody can know", r)
	}
}
