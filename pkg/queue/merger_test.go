package queue_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A gate holds the first script that enqueues until it is opened, and counts
// all of them.
type gate struct {
	mu      sync.Mutex
	scripts int
	reached chan struct{}
	opened  chan struct{}
}

func newGate() *gate {
	return &gate{reached: make(chan struct{}), opened: make(chan struct{})}
}

// again holds the next script that comes.
func (g *gate) again() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scripts, g.reached, g.opened = 0, make(chan struct{}), make(chan struct{})
}

func (g *gate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.scripts
}

func (g *gate) before(cmd redis.Cmder) {
	if args := cmd.Args(); !strings.HasPrefix(cmd.Name(), "eval") || len(args) < 4 || !strings.Contains(fmt.Sprint(args[3]), ":t:") {
		return
	}
	g.mu.Lock()
	g.scripts++
	first := g.scripts == 1
	g.mu.Unlock()
	if first {
		close(g.reached)
		<-g.opened
	}
}

// TestMergerShares lets 120 deliveries of 40 events come while the first one is
// under way: one script carries them, and each is answered as if alone. In a
// cluster another source does not wait.
func TestMergerShares(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := rigOn(t, r.url, r.source+"-other")
	r.wantOutcome(r.event("warm", "{}"), webhook.Accepted) // Redis knows the script
	rdb := asCluster(t, r.url)
	g := newGate()
	rdb.AddHook(hook{before: g.before})
	client := queue.NewClient(rdb, map[string]queue.Settings{r.source: r.settings[r.source], other.source: r.settings[r.source]})

	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]map[webhook.Receipt]int{}
	enqueue := func(ev webhook.Event) {
		receipt, err := client.Enqueue(t.Context(), ev)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if outcomes[ev.ID] == nil {
			outcomes[ev.ID] = map[webhook.Receipt]int{}
		}
		outcomes[ev.ID][receipt]++
	}
	wg.Go(func() { enqueue(r.event("first", "{}")) })
	<-g.reached
	for i := range 120 {
		wg.Go(func() { enqueue(r.event(fmt.Sprintf("evt %d", i%40), fmt.Sprint(i%40))) })
	}
	r.eventually("all wait", func() bool { return queue.Waiting(client, r.source) == 120 })
	ev := r.event("another", "{}")
	ev.Source = other.source
	if receipt, err := client.Enqueue(t.Context(), ev); err != nil || receipt.Outcome != webhook.Accepted {
		t.Errorf("of another source: %+v, %v", receipt, err)
	}
	before := g.count()
	close(g.opened)
	wg.Wait()

	if n := g.count() - before; n != 1 {
		t.Errorf("%d scripts carried 120 tasks, want 1", n)
	}
	duplicate := webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}
	for id, got := range outcomes {
		copies := 2
		if id == "first" {
			copies = 0
		}
		if got[webhook.Receipt{Outcome: webhook.Accepted}] != 1 || got[duplicate] != copies {
			t.Errorf("%s: %+v, want 1 accepted and %d duplicates", id, got, copies)
		}
	}
	if info, err := r.inspector.GetQueueInfo(r.source); err != nil || info.Pending != 42 {
		t.Errorf("%+v, %v, want 42 pending", info, err)
	}
}

// asCluster takes the Redis at url for a cluster of one node.
func asCluster(tb testing.TB, url string) *redis.ClusterClient {
	tb.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Username: o.Username, Password: o.Password, DisableIdentity: true,
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: o.Addr}}}}, nil
		},
	})
	tb.Cleanup(func() { rdb.Close() })
	return rdb
}

