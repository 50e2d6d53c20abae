package webhook

import "time"

// A Record is all that is known of one event, as people and programs read it.
type Record struct {
	Source        string            `json:"source"`
	EventID       string            `json:"event_id"`
	EventType     string            `json:"event_type"`
	Status        Status            `json:"status"`
	Attempt       int               `json:"attempt"`
	BudgetFrom    int               `json:"budget_from"`
	Lost          int               `json:"lost"`
	PayloadSHA256 string            `json:"payload_sha256"`           // hexadecimal
	Payload       []byte            `json:"payload_base64,omitempty"` // byte for byte; left out of lists
	ContentType   string            `json:"content_type"`
	Headers       map[string]string `json:"headers"`
	Delivery      string            `json:"delivery"`
	ReceivedAt    time.Time         `json:"received_at"`
	StartedAt     *time.Time        `json:"started_at"`
	LeaseUntil    *time.Time        `json:"lease_until"`
	CompletedAt   *time.Time        `json:"completed_at"`
	NextAttemptAt *time.Time        `json:"next_attempt_at"`
	LastError     string            `json:"last_error,omitempty"`
	ErrorKind     Kind              `json:"error_kind,omitempty"`
	Worker        string            `json:"worker,omitempty"`

	Attempts []AttemptRecord `json:"attempts,omitempty"` // those that did not succeed, oldest first
	// Conflicts holds the hashes of other bodies that came under the same id.
	Conflicts []string `json:"conflicts,omitempty"`
}

// An AttemptRecord tells of one attempt that did not succeed.
type AttemptRecord struct {
	Attempt   int        `json:"attempt"`
	Kind      Kind       `json:"kind"`
	Error     string     `json:"error"`
	StartedAt *time.Time `json:"started_at"`
	EndedAt   time.Time  `json:"ended_at"`
	Worker    string     `json:"worker"`
}

// A Filter chooses events for a list. Zero fields choose all.
type Filter struct {
	Source string
	Status Status
	Type   string
	Since  time.Time
	Limit  int // at most this many, newest first; must be positive
}

// A DeadFilter chooses dead events. Zero fields choose all.
type DeadFilter struct {
	Source string
	ID     string // needs Source
	Type   string
	Cause  string // as a DeadGroup names it
	Since  time.Time
	Until  time.Time
}

// A DeadGroup is what dead events with one cause have in common.
type DeadGroup struct {
	Cause   string    `json:"cause"` // of kind and text, without the numbers in it
	Source  string    `json:"source"`
	Kind    Kind      `json:"kind"`
	Events  int       `json:"events"`
	First   time.Time `json:"first"` // when the first of them died
	Last    time.Time `json:"last"`
	Example string    `json:"example_event_id"`
	Error   string    `json:"example_error"`
}

// A TaskRef names a task of a source's queue.
type TaskRef struct {
	TaskID  string
	EventID string // "" if the task does not tell
}
