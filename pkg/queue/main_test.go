package queue_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// A rig is one source on a Redis, and the client that fills its queue.
type rig struct {
	t         *testing.T
	url       string
	source    string
	settings  map[string]queue.Settings
	rdb       redis.UniversalClient
	client    *queue.Client
	inspector *asynq.Inspector
}

func newRig(t *testing.T) *rig {
	t.Helper()
	return rigOn(t, stacktest.Redis(t), stacktest.Source(t))
}

// privateRig has a Redis of its own, to be flushed, filled or paused.
func privateRig(t *testing.T) (*rig, *devstack.Server) {
	t.Helper()
	stack := stacktest.Private(t, devstack.Options{DatabaseURL: "postgres://127.0.0.1:1/none"})
	return rigOn(t, stack.RedisURL, stacktest.Source(t)), stack.Redis
}

func rigOn(t *testing.T, url, source string) *rig {
	t.Helper()
	settings := map[string]queue.Settings{source: {Timeout: 15 * time.Second, Retention: time.Minute, Concurrency: 4}}
	rdb := dial(t, url, queue.WorkerProfile(settings))
	return &rig{
		t: t, url: url, source: source, settings: settings, rdb: rdb,
		client:    queue.NewClient(rdb, settings),
		inspector: asynq.NewInspectorFromRedisClient(rdb),
	}
}

func dial(t *testing.T, url string, p queue.Profile) redis.UniversalClient {
	t.Helper()
	rdb, err := queue.Dial(url, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// retain sets how long done tasks are kept.
func (r *rig) retain(d time.Duration) {
	s := r.settings[r.source]
	s.Retention = d
	r.settings[r.source] = s
}

func (r *rig) event(id, body string) webhook.Event {
	return webhook.Event{
		Source: r.source, ID: id, Type: "thing.made", Delivery: "delivery of " + id, ContentType: "application/json",
		Headers:    map[string]string{"X-Kept": "yes"},
		ReceivedAt: time.Date(2030, 1, 2, 12, 0, 0, 123456789, time.UTC),
		Body:       []byte(body), SHA256: sha256.Sum256([]byte(body)),
	}
}

func (r *rig) enqueue(ev webhook.Event) webhook.Receipt {
	r.t.Helper()
	receipt, err := r.client.Enqueue(r.t.Context(), ev)
	if err != nil {
		r.t.Fatal(err)
	}
	return receipt
}

// wantOutcome enqueues ev.
func (r *rig) wantOutcome(ev webhook.Event, want webhook.Outcome) {
	r.t.Helper()
	if got := r.enqueue(ev); got.Outcome != want {
		r.t.Errorf("Enqueue(%q) = %+v, want %s", ev.ID, got, want)
	}
}

// info is what asynq knows of an event's task.
func (r *rig) info(id string) *asynq.TaskInfo {
	r.t.Helper()
	info, err := r.inspector.GetTaskInfo(r.source, queue.TaskID(id))
	if err != nil {
		r.t.Fatalf("task of %q: %v", id, err)
	}
	return info
}

// awaitState waits until asynq has the event's task in a state.
func (r *rig) awaitState(id string, want asynq.TaskState) *asynq.TaskInfo {
	r.t.Helper()
	r.eventually("task of "+id+" is "+want.String(), func() bool { return r.field(id, "state") == want.String() })
	return r.info(id)
}

func (r *rig) awaitGone(id string) {
	r.t.Helper()
	r.eventually("task of "+id+" is gone", func() bool { return r.field(id, "state") == "" })
}

// field is one of a task's hash, or "".
func (r *rig) field(id, name string) string {
	r.t.Helper()
	v, err := r.rdb.HGet(r.t.Context(), r.key("t:"+queue.TaskID(id)), name).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		r.t.Fatal(err)
	}
	return v
}

func (r *rig) key(name string) string { return "asynq:{" + r.source + "}:" + name }

// unregister makes the queue as invisible as a DEL of asynq:queues, which
// would disturb other tests.
func (r *rig) unregister() {
	r.t.Helper()
	if err := r.rdb.SRem(r.t.Context(), "asynq:queues", r.source).Err(); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) registered() bool {
	r.t.Helper()
	is, err := r.rdb.SIsMember(r.t.Context(), "asynq:queues", r.source).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return is
}

// contents is all that Redis holds of the source, by key.
func (r *rig) contents() map[string]string {
	r.t.Helper()
	keys, err := r.rdb.Keys(r.t.Context(), "*:{"+r.source+"}:*").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	all := map[string]string{}
	for _, k := range keys {
		all[k] = r.content(k)
	}
	return all
}

// content is read by type, since the stand-in for Redis cannot DUMP.
func (r *rig) content(key string) string {
	ctx := r.t.Context()
	switch kind := r.rdb.Type(ctx, key).Val(); kind {
	case "hash":
		return fmt.Sprint(r.rdb.HGetAll(ctx, key).Result())
	case "list":
		return fmt.Sprint(r.rdb.LRange(ctx, key, 0, -1).Result())
	case "zset":
		return fmt.Sprint(r.rdb.ZRangeWithScores(ctx, key, 0, -1).Result())
	case "string":
		return fmt.Sprint(r.rdb.Get(ctx, key).Result())
	default:
		return kind
	}
}

func (r *rig) eventually(what string, is func() bool) {
	r.t.Helper()
	eventually(r.t, what, is)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in 20 s: %s", what)
		}
	}
}

