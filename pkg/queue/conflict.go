package queue

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// The states of an asynq task that matter here, as asynq writes them.
const (
	stateArchived  = "archived"
	stateCompleted = "completed"
)

// meetTask looks at the task that refused a new one, and runs it if it is
// archived, in one step. asynq's Inspector would need three round trips, has no
// deadline, and reports a task that lost its message as sound.
//
// KEYS[1] -> asynq:{<source>}:t:<task>
// KEYS[2] -> asynq:{<source>}:archived
// KEYS[3] -> asynq:{<source>}:pending
// KEYS[4] -> asynq:{<source>}:active
// ARGV[1] -> task
// ARGV[2] -> unix time in nanoseconds
// ARGV[3] -> asynq:{<source>}:
//
// A task can be left with a state and in no list: asynq takes it out of one
// before it finds that it cannot put it into the next, and an AOF may end
// between the two. It would never run and refuse every copy, so it is deleted.
// Whether it is in the list of those that wait is only searched for if it has
// waited longer than the one whose turn it is: else it is behind that one.
//
// It returns the state and the SHA-256 of the body (64 hexadecimal digits, as
// the task's headers have it; "" if it is not found), or the state "gone" if
// there is no task, or "broken" if there is one that can never run.
//
// The hash is found by its header's encoding in the protobuf message: field 1,
// length 6, "sha256", field 2, length 64. The last place counts: the body comes
// before the headers and may hold these bytes too.
var meetTask = redis.NewScript(`
if redis.call("EXISTS", KEYS[1]) == 0 then
	return {"gone", ""}
end
local state, msg = unpack(redis.call("HMGET", KEYS[1], "state", "msg"))
if not state or not msg then
	return {"broken", ""}
end
local sha, from = "", 1
while true do
	local _, e = string.find(msg, "\10\6sha256\18\64", from, true)
	if not e then
		break
	end
	sha, from = string.sub(msg, e + 1, e + 64), e + 1
end
local function listed()
	if state == "active" then
		return redis.call("LPOS", KEYS[4], ARGV[1])
	elseif state ~= "pending" then
		return redis.call("ZSCORE", ARGV[3] .. state, ARGV[1])
	end
	local head = redis.call("LINDEX", KEYS[3], -1)
	if not head then
		return false
	end
	local since = redis.call("HGET", KEYS[1], "pending_since")
	local first = redis.call("HGET", ARGV[3] .. "t:" .. head, "pending_since")
	if not since or not first or tonumber(since) >= tonumber(first) then
		return true
	end
	return redis.call("LPOS", KEYS[3], ARGV[1])
end
if state ~= "archived" and not listed() then
	redis.call("DEL", KEYS[1])
	redis.call("ZREM", ARGV[3] .. "lease", ARGV[1])
	return {"gone", ""}
end
if state == "archived" then
	if redis.call("ZREM", KEYS[2], ARGV[1]) == 0 then
		return {"broken", ""}
	end
	redis.call("LPUSH", KEYS[3], ARGV[1])
	redis.call("HSET", KEYS[1], "state", "pending", "pending_since", ARGV[2])
end
return {state, sha}
`)

// A meeting is what became of the task that was there before.
type meeting struct {
	gone   bool
	state  string // before we came
	sha256 string // of the task's body; "" if unknown
}

var errBroken = errors.New("redis has the task's id and lost its message: delete it with asynqmon or DEL")

// meet looks at the task of ev's id. An archived one runs again, with its
// queue registered so that people see it.
func (c *Client) meet(ctx context.Context, ev webhook.Event) (meeting, error) {
	keys, args := c.meetArgs(ev)
	m, err := readMeeting(meetTask.Run(ctx, c.rdb, keys, args...))
	if err == nil && m.state == stateArchived {
		err = register(ctx, c.rdb, ev.Source)
	}
	return m, err
}

func (c *Client) meetArgs(ev webhook.Event) (keys []string, args []any) {
	id, p := taskID(ev.ID), prefix(ev.Source)
	return []string{taskKey(ev.Source, id), p + "archived", p + "pending", p + "active"}, []any{id, c.now().UnixNano(), p}
}

func readMeeting(cmd *redis.Cmd) (meeting, error) {
	answer, err := cmd.StringSlice()
	if err != nil {
		return meeting{}, err
	}
	if len(answer) != 2 {
		return meeting{}, fmt.Errorf("meet script answered %d values", len(answer))
	}
	m := meeting{state: answer[0], sha256: answer[1]}
	switch m.state {
	case "gone":
		m.gone = true
	case "broken":
		return m, errBroken
	}
	return m, nil
}

func shaText(ev webhook.Event) string { return hex.EncodeToString(ev.SHA256[:]) }

// register makes queues visible. asynq's client does it once in its life, so
// after Redis lost its data the queues would work unseen.
func register(ctx context.Context, rdb redis.UniversalClient, sources ...string) error {
	names := make([]any, len(sources))
	for i, s := range sources {
		names[i] = s
	}
	if err := rdb.SAdd(ctx, queuesKey, names...).Err(); err != nil {
		return fmt.Errorf("register queues: %w", err)
	}
	return nil
}
