package queue_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func (r *rig) stuck(repairer *queue.Repairer) []webhook.TaskRef {
	r.t.Helper()
	refs, err := repairer.Stuck(r.t.Context(), r.source)
	if err != nil {
		r.t.Fatal(err)
	}
	slices.SortFunc(refs, func(a, b webhook.TaskRef) int { return strings.Compare(a.EventID, b.EventID) })
	return refs
}

func ref(eventID string) webhook.TaskRef {
	return webhook.TaskRef{TaskID: queue.TaskID(eventID), EventID: eventID}
}

// TestStuck finds the tasks whose server has not renewed their lease for 12 s.
func TestStuck(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	repairer := queue.NewRepairer(r.rdb)
	if got := r.stuck(repairer); len(got) != 0 {
		t.Errorf("Stuck of nothing = %v", got)
	}
	now := time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)
	repairer.SetNow(func() time.Time { return now })
	for id, ahead := range map[string]time.Duration{"fresh": 30 * time.Second, "renewed 12 s ago": 18 * time.Second, "a/b": 17 * time.Second, "old": -time.Hour} {
		r.wantOutcome(r.event(id, "{}"), webhook.Accepted)
		r.activate(queue.TaskID(id), now.Add(ahead))
	}
	r.wantOutcome(r.event("none", "{}"), webhook.Accepted)
	r.activate("none", now)
	r.rdb.ZRem(t.Context(), r.key("lease"), "none")
	r.wantOutcome(r.event("pending", "{}"), webhook.Accepted)
	if got, want := r.stuck(repairer), []webhook.TaskRef{ref("a/b"), ref("none"), ref("old")}; !slices.Equal(got, want) {
		t.Errorf("Stuck = %v, want %v", got, want)
	}
	if other, err := repairer.Stuck(t.Context(), r.source+"-other"); len(other) != 0 || err != nil {
		t.Errorf("Stuck of another source = %v, %v", other, err)
	}
	now = now.Add(time.Minute)
	if got := r.stuck(repairer); len(got) != 5 {
		t.Errorf("Stuck a minute later = %v, want all five that are active", got)
	}
}

// TestStuckConflict has a second body on its way: it is of no event that could
// be at work.
func TestStuckConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wantOutcome(r.event("evt_1", "first"), webhook.Accepted)
	second := r.event("evt_1", "second")
	r.enqueue(second)
	id := queue.ConflictID("evt_1", second.SHA256)
	r.activate(id, time.Now())
	repairer := queue.NewRepairer(r.rdb)
	if got := r.stuck(repairer); len(got) != 1 || got[0] != (webhook.TaskRef{TaskID: id}) {
		t.Errorf("Stuck = %+v, want %s and no event", got, id)
	}
	// Nor is anything told of one whose message is lost.
	r.wantOutcome(r.event("a/b", "{}"), webhook.Accepted)
	r.activate(queue.TaskID("a/b"), time.Now())
	r.rdb.Del(t.Context(), r.key("t:"+queue.TaskID("a/b")))
	r.rdb.LRem(t.Context(), r.key("active"), 0, id)
	if got := r.stuck(repairer); len(got) != 1 || got[0] != (webhook.TaskRef{TaskID: queue.TaskID("a/b")}) {
		t.Errorf("Stuck = %+v, want the task and no event", got)
	}
}

// TestUnstick brings a task back, as the next of its queue.
func TestUnstick(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	repairer := queue.NewRepairer(r.rdb)
	for _, id := range []string{"a/b", "evt_2", "evt_3"} {
		r.wantOutcome(r.event(id, "{}"), webhook.Accepted)
	}
	task := ref("a/b")
	r.activate(task.TaskID, time.Now())
	var trues atomic.Int32
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			done, err := repairer.Unstick(context.Background(), r.source, task)
			if err != nil {
				t.Error(err)
			}
			if done {
				trues.Add(1)
			}
		})
	}
	wg.Wait()
	if n := trues.Load(); n != 1 {
		t.Errorf("%d of two callers freed it, want one", n)
	}
	if info := r.wantPending("a/b"); string(info.Payload) != "{}" {
		t.Errorf("body = %q", info.Payload)
	}
	if since := r.field("a/b", "pending_since"); since != "" { // else it would look younger than those behind it
		t.Errorf("pending since %q", since)
	}
	if next := r.rdb.LIndex(ctx, r.key("pending"), -1).Val(); next != task.TaskID {
		t.Errorf("next is %s, want the task", next)
	}
	p := &processor{}
	r.serve(p, nil)
	for _, id := range []string{"a/b", "evt_2", "evt_3"} {
		r.awaitState(id, completed)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls[0].ev.ID != "a/b" && p.calls[1].ev.ID != "a/b" { // several at once
		t.Errorf("%s ran first", p.calls[0].ev.ID)
	}
}

