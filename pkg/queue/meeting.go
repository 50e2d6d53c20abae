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

// meet is a function in Lua that looks at the task that refused a new one, and
// runs it if it is archived. asynq's Inspector would need three round trips, has
// no deadline, and reports a task that lost its message as sound. Its arguments
// are the task's key and id, "asynq:{<source>}:" and the unix time in
// nanoseconds.
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
const meet = `
local call = redis.call
local function sha(msg)
	local found, from = "", 1
	while true do
		local _, e = string.find(msg, "\10\6sha256\18\64", from, true)
		if not e then
			return found
		end
		found, from = string.sub(msg, e + 1, e + 64), e + 1
	end
end
local function listed(key, id, p, state)
	if state == "active" then
		return call("LPOS", p .. "active", id)
	elseif state ~= "pending" then
		return call("ZSCORE", p .. state, id)
	end
	local head = call("LINDEX", p .. "pending", -1)
	if not head then
		return false
	end
	local since = call("HGET", key, "pending_since")
	local first = call("HGET", p .. "t:" .. head, "pending_since")
	if not since or not first or tonumber(since) >= tonumber(first) then
		return true
	end
	return call("LPOS", p .. "pending", id)
end
local function meet(key, id, p, now)
	if call("EXISTS", key) == 0 then
		return {"gone", ""}
	end
	local state, msg = unpack(call("HMGET", key, "state", "msg"))
	if not state or not msg then
		return {"broken", ""}
	end
	if state == "archived" then
		if call("ZREM", p .. "archived", id) == 0 then
			return {"broken", ""}
		end
		call("LPUSH", p .. "pending", id)
		call("HSET", key, "state", "pending", "pending_since", now)
	elseif not listed(key, id, p, state) then
		call("DEL", key)
		call("ZREM", p .. "lease", id)
		return {"gone", ""}
	end
	return {state, sha(msg)}
end
`

// meetTask meets one task.
//
// KEYS[1] -> asynq:{<source>}:t:<task>
// ARGV[1] -> task
// ARGV[2] -> unix time in nanoseconds
// ARGV[3] -> asynq:{<source>}:
var meetTask = redis.NewScript(meet + `
return meet(KEYS[1], ARGV[1], ARGV[3], ARGV[2])`)

// A meeting is what became of the task that was there before.
type meeting struct {
	gone   bool
	state  string // before we came
	sha256 string // of the task's body; "" if unknown
	err    error  // errBroken, or that the answer makes no sense
}

var errBroken = errors.New("redis has the task's id and lost its message: delete it with asynqmon or DEL")

func (c *Client) meetArgs(ev webhook.Event) (keys []string, args []any) {
	id := taskID(ev.ID)
	return []string{taskKey(ev.Source, id)}, []any{id, c.now().UnixNano(), prefix(ev.Source)}
}

// readMeeting reads what the function meet returned.
func readMeeting(answer []string, err error) (meeting, error) {
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

// register makes queues visible. A [Client] does it once for each in its life;
// after Redis lost its data the queues would work unseen if a [Server] did not
// do it again and again.
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
