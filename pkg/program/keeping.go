package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/custody"
	"github.com/hookonce/hookonce/pkg/httpserve"
	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/replay"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/telemetry"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// keeping is the part of ingest that holds events: the queue, the inbox if
// there is a database, and what decides between them.
type keeping struct {
	cfg    config.Ingest
	rdb    redis.UniversalClient
	memory *queue.Memory
	log    *slog.Logger
	exam   *exam

	store  *postgres.Store // nil without a database
	inbox  *postgres.Inbox
	keeper *custody.Keeper
	marks  *replay.Marks
	same   atomic.Pointer[func(source string, a, b []byte) bool] // as the sources in use say
}

// inboxConnections is ingest's pool: the inbox's four writers, what hastens its
// events, and the probe.
const inboxConnections = 6

// fairTime is what a store must have had before it is to blame for being late.
const fairTime = 100 * time.Millisecond

func (k *keeping) open(ctx context.Context, metrics *telemetry.Metrics) error {
	k.keeper = &custody.Keeper{
		Mode:     custody.Mode(k.cfg.Ack),
		Room:     k.memory.Room,
		Fallback: func() bool { return k.cfg.Fallback == "redis" && (k.cfg.Persistent || k.memory.Persists()) },
		Redis:    custody.NewBreaker("redis", func(ctx context.Context) error { return queue.Ping(ctx, k.rdb) }, k.log),
		Postgres: custody.NewBreaker("postgres", func(ctx context.Context) error { return k.store.Ping(ctx) }, k.log),
		Fair:     min(fairTime, k.cfg.AckTimeout/2),
	}
	k.marks = replay.New(k.rdb, k.log)
	metrics.Away("redis", k.keeper.Redis.Open)
	if k.cfg.DatabaseURL == "" {
		return nil
	}
	metrics.Away("postgres", k.keeper.Postgres.Open)
	var err error
	if k.store, err = postgres.OpenInbox(ctx, k.cfg.DatabaseURL, inboxConnections); err != nil {
		return err
	}
	k.store.CompareBy(func(source string, a, b []byte) bool { return (*k.same.Load())(source, a, b) })
	k.inbox = k.store.NewInbox()
	k.keeper.Inbox = k.inbox
	k.keeper.Sender = custody.NewSender(k.inbox, k.keeper.Room, k.keeper.Redis)
	return nil
}

// holder puts sources to use and returns the keeper as it is for them: what their
// tasks are like is said when they are sent.
func (k *keeping) holder(sources []source.Source) *custody.Keeper {
	same := sameBody(sources)
	k.same.Store(&same)
	keeper := *k.keeper
	keeper.Queue = queue.NewClient(k.rdb, queueSettings(sources))
	if keeper.Sender != nil {
		keeper.Sender.Use(keeper.Queue)
	}
	return &keeper
}

func (k *keeping) close() {
	if k.store != nil {
		k.store.Close()
	}
}

// serve runs f with all that holds events beside it, which ends after f.
func (k *keeping) serve(ctx context.Context, f func(context.Context) error) error {
	beside, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	fs := []func(context.Context) error{k.memory.Run, k.marks.Run, k.keeper.Redis.Run, k.keeper.Postgres.Run, k.exam.Run}
	if k.inbox != nil {
		fs = append(fs, k.inbox.Run)
	}
	done := make(chan error, 1)
	go func() { done <- together(beside, fs...) }()
	err := f(ctx)
	if k.keeper.Sender != nil {
		k.keeper.Sender.Wait()
	}
	stop()
	return errors.Join(err, <-done)
}

// checks say whether an event can be held now: one store is enough, but where
// only one is left of two, that is said.
func (k *keeping) checks() []httpserve.Check {
	if k.store == nil {
		return []httpserve.Check{k.exam.redisCheck()}
	}
	return []httpserve.Check{{Name: "stores", Run: func(ctx context.Context) (string, error) {
		redisErr := queue.Ping(ctx, k.rdb)
		storeErr := k.store.Ping(ctx)
		switch {
		case redisErr != nil && storeErr != nil:
			return "", fmt.Errorf("%w; %w", redisErr, storeErr)
		case redisErr != nil:
			return fmt.Sprintf("degraded: Postgres alone holds events: %v", redisErr), nil
		case storeErr != nil && !k.keeper.Fallback() && k.keeper.Mode == custody.InboxFirst:
			return "", fmt.Errorf("%w, and Redis may not hold events instead: %w", webhook.ErrUnavailable, storeErr)
		case storeErr != nil:
			return fmt.Sprintf("degraded: Redis alone holds events, as long as it keeps them: %v", storeErr), nil
		}
		return k.exam.note(), nil
	}}}
}