func TestUnstickNot(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(r *rig)
	}{
		{"lease renewed", func(r *rig) { r.activate("evt_1", time.Now().Add(30*time.Second)) }},
		{"pending", func(*rig) {}},
		{"retry", func(r *rig) {
			r.rdb.LRem(r.t.Context(), r.key("pending"), 0, "evt_1")
			r.rdb.ZAdd(r.t.Context(), r.key("retry"), redis.Z{Score: 1, Member: "evt_1"})
			r.rdb.HSet(r.t.Context(), r.key("t:evt_1"), "state", "retry")
		}},
		{"gone", func(r *rig) {
			r.rdb.Del(r.t.Context(), r.key("t:evt_1"))
			r.rdb.LRem(r.t.Context(), r.key("pending"), 0, "evt_1")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
			tt.spoil(r)
			before := fmt.Sprint(r.contents())
			if done, err := queue.NewRepairer(r.rdb).Unstick(t.Context(), r.source, ref("evt_1")); done || err != nil {
				t.Errorf("Unstick = %v, %v, want false", done, err)
			}
			if after := fmt.Sprint(r.contents()); after != before {
				t.Errorf("the queue has changed: %s, before %s", after, before)
			}
		})
	}
}

// TestUnstickBroken deletes what can never run, so that it can be sent for.
func TestUnstickBroken(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"msg", "all"} {
		r := newRig(t)
		r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
		r.activate("evt_1", time.Now())
		if field == "msg" {
			r.rdb.HDel(t.Context(), r.key("t:evt_1"), "msg")
		} else {
			r.rdb.Del(t.Context(), r.key("t:evt_1"))
		}
		if done, err := queue.NewRepairer(r.rdb).Unstick(t.Context(), r.source, ref("evt_1")); !done || err != nil {
			t.Errorf("Unstick without %s = %v, %v, want true", field, done, err)
		}
		if left := r.contents(); len(left) != 0 {
			t.Errorf("left without %s: %q", field, left)
		}
		if err := r.client.EnqueueKey(t.Context(), r.keyOnly("evt_1")); err != nil {
			t.Error(err)
		}
		r.wantPending("evt_1")
	}
}

// TestStuckNotOfALiveServer has asynq itself renew the lease of an attempt that
// takes longer than a lease would last unrenewed past the limit.
func TestStuckNotOfALiveServer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	repairer := queue.NewRepairer(r.rdb)
	release := make(chan struct{})
	p := &processor{process: func(context.Context, webhook.Event, int) error { <-release; return nil }}
	r.serve(p, nil)
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	r.awaitState("evt_1", active)
	first := r.lease("evt_1")
	looked := 0
	r.eventually("asynq renews the lease twice", func() bool {
		if got := r.stuck(repairer); len(got) != 0 {
			t.Fatalf("Stuck = %v while the server lives", got)
		}
		looked++
		return r.lease("evt_1") >= first+10
	})
	if looked < 10 {
		t.Errorf("looked %d times", looked)
	}
	// Were it dead from now on, it would be noticed by the time at which a lease of 30 s has 18 s left.
	repairer.SetNow(func() time.Time { return time.Now().Add(13 * time.Second) })
	if got := r.stuck(repairer); len(got) != 1 {
		t.Errorf("Stuck 13 s after the last renewal = %v, want the task", got)
	}
	close(release)
	r.awaitState("evt_1", completed)
	if got := r.stuck(repairer); len(got) != 0 {
		t.Errorf("Stuck afterwards = %v", got)
	}
}

