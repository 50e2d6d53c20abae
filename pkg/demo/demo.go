// Package demo tells the story of a webhook that is delivered more than once,
// on a running ingest and worker, with the provider's real answers, and checks
// that each step went as promised.
package demo

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/signature"
)

// Sources is the sources file that the story needs; its ${DEMO_SECRET} must be
// set to [Secret].
//
//go:embed demo.yaml
var Sources []byte

// Secret is what the demo's provider signs with. It guards nothing.
const Secret = "whsec_aG9va29uY2UtZGVtby1zZWNyZXQtMDEyMw=="

const (
	source     = "demo"        // the queue remembers its done tasks for a while
	forgetting = "demo-forget" // and these not at all
)

// A Stage is what the story plays on.
type Stage struct {
	IngestURL   string
	DatabaseURL string
	Forget      func(ctx context.Context, source, eventID string) error // Redis loses all it knows of an event
	Out         io.Writer
}

// A Story is one run of the demo. Its handler must be known to the worker under
// the name "demo".
type Story struct {
	Handler *Handler

	stage    Stage
	db       *pgx.Conn
	verifier *signature.Verifier
	run      string // makes the events' ids new for each run
	failures []error
}

// New returns a story that has not been told.
func New() *Story { return &Story{Handler: newHandler(), run: time.Now().UTC().Format("150405.000")} }

// Tell plays all steps on the stage, which must run a worker with the story's
// handler. It returns an error that lists what was not as promised.
func (s *Story) Tell(ctx context.Context, stage Stage) (err error) {
	s.stage = stage
	if s.verifier, err = signature.StandardWebhooks("webhook").Verifier([]string{Secret}); err != nil {
		return err
	}
	if s.db, err = pgx.Connect(ctx, stage.DatabaseURL); err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer s.db.Close(context.WithoutCancel(ctx))
	if _, err := s.db.Exec(ctx, createEffects); err != nil {
		return fmt.Errorf("create table demo_effects: %w", err)
	}
	for _, chapter := range []func(context.Context){
		s.copies, s.afterRedisForgot, s.burst, s.flaky, s.death, s.overtaken, s.refusals, s.count,
	} {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		chapter(ctx)
	}
	return errors.Join(s.failures...)
}

// say prints a line of the story.
func (s *Story) say(format string, args ...any) { fmt.Fprintf(s.stage.Out, format+"\n", args...) }

// expect notes what is not as promised.
func (s *Story) expect(ok bool, format string, args ...any) {
	if ok {
		return
	}
	err := fmt.Errorf(format, args...)
	s.failures = append(s.failures, err)
	s.say("    NOT AS PROMISED: %v", err)
}

