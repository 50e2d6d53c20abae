package queue_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// keyOnly is what Postgres hands out of an event that is to be sent for.
func (r *rig) keyOnly(id string) webhook.Event {
	ev := r.event(id, "{}")
	return webhook.Event{
		Source: ev.Source, ID: ev.ID, Type: ev.Type, Delivery: ev.Delivery, ReceivedAt: ev.ReceivedAt, SHA256: ev.SHA256, KeyOnly: true,
	}
}

// activate does to a pending task what a server does that fetches it.
func (r *rig) activate(task string, lease time.Time) {
	r.t.Helper()
	ctx := r.t.Context()
	r.rdb.LRem(ctx, r.key("pending"), 0, task)
	r.rdb.LPush(ctx, r.key("active"), task)
	r.rdb.ZAdd(ctx, r.key("lease"), redis.Z{Score: float64(lease.Unix()), Member: task})
	r.rdb.HSet(ctx, r.key("t:"+task), "state", "active")
	r.rdb.HDel(ctx, r.key("t:"+task), "pending_since")
}

// wantPending wants the event to have exactly one task, which is pending.
func (r *rig) wantPending(id string) *asynq.TaskInfo {
	r.t.Helper()
	ctx := r.t.Context()
	for _, list := range []string{"pending", "active"} {
		want := 0
		if list == "pending" {
			want = 1
		}
		if n := len(r.rdb.LPosCount(ctx, r.key(list), queue.TaskID(id), 0, redis.LPosArgs{}).Val()); n != want {
			r.t.Errorf("%s holds %q %d times, want %d", list, id, n, want)
		}
	}
	for _, set := range []string{"lease", "retry", "scheduled", "archived", "completed"} {
		if err := r.rdb.ZScore(ctx, r.key(set), queue.TaskID(id)).Err(); !errors.Is(err, redis.Nil) {
			r.t.Errorf("%s holds %q: %v", set, id, err)
		}
	}
	info := r.info(id)
	if info.State != pending {
		r.t.Errorf("task of %q is %s, want pending", id, info.State)
	}
	return info
}

// meetings are the tasks that sending may meet.
var meetings = []struct {
	name     string
	make     func(r *rig, ev webhook.Event)
	sent     int  // what Send counts
	replaced bool // by a task that carries only the key
	alone    bool // left as it was
}{
	{"none", func(*rig, webhook.Event) {}, 1, true, false},
	{"pending", func(r *rig, ev webhook.Event) { r.bring(ev, pending) }, 0, false, true},
	{"scheduled", func(r *rig, ev webhook.Event) { r.bring(ev, scheduled) }, 0, false, true},
	{"retry", func(r *rig, ev webhook.Event) { r.bring(ev, retry) }, 0, false, true},
	{"active", func(r *rig, ev webhook.Event) {
		r.bring(ev, pending)
		r.activate(queue.TaskID(ev.ID), time.Now().Add(30*time.Second))
	}, 0, false, true},
	{"completed", func(r *rig, ev webhook.Event) { r.bring(ev, completed) }, 1, true, false},
	{"archived", func(r *rig, ev webhook.Event) { r.bring(ev, archived) }, 1, false, false},
	{"archived in no set", func(r *rig, ev webhook.Event) {
		r.bring(ev, archived)
		r.rdb.ZRem(r.t.Context(), r.key("archived"), queue.TaskID(ev.ID))
	}, 1, true, false},
	{"pending without message", func(r *rig, ev webhook.Event) {
		r.bring(ev, pending)
		r.rdb.HDel(r.t.Context(), r.key("t:"+queue.TaskID(ev.ID)), "msg")
	}, 1, true, false},
	{"active without message", func(r *rig, ev webhook.Event) {
		r.bring(ev, pending)
		r.activate(queue.TaskID(ev.ID), time.Now())
		r.rdb.HDel(r.t.Context(), r.key("t:"+queue.TaskID(ev.ID)), "msg")
	}, 1, true, false},
	{"result only", func(r *rig, ev webhook.Event) {
		r.rdb.HSet(r.t.Context(), r.key("t:"+queue.TaskID(ev.ID)), "result", "late")
	}, 1, true, false},
}