// bury puts n archived tasks into the queue, which died one after the other.
func (r *rig) bury(n int) {
	r.t.Helper()
	for i := range n {
		id := fmt.Sprintf("evt/%03d", i)
		r.wantOutcome(r.event(id, "{}"), webhook.Accepted)
		task := queue.TaskID(id)
		ctx := r.t.Context()
		r.rdb.LRem(ctx, r.key("pending"), 0, task)
		r.rdb.ZAdd(ctx, r.key("archived"), redis.Z{Score: float64(1000 + i), Member: task})
		r.rdb.HSet(ctx, r.key("t:"+task), "state", "archived")
	}
}

func TestArchived(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	repairer := queue.NewRepairer(r.rdb)
	r.bury(10)
	for but, want := range map[int]int{0: 10, 7: 3, 9: 1, 10: 0, 100: 0} {
		refs, err := repairer.Archived(ctx, r.source, but)
		if err != nil || len(refs) != want {
			t.Errorf("Archived but %d = %v, %v, want %d", but, refs, err, want)
		}
		for i, got := range refs {
			if want := ref(fmt.Sprintf("evt/%03d", i)); got != want {
				t.Errorf("Archived but %d has %v at %d, want %v", but, got, i, want)
			}
		}
	}
	refs, err := repairer.Archived(ctx, r.source, 7)
	if err != nil {
		t.Fatal(err)
	}
	// One of them is run again before it is deleted.
	r.wantOutcome(r.event("evt/001", "{}"), webhook.Requeued)
	if err := repairer.Discard(ctx, r.source, refs); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		want := "archived"
		switch {
		case i == 1:
			want = "pending"
		case i < 3:
			want = ""
		}
		if got := r.field(fmt.Sprintf("evt/%03d", i), "state"); got != want {
			t.Errorf("task %d is %q, want %q", i, got, want)
		}
	}
	if n := r.rdb.ZCard(ctx, r.key("archived")).Val(); n != 7 {
		t.Errorf("%d are archived, want 7", n)
	}
	r.wantPending("evt/001")
	if err := repairer.Discard(ctx, r.source, nil); err != nil {
		t.Errorf("Discard of none = %v", err)
	}
}

func TestEpoch(t *testing.T) {
	t.Parallel()
	r, server := privateRig(t)
	ctx := t.Context()
	repairer := queue.NewRepairer(r.rdb)
	epoch := func(want string) (run string) {
		t.Helper()
		mark, run, err := repairer.Epoch(ctx, r.source)
		if mark != want || len(run) != 40 || err != nil {
			t.Errorf("Epoch = %q, %q, %v, want %q and the run of Redis", mark, run, err, want)
		}
		return run
	}
	set := func(mark string) {
		t.Helper()
		if err := repairer.SetEpoch(ctx, r.source, mark); err != nil {
			t.Fatal(err)
		}
	}
	first := epoch("")
	set("one")
	if again := epoch("one"); again != first {
		t.Errorf("run changed from %s to %s", first, again)
	}
	set("two")
	epoch("two")
	if mark, _, err := repairer.Epoch(ctx, r.source+"-other"); mark != "" || err != nil {
		t.Errorf("Epoch of another source = %q, %v", mark, err)
	}
	if err := r.rdb.FlushAll(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if run := epoch(""); run != first {
		t.Error("run changed by FLUSHALL")
	}
	set("three")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := repairer.Epoch(ctx, r.source); err == nil {
		t.Error("Epoch without Redis = nil, want an error")
	}
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if run := epoch("three"); run == first {
		t.Error("run is the same after a restart")
	}
}

func TestRepairAway(t *testing.T) {
	t.Parallel()
	repairer := queue.NewRepairer(dial(t, "redis://127.0.0.1:1", queue.IngestProfile(time.Second)))
	ctx := t.Context()
	_, stuckErr := repairer.Stuck(ctx, "shop")
	_, unstickErr := repairer.Unstick(ctx, "shop", ref("e"))
	_, archivedErr := repairer.Archived(ctx, "shop", 1)
	_, _, epochErr := repairer.Epoch(ctx, "shop")
	for call, err := range map[string]error{
		"Stuck": stuckErr, "Unstick": unstickErr, "Archived": archivedErr, "Epoch": epochErr,
		"Discard": repairer.Discard(ctx, "shop", []webhook.TaskRef{ref("e")}), "SetEpoch": repairer.SetEpoch(ctx, "shop", "m"),
	} {
		if err == nil || !strings.Contains(err.Error(), "shop") {
			t.Errorf("%s = %v, want an error that names the source", call, err)
		}
	}
}
