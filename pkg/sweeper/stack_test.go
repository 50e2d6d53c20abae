package sweeper_test

import (
	"context"
	"crypto/sha256"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/sweeper"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// realQueue is the queue as the sweeper sees it.
type realQueue struct {
	*queue.Repairer
	*queue.Client
	*queue.Memory
}

// TestSweepForReal loses all tasks of events that Postgres holds, as a Redis
// that loses its data does.
func TestSweepForReal(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := stacktest.Postgres(t)
	if _, err := migrations.Up(ctx, url); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.Open(ctx, url, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(ctx) })
	private := stacktest.Private(t, devstack.Options{DatabaseURL: "postgres://127.0.0.1:1/none"})
	const name = "shop"
	settings := map[string]queue.Settings{name: {Timeout: 15 * time.Second, Retention: time.Minute, Concurrency: 4}}
	rdb, err := queue.Dial(private.RedisURL, queue.WorkerProfile(settings))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	log := slog.New(slog.NewTextHandler(io.Discard, nil))

	var last sweeper.Report
	s := &sweeper.Sweeper{
		Store:   store,
		Queue:   realQueue{queue.NewRepairer(rdb), queue.NewClient(rdb, settings), queue.NewMemory(rdb, log)},
		Known:   []string{name},
		Sources: []source.Source{{Name: name, KeepPayload: time.Hour, KeepDetails: time.Hour}}, Every: time.Second, Log: log,
		Observe: func(r sweeper.Report) {
			last.Overdue += r.Overdue
			last.Sent += r.Sent
			last.Recalled += r.Recalled
		},
	}
	sweep := func(what string, want sweeper.Report) {
		t.Helper()
		last = sweeper.Report{}
		if err := s.Sweep(ctx); err != nil {
			t.Fatalf("%s: Sweep = %v", what, err)
		}
		if last.Overdue != want.Overdue || last.Sent != want.Sent || last.Recalled != want.Recalled {
			t.Errorf("%s: %+v, want %+v", what, last, want)
		}
		for _, id := range ids(50) { // asynq's inspector sees a lost queue only once a server registers it again
			task, err := rdb.HGetAll(ctx, "asynq:{shop}:t:"+id).Result()
			if err != nil || task["state"] != "pending" || !strings.Contains(task["msg"], "key_only") {
				t.Fatalf("%s: task of %s = %q, %v, want one that is pending", what, id, task, err)
			}
		}
		if n := rdb.LLen(ctx, "asynq:{shop}:pending").Val(); n != 50 {
			t.Errorf("%s: %d tasks are pending, want 50", what, n)
		}
	}

	inbox := store.NewInbox()
	inserting, end := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- inbox.Run(inserting) }()
	for _, id := range ids(50) {
		ev := webhook.Event{Source: name, ID: id, Type: "t", Delivery: "d", Body: []byte("{}"), SHA256: sha256.Sum256([]byte("{}")), ReceivedAt: time.Now()}
		if _, err := inbox.Insert(ctx, ev); err != nil {
			t.Fatal(err)
		}
	}
	end()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	// The first sweep finds a queue without a mark, and so does not wait 30 s.
	sweep("first start", sweeper.Report{Overdue: 50, Sent: 50, Recalled: 50})
	sweep("again", sweeper.Report{})
	if _, err := db.Exec(ctx, "UPDATE received_events SET sweep_at = now()"); err != nil {
		t.Fatal(err)
	}
	sweep("overdue, but none is lost", sweeper.Report{Overdue: 50})
	for range 2 {
		if err := rdb.FlushAll(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		sweep("all was lost", sweeper.Report{Overdue: 50, Sent: 50, Recalled: 50})
	}
	if err := rdb.Del(ctx, "asynq:{shop}:t:e-7").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.LRem(ctx, "asynq:{shop}:pending", 0, "e-7").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(ctx, "UPDATE received_events SET sweep_at = now()"); err != nil {
		t.Fatal(err)
	}
	sweep("one was lost", sweeper.Report{Overdue: 50, Sent: 1})
	if err := private.Redis.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(ctx); err == nil || !strings.Contains(err.Error(), "epoch of shop") {
		t.Errorf("Sweep without Redis = %v", err)
	}
	if err := private.Redis.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	last = sweeper.Report{}
	if err := s.Sweep(ctx); err != nil || last.Recalled != 50 || last.Overdue != 50 {
		t.Errorf("Sweep after a restart of Redis = %v, %+v, want all recalled", err, last)
	}
}