// TestMergerSharesAcrossSources has deliveries to 30 sources wait for one that
// is under way: one exchange with Redis carries them, and each source is
// answered for itself, although Redis has forgotten the script.
func TestMergerSharesAcrossSources(t *testing.T) {
	t.Parallel()
	const sources = 30
	r, _ := privateRig(t) // its scripts are flushed
	rdb := dial(t, r.url, queue.IngestProfile(20*time.Second))
	g := newGate()
	var mu sync.Mutex
	var exchanges [][]redis.Cmder
	rdb.AddHook(hook{before: g.before, pipeline: func(cmds []redis.Cmder) {
		mu.Lock()
		defer mu.Unlock()
		exchanges = append(exchanges, cmds)
		if err := r.rdb.ScriptFlush(context.Background()).Err(); err != nil {
			t.Error(err)
		}
	}})
	settings := map[string]queue.Settings{r.source: r.settings[r.source]}
	name := func(i int) string { return fmt.Sprintf("%s-%d", r.source, i%sources) }
	for i := range sources {
		settings[name(i)] = r.settings[r.source]
	}
	client := queue.NewClient(rdb, settings)
	for i := range sources { // registers each with the dashboards
		ev := r.event("warm", "{}")
		ev.Source = name(i)
		if i == 0 {
			close(g.opened)
		}
		if _, err := client.Enqueue(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	g.again()

	outcomes := make([]webhook.Receipt, 4*sources) // of 2 events of each source, twice
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := client.Enqueue(t.Context(), r.event("first", "{}")); err != nil {
			t.Error(err)
		}
	})
	<-g.reached
	for i := range outcomes {
		wg.Go(func() {
			ev := r.event(fmt.Sprint("evt ", i/(2*sources)), "{}")
			ev.Source = name(i)
			var err error
			if outcomes[i], err = client.Enqueue(t.Context(), ev); err != nil {
				t.Error(err)
			}
		})
	}
	r.eventually("all wait", func() bool { return queue.Waiting(client, r.source) == len(outcomes) })
	close(g.opened)
	wg.Wait()

	if len(exchanges) != 1 || len(exchanges[0]) != sources {
		t.Errorf("%d exchanges, want 1 with %d scripts", len(exchanges), sources)
	}
	accepted := map[string]int{}
	for i, got := range outcomes {
		switch got {
		case webhook.Receipt{Outcome: webhook.Accepted}:
			accepted[name(i)]++
		case webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}:
		default:
			t.Errorf("%s: %+v, want accepted or duplicate", name(i), got)
		}
	}
	for i := range sources {
		if n := accepted[name(i)]; n != 2 {
			t.Errorf("%s: %d accepted, want both of its events once", name(i), n)
		}
		if info, err := r.inspector.GetQueueInfo(name(i)); err != nil || info.Pending != 3 {
			t.Errorf("%s: %+v, %v, want 3 pending", name(i), info, err)
		}
	}
}