func TestSendMeets(t *testing.T) {
	t.Parallel()
	for _, tt := range meetings {
		for _, by := range []string{"EnqueueKey", "Send"} {
			t.Run(by+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				ev := r.event("a/b", "{}")
				tt.make(r, ev)
				before := r.contents()
				if by == "Send" {
					if n, err := r.client.Send(t.Context(), []webhook.Event{r.keyOnly("a/b")}); n != tt.sent || err != nil {
						t.Errorf("Send = %d, %v, want %d", n, err, tt.sent)
					}
				} else if err := r.client.EnqueueKey(t.Context(), r.keyOnly("a/b")); err != nil {
					t.Errorf("EnqueueKey = %v", err)
				}
				if tt.alone {
					if after := r.contents(); !maps.Equal(before, after) {
						t.Errorf("the queue has changed: %q, before %q", after, before)
					}
					return
				}
				info := r.wantPending("a/b")
				if key := info.Headers["key_only"] != "" && len(info.Payload) == 0; key != tt.replaced {
					t.Errorf("task has headers %q and body %q, want it replaced: %v", info.Headers, info.Payload, tt.replaced)
				}
				if n, err := r.client.Send(t.Context(), []webhook.Event{ev}); n != 0 || err != nil {
					t.Errorf("Send again = %d, %v, want 0", n, err)
				}
			})
		}
	}
}

// TestSendKey looks at what a processor gets of a task that carries only a key.
func TestSendKey(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	full := r.event("a/b", "{}") // what more it has, the task has not
	if err := r.client.EnqueueKey(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	p := new(processor)
	r.serve(p, nil)
	r.awaitState("a/b", completed)
	r.awaitState("evt_1", completed)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		if c.ev.ID == "evt_1" {
			if c.ev.KeyOnly || string(c.ev.Body) != "{}" {
				t.Errorf("a task with its body = %+v", c.ev)
			}
			continue
		}
		ev := c.ev
		if !ev.KeyOnly || len(ev.Body) != 0 || ev.ID != "a/b" || ev.Type != full.Type || ev.Delivery != full.Delivery ||
			ev.SHA256 != full.SHA256 || !ev.ReceivedAt.Equal(full.ReceivedAt) || ev.Source != r.source {
			t.Errorf("a task with its key = %+v, want that of %+v", ev, full)
		}
	}
}

// A counter counts what a client sends, in trips to Redis and back.
type counter struct {
	single, pipes, piped int
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" && cmd.Name() != "client" { // to connect takes trips of its own
			c.single++
		}
		return next(ctx, cmd)
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.pipes++
		c.piped += len(cmds)
		return next(ctx, cmds)
	}
}

// TestSendMany asks for 1,000 in one trip, and then sends only for those that
// have none.
func TestSendMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var events []webhook.Event
	for i := range 1000 {
		events = append(events, r.keyOnly(fmt.Sprint("evt/", i)))
	}
	if n, err := r.client.Send(t.Context(), events); n != 1000 || err != nil {
		t.Fatalf("Send = %d, %v, want 1000", n, err)
	}
	if n := r.rdb.LLen(t.Context(), r.key("pending")).Val(); n != 1000 {
		t.Errorf("%d tasks are pending, want 1000", n)
	}
	rdb := dial(t, r.url, queue.WorkerProfile(r.settings))
	trips := new(counter)
	rdb.AddHook(trips)
	client := queue.NewClient(rdb, r.settings)
	if n, err := client.Send(t.Context(), events); n != 0 || err != nil {
		t.Errorf("Send again = %d, %v, want 0", n, err)
	}
	if trips.single != 1 || trips.pipes != 1 || trips.piped != 1000 {
		t.Errorf("%+v, want the script loaded and one pipeline with a question for each", trips)
	}
	for _, i := range []int{0, 500, 999} {
		r.rdb.Del(t.Context(), r.key("t:"+queue.TaskID(events[i].ID)))
		r.rdb.LRem(t.Context(), r.key("pending"), 0, queue.TaskID(events[i].ID))
	}
	if n, err := client.Send(t.Context(), events); n != 3 || err != nil {
		t.Errorf("Send for the lost = %d, %v, want 3", n, err)
	}
	for _, i := range []int{0, 500, 999} {
		r.wantPending(events[i].ID)
	}
	if n, err := client.Send(t.Context(), nil); n != 0 || err != nil {
		t.Errorf("Send of none = %d, %v", n, err)
	}
}

