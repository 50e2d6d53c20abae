package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A merger is the connection of asynq's client: it lets enqueues that happen at
// once share one script, which costs Redis less than half as much. Unlike a
// pipeline of go-redis' own it minds the context of each: what is not sent when
// its caller has given up is never sent.
type merger struct {
	redis.UniversalClient

	mu      sync.Mutex
	waiting []*enqueueing
	busy    bool // somebody flushes
}

// An enqueueing is one task on its way.
type enqueueing struct {
	ctx     context.Context
	key     string // of the task
	pending string // the queue's list
	args    []any  // message, id, unix time in nanoseconds

	done chan struct{} // closed after met is set
	met  meeting       // with no state if the task is new
}

// meetingKey is that of a *meeting in the context of an enqueue, which becomes
// what it met. Its error is the whole one: asynq keeps only the text of it.
type meetingKey struct{}

// EvalSha takes the enqueue script of asynq 0.26.0, which has the keys of the
// task and of the list, and three arguments, and no other script of asynq's
// client has those: a test pins it. Whatever else comes goes its own way.
func (m *merger) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	met, ok := ctx.Value(meetingKey{}).(*meeting)
	if !ok || len(keys) != 2 || len(args) != 3 || !strings.HasSuffix(keys[1], ":pending") {
		return m.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	e := &enqueueing{ctx: ctx, key: keys[0], pending: keys[1], args: args, done: make(chan struct{})}
	m.submit(e)
	select {
	case <-e.done:
		*met = e.met
	case <-ctx.Done():
		met.err = ctx.Err()
	}
	cmd := redis.NewCmd(ctx)
	switch {
	case met.err != nil:
		cmd.SetErr(met.err)
	case met.state == "":
		cmd.SetVal(int64(1)) // as asynq's script says that the task is new
	default:
		cmd.SetVal(int64(0))
	}
	return cmd
}

func (m *merger) submit(e *enqueueing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = append(m.waiting, e)
	if !m.busy {
		m.busy = true
		go m.flush()
	}
}

// flush sends what waits until nothing does. One batch is under way at a time:
// the next one gathers meanwhile.
func (m *merger) flush() {
	for {
		m.mu.Lock()
		n := batchSize(m.waiting)
		batch := m.waiting[:n:n]
		m.waiting = m.waiting[n:]
		if n == 0 {
			m.waiting, m.busy = nil, false
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		m.send(batch)
	}
}

// Limits of one script, so that others do not wait long for Redis.
const (
	mergeTasks = 128
	mergeBytes = 1 << 20
)

func batchSize(waiting []*enqueueing) int {
	bytes := 0
	for i, e := range waiting {
		msg, _ := e.args[0].([]byte)
		if bytes += len(msg); i == mergeTasks || i > 0 && bytes > mergeBytes {
			return i
		}
	}
	return len(waiting)
}

// send enqueues a batch, and answers each.
func (m *merger) send(batch []*enqueueing) {
	var order []string
	groups := map[string][]*enqueueing{}
	var until time.Time
	for _, e := range batch {
		if e.met.err = e.ctx.Err(); e.met.err != nil {
			close(e.done)
			continue
		}
		if deadline, ok := e.ctx.Deadline(); ok && deadline.After(until) {
			until = deadline
		}
		if groups[e.pending] == nil {
			order = append(order, e.pending)
		}
		groups[e.pending] = append(groups[e.pending], e)
	}
	ctx, cancel := context.WithoutCancel(batch[0].ctx), func() {}
	if !until.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	for _, pending := range order {
		m.enqueue(ctx, groups[pending])
	}
}

// enqueueTasks puts those of many tasks onto one queue whose ids are new, as
// asynq's own script does with one, and meets the others: see [meet].
//
// KEYS    -> asynq:{<source>}:t:<task>, of each task
// ARGV[1] -> asynq:{<source>}:
// ARGV[n] -> of each task its message, its id and the unix time in nanoseconds
//
// It returns 1 for each task that is new, and for another what meet returns.
var enqueueTasks = redis.NewScript(meet + `
local p = ARGV[1]
local answers, ids, fresh = {}, {}, {}
for i, key in ipairs(KEYS) do
	local msg, id, now = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
	local answer = 1
	if fresh[id] then
		answer = {"pending", sha(fresh[id])} -- not in the list yet, where meet would look
	elseif call("EXISTS", key) == 1 then
		answer = meet(key, id, p, now)
		if answer[1] == "gone" then
			answer = 1
		end
	end
	if answer == 1 then
		call("HSET", key, "msg", msg, "state", "pending", "pending_since", now)
		ids[#ids + 1], fresh[id] = id, msg
	end
	answers[i] = answer
end
if #ids > 0 then
	call("LPUSH", p .. "pending", unpack(ids))
end
return answers`)

// enqueue puts tasks onto the one queue they are for.
func (m *merger) enqueue(ctx context.Context, group []*enqueueing) {
	keys := make([]string, len(group))
	args := make([]any, 1, 1+3*len(group))
	args[0] = strings.TrimSuffix(group[0].pending, "pending")
	for i, e := range group {
		keys[i] = e.key
		args = append(args, e.args...)
	}
	answers, err := enqueueTasks.Run(ctx, m.UniversalClient, keys, args...).Slice()
	if err == nil && len(answers) != len(group) {
		err = fmt.Errorf("enqueue script answered %d of %d tasks", len(answers), len(group))
	}
	for i, e := range group {
		if e.met.err = err; err == nil {
			e.met = readAnswer(answers[i])
		}
		close(e.done)
	}
}

func readAnswer(answer any) meeting {
	if n, ok := answer.(int64); ok && n == 1 {
		return meeting{}
	}
	var words []string
	values, _ := answer.([]any)
	for _, v := range values {
		words = append(words, fmt.Sprint(v))
	}
	met, err := readMeeting(words, nil)
	met.err = err
	return met
}