// An answer is what ingest told the provider.
type answer struct {
	Code    int    `json:"-"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

// post delivers an event, signed, as its provider would.
func (s *Story) post(ctx context.Context, source, id, typ string) answer {
	body := fmt.Sprintf(`{"type":%q,"data":{"amount":4200}}`, typ)
	return s.deliver(ctx, source, s.sign(id, body), body)
}

// sign returns the headers that go with body. Without a signature, ingest will
// say so.
func (s *Story) sign(id, body string) http.Header {
	r, err := s.verifier.Sign(signature.Request{Method: http.MethodPost, Body: []byte(body)}, id, time.Now())
	if err != nil {
		s.expect(false, "signing: %v", err)
	}
	return r.Header
}

func (s *Story) deliver(ctx context.Context, source string, h http.Header, body string) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.stage.IngestURL+"/webhooks/"+source, strings.NewReader(body))
	if err != nil {
		return answer{Message: err.Error()}
	}
	req.Header = h
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{Message: err.Error()}
	}
	defer resp.Body.Close()
	a := answer{Code: resp.StatusCode}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		a.Message = err.Error()
	}
	return a
}

// check prints an answer and compares it with the promise.
func (s *Story) check(what string, a answer, code int, status, message string) {
	s.say("  %-46s -> %d %-9s %s", what, a.Code, a.Status, a.Message)
	s.expect(a.Code == code && a.Status == status && strings.Contains(a.Message, message),
		"%s: got %d %s %q, want %d %s %q", what, a.Code, a.Status, a.Message, code, status, message)
}

const (
	inProgress = "processing is already in progress"
	processed  = "already processed"
	patience   = 20 * time.Second
)

func (s *Story) id(name string) string { return name + "-" + s.run }

func (s *Story) copies(ctx context.Context) {
	id := s.id("slow")
	s.say("1. A handler that takes 2 s, and copies of its event")
	s.check("first delivery", s.post(ctx, source, id, "slow"), 200, "accepted", "")
	s.await(ctx, "its handler runs", s.Handler.started(id))
	s.check("a copy while the handler runs", s.post(ctx, source, id, "slow"), 200, "duplicate", inProgress)
	s.awaitStatus(ctx, source, id, "completed")
	s.awaitProcessed(ctx, source, id, "slow")
	s.check("a copy after it ended", s.post(ctx, source, id, "slow"), 200, "duplicate", processed)
	s.effects(ctx, source, id, 1)
}

func (s *Story) afterRedisForgot(ctx context.Context) {
	id := s.id("forgotten")
	s.say("2. A copy that comes when Redis no longer remembers (where lock, run, unlock runs it again)")
	s.check("first delivery", s.post(ctx, forgetting, id, "quick"), 200, "accepted", "")
	s.awaitStatus(ctx, forgetting, id, "completed")
	s.awaitAccepted(ctx, forgetting, id, "quick")
	s.awaitGone(ctx, forgetting, id, "quick")
	s.effects(ctx, forgetting, id, 1)
}

func (s *Story) burst(ctx context.Context) {
	id := s.id("burst")
	s.say("3. Five copies at once")
	answers := make(chan answer)
	for range 5 {
		go func() { answers <- s.post(ctx, source, id, "quick") }()
	}
	got := map[string]int{}
	for range 5 {
		got[(<-answers).Status]++
	}
	s.say("  5 deliveries at once                           -> %d accepted, %d duplicate", got["accepted"], got["duplicate"])
	s.expect(got["accepted"] == 1 && got["duplicate"] == 4, "five copies: got %v, want 1 accepted and 4 duplicate", got)
	s.awaitStatus(ctx, source, id, "completed")
	s.effects(ctx, source, id, 1)
}

func (s *Story) flaky(ctx context.Context) {
	id := s.id("flaky")
	s.say("4. A handler that fails twice and then works")
	s.check("delivery", s.post(ctx, source, id, "flaky"), 200, "accepted", "")
	s.awaitStatus(ctx, source, id, "completed")
	attempt := s.attempt(ctx, source, id)
	s.say("  completed in attempt %d", attempt)
	s.expect(attempt == 3, "flaky: completed in attempt %d, want 3", attempt)
	s.effects(ctx, source, id, 1)
}

func (s *Story) death(ctx context.Context) {
	id := s.id("poison")
	s.say("5. An event that dies, and is revived by a redelivery")
	s.check("delivery", s.post(ctx, source, id, "poison"), 200, "accepted", "")
	s.awaitStatus(ctx, source, id, "dead")
	s.effects(ctx, source, id, 0)
	s.awaitAnswer(ctx, "redelivery, now that the handler is mended", source, id, "poison", "requeued")
	s.awaitStatus(ctx, source, id, "completed")
	s.effects(ctx, source, id, 1)
}

// overtaken is the case that only the fence decides: a worker that stalls past
// its lease, wakes up and commits.
func (s *Story) overtaken(ctx context.Context) {
	id := s.id("stalled")
	s.say("6. A worker that stalls past its lease, while Redis loses the event, and then wakes up")
	s.say("   (asynq will log that it cannot move the task: it is the one that Redis lost)")
	s.check("delivery", s.post(ctx, forgetting, id, "stalled"), 200, "accepted", "")
	s.await(ctx, "its handler runs", s.Handler.started(id))
	if _, err := s.db.Exec(ctx, endLease, forgetting, id); err != nil {
		s.expect(false, "end the lease: %v", err)
	}
	if err := s.stage.Forget(ctx, forgetting, id); err != nil {
		s.expect(false, "let Redis forget: %v", err)
	}
	s.check("redelivery", s.post(ctx, forgetting, id, "stalled"), 200, "accepted", "")
	s.awaitStatus(ctx, forgetting, id, "completed")
	s.Handler.wake()
	s.await(ctx, "the stalled handler has written and tried to commit", s.Handler.woken)
	s.settled(ctx)
	s.effects(ctx, forgetting, id, 1)
}

func (s *Story) refusals(ctx context.Context) {
	s.say("7. What is refused, and leaves no trace")
	body := `{"type":"quick"}`
	h := s.sign(s.id("forged"), body)
	s.check("a body that was changed after it was signed", s.deliver(ctx, source, h, `{"type":"quick" }`), 401, "error", "Signature")
	body = `{"type":"quick",}`
	h = s.sign(s.id("broken"), body)
	s.check("a body that is no JSON", s.deliver(ctx, source, h, body), 400, "error", "Invalid payload")
	for _, name := range []string{"forged", "broken"} {
		status := s.status(ctx, source, s.id(name))
		s.expect(status == "", "%s: the event has a row, %s", name, status)
	}
}

func (s *Story) count(ctx context.Context) {
	for _, q := range []string{countStates, countEffects} {
		s.say("\n%s", strings.TrimSpace(q))
		rows, _ := s.db.Query(ctx, q, "%-"+s.run) // the error comes out of the collector
		lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
			values, err := row.Values()
			return strings.TrimSpace(fmt.Sprintln(values...)), err
		})
		s.expect(err == nil, "count: %v", err)
		for _, line := range lines {
			s.say("  %s", line)
		}
		if q == countStates {
			s.expect(slices.Equal(lines, []string{"completed 6"}), "states: got %v, want all 6 events completed", lines)
		}
	}
}
