package queue_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// bring enqueues ev and lets a server bring its task into a state, where it
// stays since the server ends.
func (r *rig) bring(ev webhook.Event, state asynq.TaskState) {
	r.t.Helper()
	switch state {
	case scheduled:
		t := queue.NewTask(ev, false)
		_, err := asynq.NewClientFromRedisClient(r.rdb).Enqueue(t, asynq.TaskID(queue.TaskID(ev.ID)), asynq.Queue(ev.Source), asynq.ProcessIn(time.Hour))
		if err != nil {
			r.t.Fatal(err)
		}
		return
	case pending:
		r.wantOutcome(ev, webhook.Accepted)
		return
	}
	var err error
	switch state {
	case retry:
		err = &webhook.RetryError{After: time.Hour, Failed: true, Err: errors.New("no")}
	case archived:
		err = &webhook.DeadError{Attempt: 3, Reason: "no"}
	}
	r.wantOutcome(ev, webhook.Accepted)
	s := r.serve(answering(err), nil)
	r.awaitState(ev.ID, state)
	s.stop()
}

// The task that is there stays as it is.
func TestMeetLeavesAlone(t *testing.T) {
	t.Parallel()
	for state, want := range map[asynq.TaskState]webhook.Receipt{
		pending:   {Outcome: webhook.Duplicate, Layer: "taskid"},
		scheduled: {Outcome: webhook.Duplicate, Layer: "taskid"},
		retry:     {Outcome: webhook.Duplicate, Layer: "taskid"},
		completed: {Outcome: webhook.Duplicate, Layer: "taskid", Done: true},
	} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			ev := r.event("evt_1", "{}")
			r.bring(ev, state)
			before := r.contents()
			ev.Delivery = "a second one"
			if got := r.enqueue(ev); got != want {
				t.Errorf("Enqueue = %+v, want %+v", got, want)
			}
			if after := r.contents(); !maps.Equal(before, after) {
				t.Errorf("the queue has changed: %q, before %q", after, before)
			}
		})
	}
}

func TestMeetActive(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ev := r.event("evt_1", "{}")
	release := make(chan struct{})
	p := &processor{process: func(context.Context, webhook.Event, int) error { <-release; return nil }}
	r.serve(p, nil)
	r.wantOutcome(ev, webhook.Accepted)
	r.awaitState("evt_1", active)
	if got := r.enqueue(ev); got != (webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}) {
		t.Errorf("Enqueue = %+v, want a duplicate that is not done", got)
	}
	close(release)
	r.awaitState("evt_1", completed)
	if n := p.count(); n != 1 {
		t.Errorf("processed %d times", n)
	}
}

func TestMeetArchived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ev := r.event("a/b", "{}")
	r.bring(ev, archived)
	r.unregister()
	if got := r.enqueue(ev); got != (webhook.Receipt{Outcome: webhook.Requeued}) {
		t.Errorf("Enqueue = %+v, want requeued", got)
	}
	if !r.registered() {
		t.Error("the queue is not registered")
	}
	if got := r.info("a/b"); got.State != pending || got.LastErr != "dead at attempt 3: no" {
		t.Errorf("task is %s with the last error %q", got.State, got.LastErr)
	}
	if q, err := r.inspector.GetQueueInfo(r.source); err != nil || q.Pending != 1 || q.Archived != 0 {
		t.Errorf("queue = %+v, %v, want 1 pending", q, err)
	}
	if got := r.enqueue(ev); got != (webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}) {
		t.Errorf("second Enqueue = %+v, want a duplicate", got)
	}
	p := new(processor)
	r.serve(p, nil)
	r.awaitState("a/b", completed)
}

// hasID finds the script that enqueues a task: it is told the prefix, and then
// each message, beside the key.
func (r *rig) hasID(cmd redis.Cmder, id string) bool {
	args := cmd.Args()
	return len(args) > 4 && args[len(args)-1] != r.key("") && slices.Contains(args, any(r.key("t:"+queue.TaskID(id)))) && slices.Contains(args, any(r.key("")))
}