// TestSendFails says for how many it has sent.
func TestSendFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	events := []webhook.Event{r.keyOnly("evt_1"), r.keyOnly("evt_2"), r.keyOnly("evt_3")}
	rdb := dial(t, r.url, queue.IngestProfile(5*time.Second))
	rdb.AddHook(hook{refuse: func(cmd redis.Cmder) error {
		if r.hasID(cmd, "evt_2") {
			return serverError("OOM command not allowed")
		}
		return nil
	}})
	n, err := queue.NewClient(rdb, r.settings).Send(t.Context(), events)
	if n != 1 || err == nil || !strings.Contains(err.Error(), "OOM") || !errors.Is(err, webhook.ErrNotHeld) {
		t.Errorf("Send = %d, %v, want 1 and why not more", n, err)
	}
	away := dial(t, "redis://127.0.0.1:1", queue.IngestProfile(time.Second))
	client := queue.NewClient(away, r.settings)
	if n, err := client.Send(t.Context(), events); n != 0 || err == nil {
		t.Errorf("Send without Redis = %d, %v, want an error", n, err)
	}
	if err := client.EnqueueKey(t.Context(), events[0]); !errors.Is(err, webhook.ErrNotHeld) {
		t.Errorf("EnqueueKey without Redis = %v, want %v", err, webhook.ErrNotHeld)
	}
}

// TestSendForgetsNot wraps what goes wrong when a task is replaced.
func TestSendForgetsNot(t *testing.T) {
	t.Parallel()
	for _, state := range []asynq.TaskState{completed, archived} {
		r := newRig(t)
		r.bring(r.event("evt_1", "{}"), state)
		r.rdb.ZRem(t.Context(), r.key("archived"), "evt_1") // broken, if it was archived
		rdb := dial(t, r.url, queue.IngestProfile(5*time.Second))
		rdb.AddHook(failingPipes{})
		err := queue.NewClient(rdb, r.settings).EnqueueKey(t.Context(), r.keyOnly("evt_1"))
		if !errors.Is(err, webhook.ErrNotHeld) || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("EnqueueKey over one that is %s = %v, want %v", state, err, webhook.ErrNotHeld)
		}
	}
}

// failingPipes refuses all pipelines.
type failingPipes struct{}

func (failingPipes) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (failingPipes) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (failingPipes) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return serverError("OOM command not allowed") }
}

// TestTaskInNoList finds tasks that have a state and are in no list that they
// could run from: they count as gone, for the provider and for the sweeper.
func TestTaskInNoList(t *testing.T) {
	t.Parallel()
	out := map[string]func(r *rig, task string){
		"pending, and the list is empty": func(r *rig, task string) { r.rdb.LRem(r.t.Context(), r.key("pending"), 0, task) },
		"pending, and others wait that came later": func(r *rig, task string) {
			r.rdb.LRem(r.t.Context(), r.key("pending"), 0, task)
			r.enqueue(r.event("later", "{}"))
		},
		"active": func(r *rig, task string) {
			r.activate(task, time.Now())
			r.rdb.LRem(r.t.Context(), r.key("active"), 0, task)
		},
		"retry": func(r *rig, task string) {
			r.rdb.LRem(r.t.Context(), r.key("pending"), 0, task)
			r.rdb.HSet(r.t.Context(), r.key("t:"+task), "state", "retry")
		},
	}
	for name, lose := range out {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, ask := range []string{"provider", "sweeper"} {
				r := newRig(t)
				ev := r.event("evt_1", "{}")
				r.enqueue(ev)
				lose(r, "evt_1")
				if ask == "sweeper" {
					if n, err := r.client.Send(t.Context(), []webhook.Event{r.keyOnly("evt_1")}); n != 1 || err != nil {
						t.Errorf("Send = %d, %v, want 1", n, err)
					}
				} else if got := r.enqueue(ev); got.Outcome != webhook.Accepted {
					t.Errorf("Enqueue = %+v, want it accepted anew", got)
				}
				r.wantPending("evt_1")
			}
		})
	}
}

