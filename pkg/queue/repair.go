package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Repairer mends what asynq leaves behind when a worker dies or Redis fails.
// asynq itself does that after 70 to 170 s.
type Repairer struct {
	rdb       redis.UniversalClient
	inspector *asynq.Inspector
	now       func() time.Time
}

// NewRepairer returns a repairer on rdb, which it does not close.
func NewRepairer(rdb redis.UniversalClient) *Repairer {
	return &Repairer{rdb: rdb, inspector: asynq.NewInspectorFromRedisClient(rdb), now: time.Now}
}

// A server that lives writes the lease of each task that it runs as 30 s ahead,
// every 5 s. One that has not for 12 s has died, or is as good as dead.
const leaseAhead = 18 * time.Second

// listStuck lists the tasks in active that no server has kept its lease of.
//
// KEYS[1] -> asynq:{<source>}:active
// KEYS[2] -> asynq:{<source>}:lease
// ARGV[1] -> the unix time that a lease must reach
var listStuck = redis.NewScript(`
local stuck = {}
for _, id in ipairs(redis.call("LRANGE", KEYS[1], 0, -1)) do
	local score = redis.call("ZSCORE", KEYS[2], id)
	if not score or tonumber(score) < tonumber(ARGV[1]) then
		table.insert(stuck, id)
	end
end
return stuck
`)

// Stuck lists the tasks of a source that asynq counts as running and that no
// live worker runs: its worker died, or an answer of Redis was lost.
func (r *Repairer) Stuck(ctx context.Context, source string) ([]webhook.TaskRef, error) {
	p := prefix(source)
	ids, err := listStuck.Run(ctx, r.rdb, []string{p + "active", p + "lease"}, r.leaseLimit()).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("list stuck tasks of %s: %w", source, err)
	}
	return r.refs(source, ids), nil
}

func (r *Repairer) leaseLimit() int64 { return r.now().Add(leaseAhead).Unix() }

// refs finds the event of each task. The id of a task that is not the event's
// is a hash, so the task's own message is asked.
func (r *Repairer) refs(source string, ids []string) []webhook.TaskRef {
	refs := make([]webhook.TaskRef, len(ids))
	for i, id := range ids {
		refs[i] = webhook.TaskRef{TaskID: id, EventID: id}
		if !strings.Contains(id, "!") {
			continue
		}
		refs[i].EventID = ""
		if info, err := r.inspector.GetTaskInfo(source, id); err == nil && info.Headers[headerConflict] == "" {
			refs[i].EventID = info.Headers[headerEventID]
		}
	}
	return refs
}

// unstickTask puts a task back to the head of its queue, if its lease is still
// not kept. One without a message can never run, and is deleted.
//
// KEYS[1] -> asynq:{<source>}:active
// KEYS[2] -> asynq:{<source>}:lease
// KEYS[3] -> asynq:{<source>}:pending
// KEYS[4] -> asynq:{<source>}:t:<task>
// ARGV[1] -> task
// ARGV[2] -> the unix time that a lease must reach
var unstickTask = redis.NewScript(`
local score = redis.call("ZSCORE", KEYS[2], ARGV[1])
if score and tonumber(score) >= tonumber(ARGV[2]) then
	return 0
end
if redis.call("LREM", KEYS[1], 0, ARGV[1]) == 0 then
	return 0
end
redis.call("ZREM", KEYS[2], ARGV[1])
if redis.call("HEXISTS", KEYS[4], "msg") == 0 then
	redis.call("DEL", KEYS[4])
	return 1
end
redis.call("RPUSH", KEYS[3], ARGV[1])
redis.call("HSET", KEYS[4], "state", "pending")
return 1
`)

// Unstick lets a stuck task run again, as the next of its queue, and reports
// false if it is no longer stuck. One that lost its message goes; if Postgres
// holds the event, the sweeper sends for it.
func (r *Repairer) Unstick(ctx context.Context, source string, t webhook.TaskRef) (bool, error) {
	p := prefix(source)
	keys := []string{p + "active", p + "lease", p + "pending", taskKey(source, t.TaskID)}
	n, err := unstickTask.Run(ctx, r.rdb, keys, t.TaskID, r.leaseLimit()).Int()
	if err != nil {
		return false, fmt.Errorf("unstick %s/%s: %w", source, t.TaskID, err)
	}
	return n == 1, nil
}

// archivedBatch is how many archived tasks are looked at in one go.
const archivedBatch = 1000

// Archived lists archived tasks of the source, the oldest first, but for the
// newest so many.
func (r *Repairer) Archived(ctx context.Context, source string, but int) ([]webhook.TaskRef, error) {
	key := prefix(source) + "archived"
	n, err := r.rdb.ZCard(ctx, key).Result()
	if err != nil {
		return nil, fmt.Errorf("count archived tasks of %s: %w", source, err)
	}
	if n <= int64(but) {
		return nil, nil
	}
	ids, err := r.rdb.ZRange(ctx, key, 0, min(n-int64(but), archivedBatch)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("list archived tasks of %s: %w", source, err)
	}
	return r.refs(source, ids), nil
}

// discardTasks deletes tasks that are archived.
//
// KEYS[1] -> asynq:{<source>}:archived
// ARGV[1] -> asynq:{<source>}:t:
// ARGV[2…] -> tasks
var discardTasks = redis.NewScript(`
for i = 2, #ARGV do
	if redis.call("ZREM", KEYS[1], ARGV[i]) == 1 then
		redis.call("DEL", ARGV[1] .. ARGV[i])
	end
end
return 0
`)

// Discard deletes tasks of the source, if they are still archived.
func (r *Repairer) Discard(ctx context.Context, source string, tasks []webhook.TaskRef) error {
	args := []any{prefix(source) + "t:"}
	for _, t := range tasks {
		args = append(args, t.TaskID)
	}
	if err := discardTasks.Run(ctx, r.rdb, []string{prefix(source) + "archived"}, args...).Err(); err != nil {
		return fmt.Errorf("discard archived tasks of %s: %w", source, err)
	}
	return nil
}

func epochKey(source string) string { return "hookonce:{" + source + "}:epoch" }

// Epoch is the mark that the source's queue has, "" if it lost it, and the run
// of the Redis that answers: after a restart or a failover it is another, and a
// second of writes may be lost although the mark is there. A cluster is asked
// for no run, since any of its nodes could answer.
func (r *Repairer) Epoch(ctx context.Context, source string) (mark, run string, err error) {
	mark, err = r.rdb.Get(ctx, epochKey(source)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", "", fmt.Errorf("read epoch of %s: %w", source, err)
	}
	if _, cluster := r.rdb.(*redis.ClusterClient); cluster {
		return mark, "", nil
	}
	info, err := r.rdb.InfoMap(ctx, "server").Result()
	if err != nil {
		return "", "", fmt.Errorf("read run of redis: %w", err)
	}
	return mark, info["Server"]["run_id"], nil
}

// SetEpoch marks the source's queue.
func (r *Repairer) SetEpoch(ctx context.Context, source, mark string) error {
	if err := r.rdb.Set(ctx, epochKey(source), mark, 0).Err(); err != nil {
		return fmt.Errorf("set epoch of %s: %w", source, err)
	}
	return nil
}
