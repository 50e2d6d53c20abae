package postgres_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/pkg/postgres"
)

const book = `INSERT INTO payments (source, event_id, event_type, amount, attempt) VALUES ($1, $2, $3, $4, $5)`

// BenchmarkAttempt takes events through claim and attempt, 16 at once, beside
// plain pgx that sends the same statements without a guard: the floor.
func BenchmarkAttempt(b *testing.B) {
	body := string(make([]byte, 500))
	b.Run("ours", func(b *testing.B) {
		f := newStore(b)
		store, err := postgres.Open(b.Context(), f.url, 20)
		if err != nil {
			b.Fatal(err)
		}
		defer store.Close()
		parallel(b, func(ctx context.Context) error {
			c, err := store.Claim(ctx, event(rand.Text(), body), "bench", terms, 0)
			if err != nil {
				return err
			}
			return store.Attempt(ctx, c, func(ctx context.Context, tx pgx.Tx) error {
				_, err := tx.Exec(ctx, book, c.Event.Source, c.Event.ID, c.Event.Type, 42, c.Event.Attempt)
				return err
			})
		})
	})
	b.Run("floor", func(b *testing.B) {
		f := newStore(b)
		cfg, err := pgxpool.ParseConfig(f.url)
		if err != nil {
			b.Fatal(err)
		}
		cfg.MaxConns = 20
		db, err := pgxpool.NewWithConfig(b.Context(), cfg)
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		parallel(b, func(ctx context.Context) error { return floor(ctx, db, body) })
	})
}

// BenchmarkInsert brings events to the inbox: alone, which is the price of a
// statement and a commit, and by many at once, who share them.
func BenchmarkInsert(b *testing.B) {
	body := string(make([]byte, 500))
	for _, senders := range []int{1, 8, 128} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			inbox := newStore(b).newBox(b)
			inbox.run()
			b.ReportAllocs()
			b.ResetTimer() // the stack may just have been started
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for range senders {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						if _, err := inbox.Insert(b.Context(), event(rand.Text(), body)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// BenchmarkClaim takes new events, one after the other.
func BenchmarkClaim(b *testing.B) {
	f, body := newStore(b), string(make([]byte, 500))
	b.ReportAllocs()
	for b.Loop() {
		ev := event(rand.Text(), body)
		ev.Headers = nil // as most sources have it
		if c, err := f.Claim(b.Context(), ev, "bench", terms, 0); err != nil || !c.Mine {
			b.Fatal(c, err)
		}
	}
}

// BenchmarkClaimByKey takes events that the inbox holds.
func BenchmarkClaimByKey(b *testing.B) {
	f, body := newStore(b), string(make([]byte, 500))
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		ev := event(rand.Text(), body)
		f.claim(b, ev, "other")
		f.exec(b, `UPDATE received_events SET status = 'received', lease_until = NULL WHERE event_id = $1`, ev.ID)
		b.StartTimer()
		f.claim(b, key(ev), "bench")
	}
}

// BenchmarkComplete ends claimed events, whose handlers do nothing.
func BenchmarkComplete(b *testing.B) {
	f, body := newStore(b), string(make([]byte, 500))
	nothing := func(context.Context, pgx.Tx) error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		c := f.claim(b, event(rand.Text(), body), "bench")
		b.StartTimer()
		if err := f.Attempt(b.Context(), c, nothing); err != nil {
			b.Fatal(err)
		}
	}
}

func floor(ctx context.Context, db *pgxpool.Pool, body string) error {
	ev := event(rand.Text(), body)
	const claim = `INSERT INTO received_events (source, event_id, event_type, status, attempt, payload, payload_sha256, content_type, delivery,
		received_at, started_at, lease_until, worker, sweep_at)
		VALUES ($1, $2, $3, 'processing', 1, $4, $5, $6, $7, $8, clock_timestamp(), clock_timestamp() + interval '20 s', 'bench', clock_timestamp() + interval '20 s')`
	if _, err := db.Exec(ctx, claim, ev.Source, ev.ID, ev.Type, ev.Body, ev.SHA256[:], ev.ContentType, ev.Delivery, ev.ReceivedAt); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, book, ev.Source, ev.ID, ev.Type, 42, 1); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE received_events SET status = 'completed', completed_at = clock_timestamp(), lease_until = NULL, sweep_at = NULL
			WHERE source = $1 AND event_id = $2`, ev.Source, ev.ID)
		return err
	})
}

func parallel(b *testing.B, f func(context.Context) error) {
	b.Helper()
	b.ReportAllocs()
	b.SetParallelism(8)
	b.ResetTimer() // the stack may just have been started
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := f(context.Background()); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
