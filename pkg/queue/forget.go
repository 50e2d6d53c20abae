package queue

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Forget makes Redis forget one event as if it had lost its data: the task, in
// whatever state, and the lock. The demo shows by it that Postgres remembers.
func Forget(ctx context.Context, rdb redis.UniversalClient, source, eventID string) error {
	if err := forget(ctx, rdb, source, taskID(eventID)); err != nil {
		return err
	}
	if err := rdb.Del(ctx, "hookonce:{"+source+"}:lock:"+eventID).Err(); err != nil {
		return fmt.Errorf("forget lock of %s/%s: %w", source, eventID, err)
	}
	return nil
}

// forget deletes a task, in whatever state it is.
func forget(ctx context.Context, rdb redis.UniversalClient, source, id string) error {
	p := prefix(source)
	_, err := rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Del(ctx, taskKey(source, id))
		pipe.LRem(ctx, p+"active", 0, id)
		pipe.LRem(ctx, p+"pending", 0, id)
		for _, set := range []string{"lease", "retry", "scheduled", "archived", "completed"} {
			pipe.ZRem(ctx, p+set, id)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget task %s/%s: %w", source, id, err)
	}
	return nil
}
