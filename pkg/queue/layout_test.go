package queue_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/queue"
)

var listArgs = redis.LPosArgs{}

const layoutHint = "asynq's layout in Redis has changed: encode, enqueueTasks, meetTask, Forget, Look and fetched in pkg/queue rely on it, read them again: "

func TestVersion(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/hibiken/asynq v0.26.0") {
		t.Error("go.mod has not asynq v0.26.0, whose keys pkg/queue reads and writes: compare its scripts (internal/rdb) with ours first")
	}
}

// TestLayout pins how asynq itself, without our code, lays tasks out.
func TestLayout(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	client := asynq.NewClientFromRedisClient(r.rdb)
	put := func(id string, opts ...asynq.Option) {
		t.Helper()
		task := asynq.NewTaskWithHeaders("type", []byte("body"), map[string]string{"sha256": strings.Repeat("a", 64)})
		if _, err := client.Enqueue(task, append(opts, asynq.TaskID(id), asynq.Queue(r.source), asynq.Retention(time.Minute))...); err != nil {
			t.Fatal(err)
		}
	}
	put("later", asynq.ProcessIn(time.Hour))
	put("active")
	if !r.registered() {
		t.Error(layoutHint + "asynq:queues is not the set of queues")
	}
	r.wantLayout("later", "scheduled", "zset", "msg", "state")
	r.wantLayout("active", "pending", "list", "msg", "pending_since", "state")
	r.wantMessage("active")
	if err := r.inspector.PauseQueue(r.source); err != nil || r.rdb.Exists(t.Context(), r.key("paused")).Val() != 1 {
		t.Error(layoutHint+"no key paused", err)
	}
	if err := r.inspector.UnpauseQueue(r.source); err != nil {
		t.Fatal(err)
	}

	var fetched atomic.Value
	rdb := dial(t, r.url, queue.WorkerProfile(r.settings))
	rdb.AddHook(hook{before: func(cmd redis.Cmder) {
		if q, ok := queue.Fetched(cmd); ok {
			fetched.Store(q)
		}
	}})
	release := make(chan struct{})
	srv := asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Queues: map[string]int{r.source: 1}, TaskCheckInterval: 10 * time.Millisecond, LogLevel: asynq.FatalLevel,
	})
	err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		switch id, _ := asynq.GetTaskID(ctx); id {
		case "active":
			<-release
		case "retry":
			return errors.New("no")
		case "archived":
			return asynq.SkipRetry
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Shutdown()
	defer close(release)
	for _, id := range []string{"retry", "archived", "completed"} {
		put(id)
		r.eventually(layoutHint+id, func() bool { return r.rdb.ZScore(t.Context(), r.key(id), id).Err() == nil })
		r.wantLayout(id, id, "zset", "msg", "state")
		r.wantMessage(id)
	}
	r.wantLayout("active", "active", "list", "msg", "state")
	if n := r.rdb.LLen(t.Context(), r.key("pending")).Val(); n != 0 {
		t.Errorf(layoutHint+"%d tasks are pending and fetched", n)
	}
	if left := time.Until(time.Unix(int64(r.lease("active")), 0)); left < 20*time.Second || left > 31*time.Second {
		t.Errorf(layoutHint+"the lease's score is %s ahead, want 30 s", left)
	}
	if fetched.Load() != r.key("pending") {
		t.Error(layoutHint + "the dequeue script is not recognized, so a Redis that refuses it makes asynq spin")
	}
}

// wantLayout wants a task's hash to have a state and fields, and the set or
// list of the state's name to hold the task.
func (r *rig) wantLayout(id, state, kind string, fields ...string) {
	r.t.Helper()
	ctx := r.t.Context()
	hash, err := r.rdb.HGetAll(ctx, r.key("t:"+id)).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(hash)); !slices.Equal(got, fields) || hash["state"] != state {
		r.t.Errorf(layoutHint+"%s has the fields %q and the state %q, want %q and %q", r.key("t:"+id), got, hash["state"], fields, state)
	}
	if got := r.rdb.Type(ctx, r.key(state)).Val(); got != kind {
		r.t.Errorf(layoutHint+"%s is a %s, want a %s", r.key(state), got, kind)
		return
	}
	if kind == "list" {
		err = r.rdb.LPos(ctx, r.key(state), id, listArgs).Err()
	} else {
		err = r.rdb.ZScore(ctx, r.key(state), id).Err()
	}
	if err != nil {
		r.t.Errorf(layoutHint+"%s does not hold %s: %v", r.key(state), id, err)
	}
}

// wantMessage wants the headers in the message after the body and the last
// error, as the search for the body's hash needs it.
func (r *rig) wantMessage(id string) {
	r.t.Helper()
	msg, err := r.rdb.HGet(r.t.Context(), r.key("t:"+id), "msg").Result()
	if err != nil {
		r.t.Fatal(err)
	}
	header := strings.LastIndex(msg, "\n\x06sha256\x12@"+strings.Repeat("a", 64))
	if body := strings.Index(msg, "\x12\x04body"); header < 0 || body < 0 || body > header {
		r.t.Errorf(layoutHint+"the message is %q", msg)
	}
	if lastErr := max(strings.Index(msg, ":\x02no"), strings.Index(msg, asynq.SkipRetry.Error())); lastErr > header {
		r.t.Errorf(layoutHint+"the last error comes after the headers: %q", msg)
	}
}