// A call is one of a processor's.
type call struct {
	ev     webhook.Event
	revive int
}

// A processor answers with process, or nil, and notes its calls.
type processor struct {
	process func(ctx context.Context, ev webhook.Event, revive int) error

	mu    sync.Mutex
	calls []call
	kept  []webhook.Event
}

func (p *processor) Process(ctx context.Context, ev webhook.Event, revive int) error {
	p.mu.Lock()
	p.calls = append(p.calls, call{ev, revive})
	p.mu.Unlock()
	if p.process == nil {
		return nil
	}
	return p.process(ctx, ev, revive)
}

func (p *processor) KeepConflict(_ context.Context, ev webhook.Event) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = append(p.kept, ev)
	return nil
}

// revivals are the values of revive of all calls so far.
func (p *processor) revivals() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []int
	for _, c := range p.calls {
		all = append(all, c.revive)
	}
	return all
}

func (p *processor) count() int { return len(p.revivals()) }

// answering is a processor that returns errs one after the other, then nil.
func answering(errs ...error) *processor {
	next := make(chan error, len(errs))
	for _, err := range errs {
		next <- err
	}
	close(next)
	return &processor{process: func(context.Context, webhook.Event, int) error { return <-next }}
}

// A serving is a Serve that runs.
type serving struct {
	t    *testing.T
	end  context.CancelFunc
	done chan struct{}
	err  error // read it after done
	log  *logBuffer
}

// serve runs a server on a Redis client of its own until stop or the end of the
// test. configure may be nil.
func (r *rig) serve(p queue.Processor, configure func(*queue.Server, redis.UniversalClient)) *serving {
	r.t.Helper()
	rdb := dial(r.t, r.url, queue.WorkerProfile(r.settings))
	s := &serving{t: r.t, done: make(chan struct{}), log: new(logBuffer)}
	srv := queue.NewServer(rdb, r.settings, p, slog.New(slog.NewTextHandler(s.log, nil)))
	if configure != nil {
		configure(srv, rdb)
	}
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	go func() {
		defer close(s.done)
		s.err = srv.Serve(ctx)
	}()
	r.t.Cleanup(s.stop)
	return s
}

func (s *serving) stop() {
	s.t.Helper()
	s.end()
	select {
	case <-s.done:
		if s.err != nil {
			s.t.Errorf("Serve: %v", s.err)
		}
	case <-time.After(30 * time.Second):
		s.t.Fatal("Serve does not return")
	}
}

// A logBuffer may be written by many goroutines.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// A hook sees each command before and after it is sent, and may refuse to send
// it. Any of them may be nil.
type hook struct {
	before, after func(cmd redis.Cmder)
	refuse        func(cmd redis.Cmder) error
	pipeline      func(cmds []redis.Cmder) // before it is sent
}

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.pipeline != nil {
			h.pipeline(cmds)
		}
		return next(ctx, cmds)
	}
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.before != nil {
			h.before(cmd)
		}
		if h.refuse != nil {
			if err := h.refuse(cmd); err != nil {
				cmd.SetErr(err)
				return err
			}
		}
		err := next(ctx, cmd)
		if h.after != nil {
			h.after(cmd)
		}
		return err
	}
}
