package queue

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// Look returns what the queue holds of an event that has no row in Postgres as
// yet, with the status [webhook.Queued], or [webhook.ErrNotFound].
func Look(ctx context.Context, rdb redis.UniversalClient, source, eventID string) (webhook.Record, error) {
	id := taskID(eventID)
	n, err := rdb.Exists(ctx, taskKey(source, id)).Result()
	if err != nil {
		return webhook.Record{}, fmt.Errorf("look for %s/%s in the queue: %w", source, eventID, err)
	}
	if n == 0 {
		return webhook.Record{}, webhook.ErrNotFound
	}
	if err := register(ctx, rdb, source); err != nil { // else asynq says that there is no such queue
		return webhook.Record{}, err
	}
	info, err := asynq.NewInspectorFromRedisClient(rdb).GetTaskInfo(source, id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return webhook.Record{}, webhook.ErrNotFound
	}
	if err != nil {
		return webhook.Record{}, fmt.Errorf("look for %s/%s in the queue: %w", source, eventID, err)
	}
	ev, _, err := parseTask(source, asynq.NewTaskWithHeaders(info.Type, info.Payload, info.Headers))
	if err != nil {
		return webhook.Record{}, err
	}
	r := webhook.Record{
		Source: source, EventID: ev.ID, EventType: ev.Type, Status: webhook.Queued,
		PayloadSHA256: hex.EncodeToString(ev.SHA256[:]), Payload: ev.Body, ContentType: ev.ContentType,
		Headers: ev.Headers, Delivery: ev.Delivery, ReceivedAt: ev.ReceivedAt, LastError: info.LastErr,
	}
	if !info.NextProcessAt.IsZero() {
		r.NextAttemptAt = &info.NextProcessAt
	}
	return r, nil
}
