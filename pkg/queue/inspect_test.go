package queue_test

import (
	"context"
	"encoding/hex"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestLook(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := queue.Look(t.Context(), r.rdb, r.source, "a/b"); !errors.Is(err, webhook.ErrNotFound) {
		t.Errorf("Look for an unknown event = %v, want ErrNotFound", err)
	}
	ev := r.event("a/b", "\x00{}")
	r.enqueue(ev)
	r.unregister()
	got, err := queue.Look(t.Context(), r.rdb, r.source, "a/b")
	if err != nil {
		t.Fatal(err)
	}
	want := webhook.Record{
		Source: r.source, EventID: "a/b", EventType: "thing.made", Status: webhook.Queued,
		PayloadSHA256: hex.EncodeToString(ev.SHA256[:]), Payload: ev.Body, ContentType: "application/json",
		Headers: ev.Headers, Delivery: ev.Delivery, ReceivedAt: ev.ReceivedAt,
	}
	if got.NextAttemptAt == nil || time.Since(*got.NextAttemptAt).Abs() > time.Minute {
		t.Errorf("the next attempt is at %v, want now", got.NextAttemptAt)
	}
	got.NextAttemptAt = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Look = %+v, want %+v", got, want)
	}
	if !r.registered() {
		t.Error("the queue is not registered")
	}
}

func TestLookRetry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bring(r.event("evt_1", "{}"), retry)
	got, err := queue.Look(t.Context(), r.rdb, r.source, "evt_1")
	if err != nil || got.LastError != "no" || got.NextAttemptAt == nil || time.Until(*got.NextAttemptAt) < 50*time.Minute {
		t.Errorf("Look = %+v, %v", got, err)
	}
}

func TestLookForeignTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := asynq.NewClientFromRedisClient(r.rdb).Enqueue(asynq.NewTask("by hand", nil), asynq.TaskID("evt_1"), asynq.Queue(r.source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queue.Look(t.Context(), r.rdb, r.source, "evt_1"); err == nil || errors.Is(err, webhook.ErrNotFound) {
		t.Errorf("Look = %v, want an error that says what is there", err)
	}
}

func TestForget(t *testing.T) {
	t.Parallel()
	for _, state := range []asynq.TaskState{pending, scheduled, retry, completed, archived} {
		t.Run(state.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.bring(r.event("a/b", "{}"), state)
			r.wantForgotten("a/b")
		})
	}
	t.Run("active", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		release := make(chan struct{})
		r.serve(&processor{process: func(context.Context, webhook.Event, int) error { <-release; return nil }}, nil)
		t.Cleanup(func() { close(release) }) // before the server's
		r.enqueue(r.event("a/b", "{}"))
		r.awaitState("a/b", active)
		r.wantForgotten("a/b")
	})
}

// wantForgotten forgets an event and sees that it is a new one then.
func (r *rig) wantForgotten(id string) {
	r.t.Helper()
	ctx := r.t.Context()
	lock := "hookonce:{" + r.source + "}:lock:" + id
	if err := r.rdb.Set(ctx, lock, "token", time.Minute).Err(); err != nil {
		r.t.Fatal(err)
	}
	if err := queue.Forget(ctx, r.rdb, r.source, id); err != nil {
		r.t.Fatal(err)
	}
	task := queue.TaskID(id)
	if n := r.rdb.Exists(ctx, lock, r.key("t:"+task)).Val(); n != 0 {
		r.t.Error("the lock or the task is left")
	}
	for _, list := range []string{"pending", "active"} {
		if r.rdb.LPos(ctx, r.key(list), task, listArgs).Err() == nil {
			r.t.Errorf("the task is left in %s", list)
		}
	}
	for _, set := range []string{"lease", "scheduled", "retry", "archived", "completed"} {
		if r.rdb.ZScore(ctx, r.key(set), task).Err() == nil {
			r.t.Errorf("the task is left in %s", set)
		}
	}
	r.wantOutcome(r.event(id, "{}"), webhook.Accepted)
}
