package postgres_test

import (
	"context"
	"crypto/sha256"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

var terms = webhook.Terms{Timeout: 15 * time.Second, MaxRetry: 2}

// A fixture is a store on a schema of the test's own, and a plain connection
// to look and meddle behind its back.
type fixture struct {
	*postgres.Store
	url string
	db  *pgxpool.Pool
}

func newStore(tb testing.TB) *fixture {
	tb.Helper()
	url := stacktest.Postgres(tb)
	ctx := context.Background() // the cleanup outlives tb.Context()
	if _, err := migrations.Up(ctx, url); err != nil {
		tb.Fatal(err)
	}
	store, err := postgres.Open(ctx, url, 4)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(store.Close)
	db, err := pgxpool.New(ctx, url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	return &fixture{store, url, db}
}

func (f *fixture) exec(tb testing.TB, sql string, args ...any) {
	tb.Helper()
	if _, err := f.db.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// claim takes the event's next attempt, which must be to be had.
func (f *fixture) claim(tb testing.TB, ev webhook.Event, worker string) webhook.Claim {
	tb.Helper()
	c, err := f.Claim(tb.Context(), ev, worker, terms, 0)
	if err != nil || !c.Mine {
		tb.Fatalf("Claim(%s) = %+v, %v, want it to be mine", ev.ID, c, err)
	}
	return c
}

// record reads the event, which must be there.
func (f *fixture) record(tb testing.TB, ev webhook.Event) webhook.Record {
	tb.Helper()
	r, err := f.Record(tb.Context(), ev.Source, ev.ID)
	if err != nil {
		tb.Fatalf("Record(%s) = %v", ev.ID, err)
	}
	return r
}

func event(id, body string) webhook.Event {
	return webhook.Event{
		Source: "shop", ID: id, Type: "payment.succeeded", Delivery: "d-" + id, ContentType: "application/json",
		Headers: map[string]string{"X-Kept": "1"}, ReceivedAt: time.Now().Truncate(time.Millisecond),
		Body: []byte(body), SHA256: sha256.Sum256([]byte(body)),
	}
}
