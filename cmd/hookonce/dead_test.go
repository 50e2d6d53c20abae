package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/handler"
	"github.com/hookonce/hookonce/pkg/program"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A morgue is a database with events that are dead.
type morgue struct {
	*house
	t    *testing.T
	name string // of the source
	db   *pgx.Conn
}

func openMorgue(t *testing.T) *morgue {
	t.Helper()
	database := stacktest.Postgres(t)
	if _, err := migrations.Up(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	name := stacktest.Source(t)
	sources := fmt.Sprintf("sources: {%s: {verify: none, id: {json: /id}, type: {json: /type}, handlers: [{match: '*', handler: mood}]}}", name)
	return &morgue{t: t, name: name, db: connect(t, database), house: &house{environ: []string{
		"DATABASE_URL=" + withPassword(t, database), "REDIS_URL=" + stacktest.Redis(t), "ALLOW_UNSIGNED=true",
		"HOOKONCE_CONFIG=" + write(t, filepath.Join(t.TempDir(), "sources.yaml"), sources),
		"INGEST_ADDR=127.0.0.1:0", "OPS_ADDR=127.0.0.1:0",
	}}}
}

const fillMorgue = `
WITH dead AS (
	INSERT INTO received_events (source, event_id, event_type, status, payload, payload_sha256, delivery, received_at, attempt, last_error, error_kind)
	SELECT $1, $2 || n, 'type.' || $2, 'dead', '{}', sha256('{}'), 'd', now(), 3, 'order ' || n || ' failed: ' || $2, 'error'
	FROM generate_series(1, $3::int) n RETURNING *
)
INSERT INTO event_attempts SELECT source, event_id, attempt, 'error', last_error, NULL, now() - $4::interval, 'w' FROM dead`

// fill adds n events that died of a cause, some time ago. Their ids begin with
// the cause.
func (m *morgue) fill(cause string, n int, ago time.Duration) {
	m.t.Helper()
	if _, err := m.db.Exec(m.t.Context(), fillMorgue, m.name, cause, n, ago); err != nil {
		m.t.Fatal(err)
	}
}

// dead are the ids of those that are dead still.
func (m *morgue) dead() string {
	m.t.Helper()
	var ids string
	const query = `SELECT coalesce(string_agg(event_id, ' ' ORDER BY id), '') FROM received_events WHERE status = 'dead'`
	if err := m.db.QueryRow(m.t.Context(), query).Scan(&ids); err != nil {
		m.t.Fatal(err)
	}
	return ids
}

// audits are the lines of audit_log.
func (m *morgue) audits() string {
	m.t.Helper()
	var lines string
	const query = `SELECT coalesce(string_agg(concat_ws(' ', action, details->>'Events', reason), ', ' ORDER BY id), '') FROM audit_log WHERE actor <> ''`
	if err := m.db.QueryRow(m.t.Context(), query).Scan(&lines); err != nil {
		m.t.Fatal(err)
	}
	return lines
}

func (m *morgue) groups(args ...string) []webhook.DeadGroup {
	m.t.Helper()
	out := must(m.t, m.environ, append([]string{"dead", "list", "-o", "json"}, args...)...)
	var groups []webhook.DeadGroup
	if err := json.Unmarshal([]byte(out), &groups); err != nil || !strings.HasPrefix(out, "[") {
		m.t.Fatalf("dead list %v prints no array: %v: %s", args, err, out)
	}
	return groups
}

func TestDeadList(t *testing.T) {
	t.Parallel()
	m := openMorgue(t)
	if out := must(t, m.environ, "dead", "list", "-o", "json"); out != "[]\n" {
		t.Errorf("an empty list is %q, want []", out)
	}
	m.fill("stock", 3, time.Hour)
	m.fill("tax", 2, 3*time.Hour)
	if _, err := m.db.Exec(t.Context(), `UPDATE received_events SET last_error = E'no\n\ttax' WHERE event_type = 'type.tax'`); err != nil {
		t.Fatal(err)
	}
	groups := m.groups()
	if len(groups) != 2 || groups[0].Events != 3 || groups[0].Error != "order 3 failed: stock" || groups[0].Example != "stock3" || groups[0].Kind != "error" ||
		groups[0].Source != m.name || len(groups[0].Cause) != 12 || groups[1].Events != 2 || groups[1].Cause == groups[0].Cause {
		t.Errorf("groups = %+v, want 3 and 2 events", groups)
	}
	tests := []struct {
		args string
		want int
	}{
		{"", 5},
		{"--source " + m.name, 5},
		{"--source nobody", 0},
		{"--type type.stock", 3},
		{"--cause " + groups[0].Cause, 3},
		{"--since 2h", 3},
		{"--until 2h", 2},
		{"--since 4h --until 2h", 2},
		{"--since 1ns", 0},
		{"--since 2030-01-02T12:00:00+01:00", 0},
		{"--until 2030-01-02T12:00:00Z", 5},
	}
	for _, tt := range tests {
		n := 0
		for _, g := range m.groups(strings.Fields(tt.args)...) {
			n += g.Events
		}
		if n != tt.want {
			t.Errorf("dead list %s has %d events, want %d", tt.args, n, tt.want)
		}
	}
	table := must(t, m.environ, "dead", "list")
	lines := strings.Split(table, "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[0], "CAUSE ") || !strings.HasPrefix(lines[1], groups[0].Cause+"  "+m.name+"  error  3 ") {
		t.Errorf("table:\n%s", table)
	}
	contains(t, table, "order 3 failed: stock", "no tax\n", groups[0].Last.UTC().Format(time.DateTime))
	refuses(t, m.environ, "neither a time", "dead", "list", "--since", "yesterday")
	refuses(t, m.environ, "neither a time", "dead", "list", "--until", "2030-01-02")
	refuses(t, m.environ, "unknown command", "dead", "list", "all")
	refuses(t, m.environ, "must be json or table", "dead", "list", "-o", "yaml")
}

func TestDeadReplayRefused(t *testing.T) {
	t.Parallel()
	m := openMorgue(t)
	m.fill("stock", 3, time.Hour)
	tests := []struct{ args, want string }{
		{"--reason r", "would replay all dead events"},
		{"", "would replay all dead events"},
		{"--source " + m.name, "--reason must say why"},
		{m.name + " stock1", "--reason must say why"},
		{"--limit 2", "--reason must say why"},
		{m.name + " --reason r", "give SOURCE and EVENT_ID"},
		{"a b c --reason r", "give SOURCE and EVENT_ID"},
		{"--limit 2 --reason r --rate 0", "must be positive"},
		{"--limit -2 --reason r", "must be positive"},
		{"--since yesterday --reason r", "neither a time"},
	}
	for _, tt := range tests {
		refuses(t, m.environ, tt.want, append([]string{"dead", "replay"}, strings.Fields(tt.args)...)...)
	}
	noRedis := with(m.environ, map[string]string{"REDIS_URL": "http://user:" + marker + "@127.0.0.1"})
	refuses(t, noRedis, "REDIS_URL", "dead", "replay", "--source", m.name, "--reason", "r")
	if m.dead() != "stock1 stock2 stock3" || m.audits() != "" {
		t.Errorf("dead are %q, audit_log is %q, want nothing done", m.dead(), m.audits())
	}
}

func TestDeadReplay(t *testing.T) {
	t.Parallel()
	m := openMorgue(t)
	m.fill("stock", 5, time.Hour)
	m.fill("tax", 4, 3*time.Hour)
	replay := func(want, dead string, args ...string) {
		t.Helper()
		if out := must(t, m.environ, append([]string{"dead", "replay"}, args...)...); out != want {
			t.Errorf("dead replay %v prints %q, want %q", args, out, want)
		}
		if got := m.dead(); got != dead {
			t.Errorf("dead after %v are %q, want %q", args, got, dead)
		}
	}
	const all = "stock1 stock2 stock3 stock4 stock5 tax1 tax2 tax3 tax4"
	replay("9 events would run again\n", all, "--dry-run")
	replay("3 events would run again\n", all, "--dry-run", "--limit", "3")
	replay("4 events would run again\n", all, "--dry-run", "--until", "2h")
	replay("1 events would run again\n", all, "--dry-run", m.name, "stock4")
	if got := m.audits(); got != "" {
		t.Errorf("audit_log of dry runs = %q", got)
	}
	for _, flag := range []string{"--dry-run", "--reason=r"} {
		refuses(t, m.environ, "no dead event nothing of source", "dead", "replay", m.name, "nothing", flag)
	}
	replay("1 events run again\n", "stock1 stock2 stock3 stock5 tax1 tax2 tax3 tax4", m.name, "stock4", "--reason", "one")
	replay("2 events run again\n", "stock3 stock5 tax1 tax2 tax3 tax4", "--limit", "2", "--reason", "two")
	replay("1 events run again\n", "stock5 tax1 tax2 tax3 tax4", "--source", m.name, "--limit", "1", "--reason", "limit")
	replay("4 events run again\n", "stock5", "--since", "4h", "--until", "2h", "--reason", "between")
	replay("1 events run again\n", "", "--cause", m.groups()[0].Cause, "--reason", "cause")
	if got, want := m.audits(), "replay 1 one, replay 2 two, replay 1 limit, replay 4 between, replay 1 cause"; got != want {
		t.Errorf("audit_log = %q, want %q", got, want)
	}
}

// TestDeadReplayRate takes a second for each batch, and asks for none twice
// though those of the first die again at once.
func TestDeadReplayRate(t *testing.T) {
	t.Parallel()
	m := openMorgue(t)
	m.work(func(webhook.Event) error { return webhook.Permanent(errors.New("still no stock")) })
	m.fill("stock", 5, time.Hour)
	start := time.Now()
	if out := must(t, m.environ, "dead", "replay", "--source", m.name, "--rate", "2", "--reason", "r"); out != "5 events run again\n" {
		t.Errorf("prints %q", out)
	}
	if took := time.Since(start); took < 1900*time.Millisecond {
		t.Errorf("5 events at 2 a second took %s, want 2 s", took)
	}
	eventually(t, "all are dead again", func() bool { return m.dead() == "stock1 stock2 stock3 stock4 stock5" })
	var attempts string
	const query = `SELECT string_agg(attempt || ' ' || budget_from, ', ' ORDER BY event_id) FROM received_events`
	if err := m.db.QueryRow(t.Context(), query).Scan(&attempts); err != nil || attempts != "4 3, 4 3, 4 3, 4 3, 4 3" {
		t.Errorf("attempts and budgets are %q, %v, want each event once more", attempts, err)
	}
	if got := m.audits(); got != "replay 2 r, replay 2 r, replay 1 r" {
		t.Errorf("audit_log = %q", got)
	}
}

// TestDeadReplayWithoutRedis leaves the sending to the workers.
func TestDeadReplayWithoutRedis(t *testing.T) {
	t.Parallel()
	m := openMorgue(t)
	m.fill("stock", 2, time.Hour)
	environ := with(m.environ, map[string]string{"REDIS_URL": "redis://user:" + marker + "@127.0.0.1:1"})
	out, said, err := call(t, environ, "dead", "replay", "--source", m.name, "--reason", "r")
	if err != nil || out != "2 events run again\n" || !strings.Contains(said, "a worker will send for them within 30 s") {
		t.Errorf("dead replay = %v, prints %q and says %q", err, out, said)
	}
	if m.dead() != "" {
		t.Errorf("%s are dead", m.dead())
	}
}

// work starts a worker whose handler does what handle says.
func (m *morgue) work(handle func(webhook.Event) error) {
	m.t.Helper()
	mood := handler.Func(func(_ context.Context, _ pgx.Tx, ev webhook.Event) error { return handle(ev) })
	m.start(m.t, func(ctx context.Context, o program.Options) error {
		o.Handlers, o.Stderr = map[string]handler.Handler{"mood": mood}, io.Discard
		return program.Worker(ctx, o)
	})
}

// TestDeadReplayCompletes lets an event die for good, and then live.
func TestDeadReplayCompletes(t *testing.T) {
	t.Parallel()
	m := openMorgue(t)
	var works atomic.Bool
	var body atomic.Value
	m.work(func(ev webhook.Event) error {
		body.Store(string(ev.Body))
		if works.Load() {
			return nil
		}
		return webhook.Permanent(errors.New("no stock"))
	})
	for _, ack := range []string{"queue", "inbox"} {
		works.Store(false)
		ingest := m.start(t, program.Ingest, "INGEST_ACK="+ack)
		environ := append([]string{"INGEST_URL=http://" + ingest.String()}, m.environ...)
		id := "evt " + ack
		sent := fmt.Sprintf(`{"id": %q,  "type": "t"}`, id)
		must(t, environ, "send", "--source", m.name, "--id", id, "--file", write(t, filepath.Join(t.TempDir(), "body"), sent))
		m.await(t, m.name, id, webhook.Dead)
		if got := m.groups(); len(got) != 1 || got[0].Events != 1 || !strings.Contains(got[0].Error, "no stock") {
			t.Errorf("dead list = %+v", got)
		}
		works.Store(true)
		if out := must(t, m.environ, "dead", "replay", m.name, id, "--reason", "stock is back"); out != "1 events run again\n" {
			t.Errorf("dead replay prints %q", out)
		}
		r := m.await(t, m.name, id, webhook.Completed)
		if r.Attempt != 2 || r.BudgetFrom != 1 || string(r.Payload) != sent || body.Load() != sent {
			t.Errorf("record = %+v with handler's body %q, want it done at attempt 2", r, body.Load())
		}
		refuses(t, m.environ, "no dead event", "dead", "replay", m.name, id, "--reason", "again")
	}
	if got := m.audits(); got != "replay 1 stock is back, replay 1 stock is back" {
		t.Errorf("audit_log = %q", got)
	}
}
