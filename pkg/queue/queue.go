// Package queue carries events over Redis by asynq, which nothing else in the
// program imports: ingest enqueues, worker serves, people look.
//
// Each source has a queue of its own name, and the id of a task is the id of
// its event, so Redis refuses a second copy atomically. asynq decides nothing:
// how often and when an event comes back is the worker's decision, which
// arrives here as an error and is translated in one place, [verdict].
//
// Tasks are put into Redis by scripts of our own, which read and write the keys
// and messages of asynq 0.26.0: its client takes one at a time. Tests pin the
// layout to that version, and compare with what its client writes.
package queue

import (
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// Settings are what a source wants of its queue.
type Settings struct {
	Timeout     time.Duration // of one attempt
	Retention   time.Duration // how long a done task stays on the dashboard, in whole seconds; may be 0
	Concurrency int           // attempts at once in one worker process

	// Same says that two bodies of one event with different hashes are one all
	// the same; nil: they never are.
	Same func(a, b []byte) bool
}

// asynqSlack is what asynq's own timeout is longer than ours. If they were
// equal, asynq's cancellation would win and our outcome and delay were dropped.
const asynqSlack = 20 * time.Second

// unlimited is asynq's limit of retries, which must never decide.
const unlimited = 1 << 20

const queuesKey = "asynq:queues" // the set of all queue names, which dashboards read

func prefix(source string) string      { return "asynq:{" + source + "}:" }
func taskKey(source, id string) string { return prefix(source) + "t:" + id }

const maxPlainID = 200

// taskID is the id of an event as a task. What a dashboard, a key or a URL
// could trip over is hashed; the "!" before it occurs in no plain id, so an
// event cannot be given the id of another's task.
func taskID(eventID string) string {
	if isPlain(eventID) {
		return eventID
	}
	sum := sha256.Sum256([]byte(eventID))
	return "!" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// conflictID is the id of the task that brings a second body of an event to
// the worker, to be kept. It too has a "!", but never in front of a plain id.
func conflictID(eventID string, body [sha256.Size]byte) string {
	return taskID(eventID) + "!" + base64.RawURLEncoding.EncodeToString(body[:])
}

func isPlain(id string) bool {
	if id == "" || len(id) > maxPlainID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '~', c == ':', c == '@', c == '+', c == '=', c == '-':
		default:
			return false
		}
	}
	return true
}