// TestMergerAsAsynq lays a task out as asynq's own client does.
func TestMergerAsAsynq(t *testing.T) {
	t.Parallel()
	ours, theirs := newRig(t), newRig(t)
	ev := ours.event("evt_1", "{}")
	ours.wantOutcome(ev, webhook.Accepted)
	s := ours.settings[ours.source]
	_, err := asynq.NewClientFromRedisClient(theirs.rdb).Enqueue(queue.NewTask(ev, false), asynq.TaskID("evt_1"), asynq.Queue(theirs.source),
		asynq.MaxRetry(1<<20), asynq.Timeout(s.Timeout+20*time.Second), asynq.Retention(s.Retention))
	if err != nil {
		t.Fatal(err)
	}
	normal := func(r *rig) (all []string) {
		for key, content := range r.contents() {
			msg := r.field("evt_1", "msg") // the order of whose headers is as it comes
			content = strings.ReplaceAll(content, msg, fmt.Sprintf("(%d bytes)", len(msg)-len(r.source)))
			content = strings.ReplaceAll(content, r.field("evt_1", "pending_since"), "(time)")
			all = append(all, strings.ReplaceAll(key+" "+content, r.source, "(source)"))
		}
		return all
	}
	got, want := normal(ours), normal(theirs)
	if len(got) != 2 || len(want) != 2 {
		t.Fatalf("keys: %q and asynq's %q, want a hash and a list", got, want)
	}
	if fmt.Sprint(slices.Sorted(slices.Values(got))) != fmt.Sprint(slices.Sorted(slices.Values(want))) {
		t.Errorf(layoutHint+"\n%q\nasynq's own:\n%q", slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
	}
}

// TestMergerGivesUp does not send what nobody waits for any more.
func TestMergerGivesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rdb := dial(t, r.url, queue.IngestProfile(5*time.Second))
	g := newGate()
	rdb.AddHook(hook{before: g.before})
	client := queue.NewClient(rdb, r.settings)
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := client.Enqueue(t.Context(), r.event("first", "{}")); err != nil {
			t.Error(err)
		}
	})
	<-g.reached
	ctx, giveUp := context.WithCancel(t.Context())
	wg.Go(func() {
		if _, err := client.Enqueue(ctx, r.event("given up", "{}")); !errors.Is(err, context.Canceled) || !errors.Is(err, webhook.ErrNotHeld) {
			t.Errorf("Enqueue = %v, want canceled and not held", err)
		}
	})
	wg.Go(func() {
		if _, err := client.Enqueue(t.Context(), r.event("patient", "{}")); err != nil {
			t.Error(err)
		}
	})
	r.eventually("both wait", func() bool { return queue.Waiting(client, r.source) == 2 })
	giveUp()
	r.eventually("one has given up", func() bool { return queue.Ended(client, r.source) == 1 })
	close(g.opened)
	wg.Wait()
	if r.field("given up", "state") != "" {
		t.Error("sent after its caller gave up")
	}
	if r.field("first", "state") != "pending" || r.field("patient", "state") != "pending" {
		t.Error("the others are not queued")
	}
}

// TestMergerFails tells all of a batch, and goes on.
func TestMergerFails(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rdb := dial(t, r.url, queue.IngestProfile(5*time.Second))
	var refuse error = serverError("OOM command not allowed when used memory > 'maxmemory'.")
	var mu sync.Mutex
	rdb.AddHook(hook{refuse: func(cmd redis.Cmder) error {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(cmd.Name(), "eval") {
			return refuse
		}
		return nil
	}})
	client := queue.NewClient(rdb, r.settings)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			_, err := client.Enqueue(t.Context(), r.event(fmt.Sprint(i), "{}"))
			if !errors.Is(err, webhook.ErrNotHeld) || !strings.Contains(err.Error(), "OOM") {
				t.Errorf("Enqueue = %v, want not held, and OOM", err)
			}
		})
	}
	wg.Wait()
	mu.Lock()
	refuse = nil
	mu.Unlock()
	if receipt, err := client.Enqueue(t.Context(), r.event("1", "{}")); err != nil || receipt.Outcome != webhook.Accepted {
		t.Errorf("afterwards Enqueue = %+v, %v", receipt, err)
	}
}

// TestMergerLimits cuts a batch where Redis would be busy for long.
func TestMergerLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ tasks, bytes, want int }{
		{0, 10, 0}, {1, 10, 1}, {128, 10, 128}, {129, 10, 128}, {1000, 10, 128},
		{20, 64 << 10, 16}, {3, 1 << 20, 1}, {2, 30 << 20, 1},
	} {
		if got := queue.BatchSize(tt.tasks, tt.bytes); got != tt.want {
			t.Errorf("of %d tasks of %d bytes %d go at once, want %d", tt.tasks, tt.bytes, got, tt.want)
		}
	}
}

// TestEnqueueErrors keeps what a breaker asks an error for: asynq's own errors
// have only the text of it.
func TestEnqueueErrors(t *testing.T) {
	t.Parallel()
	r, server := privateRig(t)
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted) // asynq registers the queue by another command
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := r.client.Enqueue(ctx, r.event("evt_2", "{}")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Enqueue while Redis hangs = %v, want %v in it", err, context.DeadlineExceeded)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	r.eventually("the dial is refused", func() bool {
		_, err := r.client.Enqueue(t.Context(), r.event("evt_3", "{}"))
		op, ok := errors.AsType[*net.OpError](err)
		return ok && op.Op == "dial"
	})
}