// What can never run does not hold an event.
func TestMeetBroken(t *testing.T) {
	t.Parallel()
	tests := map[string]func(r *rig){
		"no message": func(r *rig) {
			r.bring(r.event("evt_1", "{}"), pending)
			r.rdb.HDel(r.t.Context(), r.key("t:evt_1"), "msg")
		},
		"no state": func(r *rig) {
			r.bring(r.event("evt_1", "{}"), pending)
			r.rdb.HDel(r.t.Context(), r.key("t:evt_1"), "state")
		},
		"result only": func(r *rig) { r.rdb.HSet(r.t.Context(), r.key("t:evt_1"), "result", "late") },
		"archived in no set": func(r *rig) {
			r.bring(r.event("evt_1", "{}"), archived)
			r.rdb.ZRem(r.t.Context(), r.key("archived"), "evt_1")
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			spoil(r)
			before := r.contents()
			err := wantNotHeld(t, r.client, r.event("evt_1", "{}"), 5*time.Second)
			if !strings.Contains(err.Error(), "lost its message") {
				t.Errorf("error %q does not say what is wrong", err)
			}
			if after := r.contents(); !maps.Equal(before, after) {
				t.Errorf("the queue has changed: %q, before %q", after, before)
			}
		})
	}
}

func TestOtherBody(t *testing.T) {
	t.Parallel()
	for _, state := range []asynq.TaskState{pending, retry, completed, archived} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.bring(r.event("a/b", "first"), state)
			if got := r.enqueue(r.event("a/b", "first")); got.OtherBody {
				t.Errorf("Enqueue of the same body = %+v", got)
			}
			second := r.event("a/b", "second")
			if got := r.enqueue(second); !got.OtherBody || got.Outcome != webhook.Duplicate {
				t.Errorf("Enqueue of another body = %+v", got)
			}
			info, err := r.inspector.GetTaskInfo(r.source, queue.ConflictID("a/b", second.SHA256))
			if err != nil {
				t.Fatal(err)
			}
			if string(info.Payload) != "second" || info.Headers["conflict"] != "1" || info.Headers["event_id"] != "a/b" {
				t.Errorf("conflict task has %q, %q", info.Payload, info.Headers)
			}
			before := r.contents()
			if got := r.enqueue(second); !got.OtherBody {
				t.Errorf("Enqueue of the other body again = %+v", got)
			}
			if after := r.contents(); !maps.Equal(before, after) {
				t.Errorf("the queue has changed: %q, before %q", after, before)
			}
		})
	}
}

// A second body that is held nowhere is not acknowledged.
func TestOtherBodyNotHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wantOutcome(r.event("evt_1", "first"), webhook.Accepted)
	second := r.event("evt_1", "second")
	rdb := dial(t, r.url, queue.IngestProfile(5*time.Second))
	rdb.AddHook(hook{refuse: func(cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 3 && args[3] == r.key("t:"+queue.ConflictID("evt_1", second.SHA256)) {
			return serverError("OOM command not allowed")
		}
		return nil
	}})
	wantNotHeld(t, queue.NewClient(rdb, r.settings), second, 5*time.Second)
}

// A body may hold the bytes that the script looks for.
func TestOtherBodyNotFooled(t *testing.T) {
	t.Parallel()
	trap := "\n\x06sha256\x12@" + strings.Repeat("0", 64)
	for name, body := range map[string]string{"once": trap, "often": strings.Repeat(trap+"x", 9), "cut": trap + trap[:20]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for n := range 20 { // protobuf writes the headers in any order
				id := strconv.Itoa(n)
				r.wantOutcome(r.event(id, body), webhook.Accepted)
				if got := r.enqueue(r.event(id, body)); got != (webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}) {
					t.Errorf("Enqueue of the same body = %+v", got)
				}
				if got := r.enqueue(r.event(id, "{}")); !got.OtherBody {
					t.Errorf("Enqueue of another body = %+v", got)
				}
			}
		})
	}
}

// A second body that differs only in what its provider changes is none.
func TestSameBody(t *testing.T) {
	t.Parallel()
	for _, state := range []asynq.TaskState{pending, retry, completed, archived} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.settings[r.source]
			s.Same = func(a, b []byte) bool { return string(a[:5]) == string(b[:5]) }
			r.settings[r.source] = s
			r.bring(r.event("evt_1", "first 1"), state)
			if got := r.enqueue(r.event("evt_1", "first 2")); got.OtherBody {
				t.Errorf("Enqueue of what is the same = %+v", got)
			}
			if got := r.enqueue(r.event("evt_1", "other 1")); !got.OtherBody {
				t.Errorf("Enqueue of another body = %+v", got)
			}
		})
	}
}
