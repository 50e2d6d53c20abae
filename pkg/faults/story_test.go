package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// story tells all of one event, for a person.
func (s *stage) story(k key) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:\n%s", k, s.sender.history(k))
	for _, sql := range []string{
		`SELECT to_jsonb(e) - 'payload' FROM received_events e WHERE source = $1 AND event_id = $2`,
		`SELECT to_jsonb(e) FROM changes e WHERE source = $1 AND event_id = $2 ORDER BY n`,
		`SELECT to_jsonb(e) FROM effects e WHERE source = $1 AND event_id = $2 ORDER BY n`,
		`SELECT to_jsonb(e) FROM event_attempts e WHERE source = $1 AND event_id = $2 ORDER BY attempt`,
	} {
		rows, _ := s.db.Query(context.Background(), sql, k.source, k.id)
		texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			fmt.Fprintln(&b, "\t", err)
		}
		for _, t := range texts {
			fmt.Fprintln(&b, "\t", t)
		}
	}
	b.WriteString(s.redisStory(k))
	return b.String()
}

// redisStory is what asynq has of the event.
func (s *stage) redisStory(k key) string {
	ctx, p := context.Background(), "asynq:{"+k.source+"}:"
	task := s.rdb.HGetAll(ctx, p+"t:"+k.id).Val()
	text := fmt.Sprintf("\t task: state %q, message of %d bytes, lock %q", task["state"], len(task["msg"]), s.rdb.Get(ctx, lockKey(k)).Val())
	for _, list := range []string{"pending", "active"} {
		if slices.Contains(s.rdb.LRange(ctx, p+list, 0, -1).Val(), k.id) {
			text += ", in " + list
		}
	}
	for _, set := range []string{"lease", "retry", "scheduled", "archived", "completed"} {
		if score, err := s.rdb.ZScore(ctx, p+set, k.id).Result(); err == nil {
			text += fmt.Sprintf(", in %s at %.0f", set, score)
		}
	}
	return text + "\n"
}

// stories tells of the first few.
func (s *stage) stories(keys []key) string {
	var b strings.Builder
	for _, k := range keys[:min(len(keys), 3)] {
		b.WriteString(s.story(k))
	}
	return b.String()
}
