package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// TestAttemptTimes has 200 events of one source, of which two took long, and
// others that do not count.
func TestAttemptTimes(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	insert := func(source string, from, to int, took, ago string, status string) {
		t.Helper()
		completed := "clock_timestamp() - $5::interval"
		if status != "completed" {
			completed = "NULL"
		}
		_, err := s.db.Exec(t.Context(), fmt.Sprintf(`
			INSERT INTO received_events (source, event_id, event_type, status, attempt, payload, payload_sha256, delivery, received_at, started_at, completed_at)
			SELECT $1, 'evt_' || n, 'x', $4, 1, '', sha256(''), 'd', clock_timestamp(), clock_timestamp() - $5::interval - $6::interval, %s
			FROM generate_series($2::int, $3::int) AS n`, completed), source, from, to, status, ago, took)
		if err != nil {
			t.Fatal(err)
		}
	}
	insert("quick", 1, 197, "20 milliseconds", "1 minute", "completed")
	insert("quick", 198, 200, "9 seconds", "1 minute", "completed")
	insert("quick", 201, 300, "5 minutes", "2 hours", "completed")
	insert("quick", 301, 400, "5 minutes", "1 minute", "failed")
	insert("one", 1, 1, "1 second", "1 second", "completed")
	got, err := s.AttemptTimes(t.Context())
	if err != nil || len(got) != 2 {
		t.Fatalf("AttemptTimes = %+v, %v", got, err)
	}
	for i, want := range []postgres.AttemptTimes{{Source: "one", Events: 1, P99: time.Second}, {Source: "quick", Events: 200, P99: 9 * time.Second}} {
		if off := (got[i].P99 - want.P99).Abs(); off > 500*time.Millisecond {
			t.Errorf("P99 of %s is %s, want %s", got[i].Source, got[i].P99, want.P99)
		}
		if got[i].P99 = want.P99; got[i] != want {
			t.Errorf("got %+v, want %+v", got[i], want)
		}
	}
}

// TestNotMigrated asks a database that has nothing of ours.
func TestNotMigrated(t *testing.T) {
	t.Parallel()
	store, err := postgres.Open(t.Context(), stacktest.Postgres(t), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	_, list := store.Records(t.Context(), webhook.Filter{Limit: 1})
	_, one := store.Record(t.Context(), "a", "b")
	_, times := store.AttemptTimes(t.Context())
	for name, err := range map[string]error{"Records": list, "Record": one, "AttemptTimes": times} {
		if err == nil || !strings.Contains(err.Error(), "run hookonce migrate up") || strings.Contains(err.Error(), "SQLSTATE") {
			t.Errorf("%s = %v", name, err)
		}
	}
}