// TestTasksThatWait stay as they are, also when the one whose turn it is was
// put back there and looks younger.
func TestTasksThatWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var events []webhook.Event
	for i := range 20 {
		r.enqueue(r.event(fmt.Sprint("evt_", i), "{}"))
		events = append(events, r.keyOnly(fmt.Sprint("evt_", i)))
	}
	r.activate("evt_7", time.Unix(0, 0))
	if done, err := queue.NewRepairer(r.rdb).Unstick(t.Context(), r.source, webhook.TaskRef{TaskID: "evt_7", EventID: "evt_7"}); !done || err != nil {
		t.Fatalf("Unstick = %v, %v", done, err)
	}
	if n, err := r.client.Send(t.Context(), events); n != 0 || err != nil {
		t.Errorf("Send = %d, %v, want none sent", n, err)
	}
	if n := r.rdb.LLen(t.Context(), r.key("pending")).Val(); n != 20 {
		t.Errorf("%d tasks are pending, want 20", n)
	}
}

// TestEnqueueKeysLate has the time run out at the first of many, whose old task
// is to be replaced: the others are sent, and so said to be.
func TestEnqueueKeysLate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bring(r.event("evt_0", "{}"), completed)
	ctx, cancel := context.WithCancel(t.Context())
	rdb := dial(t, r.url, queue.IngestProfile(20*time.Second))
	rdb.AddHook(hook{pipeline: func([]redis.Cmder) { cancel() }})
	var events []webhook.Event
	for n := range 30 {
		events = append(events, r.keyOnly(fmt.Sprint("evt_", n)))
	}
	for i, err := range queue.NewClient(rdb, r.settings).EnqueueKeys(ctx, events) {
		if i == 0 && !errors.Is(err, webhook.ErrNotHeld) || i > 0 && err != nil {
			t.Errorf("EnqueueKeys = %v for %s", err, events[i].ID)
		}
	}
}

// TestEnqueueKeys sends for many, whatever tasks they have, and says which it
// could not send for.
func TestEnqueueKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bring(r.event("evt_1", "{}"), completed)
	var events []webhook.Event
	for n := range 3 {
		events = append(events, r.keyOnly(fmt.Sprint("evt_", n)))
	}
	for i, err := range r.client.EnqueueKeys(t.Context(), events) {
		if err != nil {
			t.Errorf("EnqueueKeys = %v for %s", err, events[i].ID)
		}
		r.wantPending(events[i].ID)
	}
	scripts := 0
	rdb := asCluster(t, r.url)
	rdb.AddHook(hook{before: func(cmd redis.Cmder) {
		if strings.HasPrefix(cmd.Name(), "eval") {
			scripts++
		}
	}})
	events = nil
	for n := range 100 {
		events = append(events, r.keyOnly(fmt.Sprint("many_", n)))
	}
	if errs := queue.NewClient(rdb, r.settings).EnqueueKeys(t.Context(), events); slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		t.Errorf("EnqueueKeys = %v", errs)
	}
	if scripts != 1 {
		t.Errorf("%d scripts carried 100 keys, want 1", scripts)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	errs := r.client.EnqueueKeys(over, []webhook.Event{r.keyOnly("evt_3"), r.keyOnly("evt_4")})
	if len(errs) != 2 || !errors.Is(errs[0], webhook.ErrNotHeld) || !errors.Is(errs[1], webhook.ErrNotHeld) {
		t.Errorf("EnqueueKeys = %v, want %v for both", errs, webhook.ErrNotHeld)
	}
}
