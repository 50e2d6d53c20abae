package queue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A merger lets enqueues that happen at once share one script, which costs Redis
// less than half as much, and those of several sources one exchange. Unlike a
// pipeline that go-redis fills by itself it minds the context of each: what is
// not sent when its caller has given up is never sent.
type merger struct {
	rdb redis.UniversalClient

	mu    sync.Mutex
	lanes map[string]*lane
}

// A lane holds the tasks that wait for the batch under way. In a cluster each
// source has its own: one whose node is away holds up no other.
type lane struct {
	waiting []*enqueueing
	busy    bool // somebody flushes
}

// An enqueueing is one task on its way.
type enqueueing struct {
	ctx    context.Context
	source string
	id     string // of the task
	msg    []byte
	at     int64 // Unix time in nanoseconds

	done chan struct{} // closed after met is set
	met  meeting       // with no state if the task is new
}

func newMerger(rdb redis.UniversalClient) *merger {
	return &merger{rdb: rdb, lanes: map[string]*lane{}}
}

func newEnqueueing(ctx context.Context, source, id string, msg []byte, at time.Time) *enqueueing {
	return &enqueueing{ctx: ctx, source: source, id: id, msg: msg, at: at.UnixNano(), done: make(chan struct{})}
}

// wait returns what the task met, once it is submitted.
func (e *enqueueing) wait() meeting {
	select {
	case <-e.done:
		return e.met
	case <-e.ctx.Done():
		return meeting{err: e.ctx.Err()}
	}
}

// submit puts tasks onto their queues, those that are new, and does not wait.
func (m *merger) submit(tasks ...*enqueueing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range tasks {
		l := m.lane(e.source)
		l.waiting = append(l.waiting, e)
		if !l.busy {
			l.busy = true
			go m.flush(l) // it waits for the lock, and so has all of them
		}
	}
}

// lane returns that of a source.
func (m *merger) lane(source string) *lane {
	if _, cluster := m.rdb.(*redis.ClusterClient); !cluster {
		source = ""
	}
	l := m.lanes[source]
	if l == nil {
		l = new(lane)
		m.lanes[source] = l
	}
	return l
}

// flush sends what waits until nothing does. One batch is under way at a time:
// the next one gathers meanwhile.
func (m *merger) flush(l *lane) {
	for {
		m.mu.Lock()
		n := batchSize(l.waiting)
		batch := l.waiting[:n:n]
		l.waiting = l.waiting[n:]
		if n == 0 {
			l.waiting, l.busy = nil, false
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
		if bytes += len(e.msg); i == mergeTasks || i > 0 && bytes > mergeBytes {
			return i
		}
	}
	return len(waiting)
}

// send enqueues those of a batch that somebody still waits for, and answers each.
// The last of their deadlines is that of the exchange.
func (m *merger) send(batch []*enqueueing) {
	var group []*enqueueing
	var until time.Time
	for _, e := range batch {
		if e.met.err = e.ctx.Err(); e.met.err != nil {
			close(e.done)
			continue
		}
		if deadline, ok := e.ctx.Deadline(); ok && deadline.After(until) {
			until = deadline
		}
		group = append(group, e)
	}
	if len(group) == 0 {
		return
	}
	ctx, cancel := context.WithoutCancel(group[0].ctx), func() {}
	if !until.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, until)
	}
	defer cancel()
	m.run(ctx, group)
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

// run puts tasks onto their queues: a script for each source, since asynq's keys
// of one are together, and one exchange with Redis for all of them.
func (m *merger) run(ctx context.Context, group []*enqueueing) {
	scripts := bySource(group)
	if len(scripts) == 1 {
		answer(group, enqueue(ctx, enqueueTasks.Run, m.rdb, group))
		return
	}
	cmds := make([]*redis.Cmd, len(scripts))
	_, _ = m.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its error
		for i, tasks := range scripts {
			cmds[i] = enqueue(ctx, enqueueTasks.EvalSha, pipe, tasks)
		}
		return nil
	})
	for i, tasks := range scripts {
		if redis.HasErrorPrefix(cmds[i].Err(), "NOSCRIPT") { // Redis was started anew
			cmds[i] = enqueue(ctx, enqueueTasks.Run, m.rdb, tasks)
		}
		answer(tasks, cmds[i])
	}
}

// bySource takes a batch apart, which mostly is of one source.
func bySource(group []*enqueueing) (parts [][]*enqueueing) {
	if !slices.ContainsFunc(group, func(e *enqueueing) bool { return e.source != group[0].source }) {
		return [][]*enqueueing{group}
	}
	index := map[string]int{}
	for _, e := range group {
		i, there := index[e.source]
		if !there {
			i = len(parts)
			index[e.source], parts = i, append(parts, nil)
		}
		parts[i] = append(parts[i], e)
	}
	return parts
}

// enqueue has the script run for tasks of one source.
func enqueue(ctx context.Context, run func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd, rdb redis.Scripter, tasks []*enqueueing) *redis.Cmd {
	keys := make([]string, len(tasks))
	args := make([]any, 1, 1+3*len(tasks))
	args[0] = prefix(tasks[0].source)
	for i, e := range tasks {
		keys[i] = taskKey(e.source, e.id)
		args = append(args, e.msg, e.id, e.at)
	}
	return run(ctx, rdb, keys, args...)
}

// answer tells each of the tasks of a script what it said of it.
func answer(tasks []*enqueueing, cmd *redis.Cmd) {
	answers, err := cmd.Slice()
	if err == nil && len(answers) != len(tasks) {
		err = fmt.Errorf("enqueue script answered %d of %d tasks", len(answers), len(tasks))
	}
	for i, e := range tasks {
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
