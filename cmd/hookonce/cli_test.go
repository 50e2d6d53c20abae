package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/program"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// Each password and each secret of these tests has marker in it, and no output
// may have it.
const (
	marker = "hunter2"
	secret = "whsec_" + marker + marker + marker + marker + "hunt"
)

// call runs the tool.
func call(t *testing.T, environ []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	err = run(t.Context(), args, environ, &out, &errOut)
	if all := fmt.Sprint(out.String(), errOut.String(), err); strings.Contains(all, marker) {
		t.Errorf("hookonce %v tells a secret: %s", args, all)
	}
	return out.String(), errOut.String(), err
}

// must runs the tool, which must succeed, and returns what it prints.
func must(t *testing.T, environ []string, args ...string) string {
	t.Helper()
	out, errOut, err := call(t, environ, args...)
	if err != nil || errOut != "" {
		t.Fatalf("hookonce %v = %v, and says %q", args, err, errOut)
	}
	return out
}

// refuses runs the tool, which must fail and say what.
func refuses(t *testing.T, environ []string, want string, args ...string) {
	t.Helper()
	if out, _, err := call(t, environ, args...); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("hookonce %q = %v, want an error with %q; it printed %q", args, err, want, out)
	}
}

// withPassword returns an address with a password that its server ignores.
func withPassword(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(u.User.Username(), marker)
	return u.String()
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	environ := []string{"DATABASE_URL=" + withPassword(t, stacktest.Postgres(t))}
	all := func(out, prefix string) {
		t.Helper()
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, prefix) || !strings.HasSuffix(line, ".sql\n") {
				t.Errorf("line %q, want %s and the name of a file", line, prefix)
			}
		}
		contains(t, out, "0001_events.sql")
	}
	all(must(t, environ, "migrate", "status"), "pending  ")
	all(must(t, environ, "migrate", "up"), "applied ")
	if got := must(t, environ, "migrate", "up"); got != "nothing to do\n" {
		t.Errorf("migrate up again prints %q", got)
	}
	all(must(t, environ, "migrate", "status"), "applied  ")
}

// A house is a running ingest, and a worker of all sources but github.
type house struct {
	environ []string          // of the tool
	names   map[string]string // of the sources
}

const houseSources = `
sources:
  %[1]s:
    provider: standard-webhooks
    secrets: ["${STANDARD_SECRET}"]
    handlers: [{match: "payment.*", handler: payments, amount: {json: /data/amount}}]
  %[2]s: {provider: github, secrets: ["${PLAIN_SECRET}"]}
  %[3]s: {provider: stripe, secrets: ["${PLAIN_SECRET}"]}
  %[4]s:
    verify: {scheme: hmac, header: X-Signature, algorithm: sha512, encoding: base64, prefix: "v0=", signed: "{timestamp}.{body}", timestamp_header: X-Time}
    secrets: ["${PLAIN_SECRET}"]
    id: {json: /data/object~1id}
    type: {header: X-Kind}
`

func open(t *testing.T) *house {
	t.Helper()
	database := stacktest.Postgres(t)
	if _, err := migrations.Up(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	h := &house{names: map[string]string{}}
	var names []any
	for _, kind := range []string{"standard-webhooks", "github", "stripe", "hmac"} {
		h.names[kind] = stacktest.Source(t)
		names = append(names, h.names[kind])
	}
	h.environ = []string{
		"DATABASE_URL=" + withPassword(t, database), "REDIS_URL=" + stacktest.Redis(t),
		"HOOKONCE_CONFIG=" + write(t, filepath.Join(t.TempDir(), "sources.yaml"), fmt.Sprintf(houseSources, names...)),
		"STANDARD_SECRET=" + secret, "PLAIN_SECRET=" + marker + "-and-more",
		"INGEST_ADDR=127.0.0.1:0", "OPS_ADDR=127.0.0.1:0",
	}
	ingest := h.start(t, program.Ingest)
	only := []string{h.names["standard-webhooks"], h.names["stripe"], h.names["hmac"]}
	h.start(t, program.Worker, "WORKER_SOURCES="+strings.Join(only, ","))
	h.environ = append(h.environ, "INGEST_URL=http://"+ingest.String())
	return h
}

// start runs a program until the end of the test.
func (h *house) start(t *testing.T, run func(context.Context, program.Options) error, more ...string) (public net.Addr) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	listening, done := make(chan net.Addr, 1), make(chan error, 1)
	o := program.Options{Environ: append(slices.Clone(h.environ), more...), Stderr: io.Discard, Listening: func(public, _ net.Addr) { listening <- public }}
	go func() { done <- run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case public = <-listening:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	return public
}

// show returns an event as JSON has it.
func (h *house) show(t *testing.T, source, id string) webhook.Record {
	t.Helper()
	var r webhook.Record
	if err := json.Unmarshal([]byte(must(t, h.environ, "events", "show", source, id, "-o", "json")), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func (h *house) await(t *testing.T, source, id string, want webhook.Status) webhook.Record {
	t.Helper()
	var r webhook.Record
	eventually(t, id+" is "+string(want), func() bool {
		r = h.show(t, source, id)
		return r.Status == want
	})
	return r
}

func (h *house) list(t *testing.T, args ...string) []string {
	t.Helper()
	var list []webhook.Record
	out := must(t, h.environ, append([]string{"events", "list", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &list); err != nil || !strings.HasPrefix(out, "[") {
		t.Fatalf("events list %v prints no array: %v: %s", args, err, out)
	}
	var ids []string
	for _, r := range list {
		ids = append(ids, r.EventID)
	}
	return ids
}

// TestSend sends what the tool makes up, for each kind of source, through
// ingest and worker.
func TestSend(t *testing.T) {
	t.Parallel()
	h := open(t)
	for kind, name := range h.names {
		want := webhook.Completed
		if kind == "github" {
			want = webhook.Queued
		}
		id := "evt/1 of " + kind
		out := must(t, h.environ, "send", "--source", name, "--id", id, "--type", "payment.made", "--amount", "7")
		contains(t, out, `200 {"status":"accepted"`, `"event_id":"`+id+`"`)
		if r := h.await(t, name, id, want); r.EventType != "payment.made" || r.Source != name {
			t.Errorf("%s: got %+v", kind, r)
		}
	}
	db := connect(t, strings.TrimPrefix(h.environ[0], "DATABASE_URL="))
	var amount int
	if err := db.QueryRow(t.Context(), "SELECT amount FROM payments").Scan(&amount); err != nil || amount != 7 {
		t.Errorf("payment of %d, %v, want 7", amount, err)
	}
}

// TestSendDefault sends to the source that is there without a sources file.
func TestSendDefault(t *testing.T) {
	t.Parallel()
	src := source.Default()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		items, err := src.Read(r.Header, body)
		fmt.Fprintln(w, r.URL.Path, r.Header.Get("Content-Type"), items[0].ID, items[0].Type, err, bytes.Contains(body, []byte(`"amount":4200`)))
	}))
	defer server.Close()
	out := must(t, []string{"INGEST_URL=" + server.URL + "/"}, "send", "--id", "e1")
	if want := "200 /webhooks/default application/json e1 payment.succeeded <nil> true\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
	out = must(t, []string{"INGEST_URL=http://127.0.0.1:1"}, "send", "--url", server.URL)
	contains(t, out, " evt_")
}

func TestSendFile(t *testing.T) {
	t.Parallel()
	h := open(t)
	body := "{\"action\": \"opened\",\r\n \"n\": 1.50e1, \"text\": \"\\u0000\"}\n"
	file := write(t, filepath.Join(t.TempDir(), "body.json"), body)
	must(t, h.environ, "send", "--source", h.names["github"], "--file", file, "--id", "f1", "--type", "issues")
	if r := h.show(t, h.names["github"], "f1"); string(r.Payload) != body || r.EventType != "issues.opened" {
		t.Errorf("got %q of type %s", r.Payload, r.EventType)
	}
	refuses(t, h.environ, "no such file", "send", "--source", h.names["github"], "--file", file+".not")
}

func TestSendCopies(t *testing.T) {
	t.Parallel()
	h := open(t)
	for id, more := range map[string][]string{"c1": {"--parallel"}, "c2": nil} {
		out := must(t, h.environ, append([]string{"send", "--source", h.names["github"], "--id", id, "--copies", "5"}, more...)...)
		if lines := strings.Count(out, "200 {"); lines != 5 || strings.Count(out, "\n") != 5 ||
			strings.Count(out, `"accepted"`) != 1 || strings.Count(out, `"duplicate"`) != 4 {
			t.Errorf("--copies 5 %v prints %s", more, out)
		}
	}
}

func TestSendRefused(t *testing.T) {
	t.Parallel()
	h := open(t)
	name := h.names["stripe"]
	other := with(h.environ, map[string]string{"PLAIN_SECRET": marker + "-another"})
	out, _, err := call(t, other, "send", "--source", name, "--copies", "2")
	if err == nil || err.Error() != "2 of 2 deliveries were not accepted: 401 Unauthorized" || strings.Count(out, "401 {") != 2 {
		t.Errorf("with another secret: %v, %s", err, out)
	}
	refuses(t, h.environ, "refused", "send", "--source", name, "--url", "http://user:"+marker+"@127.0.0.1:1")
	refuses(t, h.environ, "INGEST_URL: not an address", "send", "--source", name, "--url", "http://user:"+marker+"@127.0.0.1:x")
	refuses(t, h.environ, "INGEST_URL: not an address", "send", "--source", name, "--url", "localhost:8080")
	refuses(t, h.environ, "--copies must be positive", "send", "--source", name, "--copies", "0")
	for _, known := range h.names {
		refuses(t, h.environ, known, "send", "--source", "nobody")
	}
	refuses(t, []string{"HOOKONCE_CONFIG=/not/there.yaml"}, "/not/there.yaml", "send")
	refuses(t, with(h.environ, map[string]string{"PLAIN_SECRET": ""}), "empty", "send", "--source", name)
	if ids := h.list(t, "--source", name); ids != nil {
		t.Errorf("events %v came of refused deliveries", ids)
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	h := open(t)
	name := h.names["standard-webhooks"]
	if out := must(t, h.environ, "events", "list", "-o", "json"); out != "[]\n" {
		t.Errorf("an empty list is %q, want []", out)
	}
	for _, ev := range []struct {
		id, typ, amount string
		want            webhook.Status
	}{
		{"a", "payment.made", "1", webhook.Completed},
		{"b", "order.made", "1", webhook.Completed},
		{"c", "payment.made", "-1", webhook.Dead},
	} {
		must(t, h.environ, "send", "--source", name, "--id", ev.id, "--type", ev.typ, "--amount", ev.amount)
		h.await(t, name, ev.id, ev.want)
	}
	tests := []struct {
		args string
		want string
	}{
		{"", "c b a"},
		{"--limit 2", "c b"},
		{"--source " + name, "c b a"},
		{"--source nobody", ""},
		{"--status completed", "b a"},
		{"--status dead", "c"},
		{"--type payment.made", "c a"},
		{"--type payment.made --status completed --since 1h", "a"},
		{"--since 1ns", ""},
	}
	for _, tt := range tests {
		if got := strings.Join(h.list(t, strings.Fields(tt.args)...), " "); got != tt.want {
			t.Errorf("events list %s: %q, want %q", tt.args, got, tt.want)
		}
	}
	table := must(t, h.environ, "events", "list")
	if lines := strings.Split(table, "\n"); len(lines) != 5 || !strings.HasPrefix(lines[0], "SOURCE ") || !strings.HasPrefix(lines[1], name+"  c ") {
		t.Errorf("table:\n%s", table)
	}
	contains(t, table, "negative", "completed", "dead")
	contains(t, must(t, h.environ, "events", "show", name, "a"), "\nstatus     completed\n", "\ncompleted  ", " bytes, sha256 ")
	contains(t, must(t, h.environ, "events", "show", name, "c"), " dead\n", "\nlast error  permanent: ", "negative", "attempt 1 ")
	refuses(t, h.environ, "no event nothing of source "+name, "events", "show", name, "nothing")
	refuses(t, h.environ, "no event a of source nobody", "events", "show", "nobody", "a", "-o", "json")
}

// TestEventsQueued looks at an event that only the queue has as yet.
func TestEventsQueued(t *testing.T) {
	t.Parallel()
	h := open(t)
	name := h.names["github"] // nobody works for it
	must(t, h.environ, "send", "--source", name, "--id", "q")
	if r := h.show(t, name, "q"); r.Status != webhook.Queued || r.Attempt != 0 || r.EventID != "q" || r.PayloadSHA256 == "" {
		t.Errorf("got %+v", r)
	}
	contains(t, must(t, h.environ, "events", "show", name, "q"), "\nstatus        queued\n")
	if ids := h.list(t); ids != nil {
		t.Errorf("the list has %v", ids)
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/down":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/slow":
			<-release
		}
	}))
	defer server.Close()
	defer close(release)
	user := strings.Replace(server.URL, "//", "//user:"+marker+"@", 1)
	if out := must(t, nil, "healthcheck", server.URL+"/ok"); out != "" {
		t.Errorf("prints %q", out)
	}
	refuses(t, nil, "/down answers 503 Service Unavailable", "healthcheck", user+"/down")
	refuses(t, nil, "refused", "healthcheck", "http://user:"+marker+"@127.0.0.1:1/")
	refuses(t, nil, "not an address", "healthcheck", "http://user:"+marker+"@127.0.0.1:x/")
	begun := time.Now()
	refuses(t, nil, "Timeout", "healthcheck", server.URL+"/slow")
	if took := time.Since(begun); took < 3*time.Second || took > 5*time.Second { // compose kills it after 5 s
		t.Errorf("gives up after %s, want 3 s", took)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args string
		want string
	}{
		{"nothing", `unknown command "nothing"`},
		{"migrate nothing", `unknown command "nothing"`},
		{"events nothing", `unknown command "nothing"`},
		{"migrate up twice", `unknown command "twice"`},
		{"migrate down", `unknown command "down"`},
		{"dev now", `unknown command "now"`},
		{"dev --never", "unknown flag: --never"},
		{"send me", `unknown command "me"`},
		{"send --copies many", "--copies"},
		{"send --amount 1.5", "--amount"},
		{"events list -o yaml", "must be json or table"},
		{"events list --limit 0", "--limit must be positive"},
		{"events list --since yesterday", "--since"},
		{"events list --since -1h", "--since must be positive"},
		{"events list --status done", "must be received, processing, completed, failed or dead"},
		{"events list --status queued", "not listed"},
		{"events show one", "want hookonce events show SOURCE EVENT_ID"},
		{"healthcheck", "want hookonce healthcheck URL"},
		{"healthcheck localhost", "not an address"},
	}
	for _, tt := range tests {
		refuses(t, nil, tt.want, strings.Fields(tt.args)...)
	}
	for _, args := range []string{"", "--help", "events", "migrate", "send -h"} {
		if out := must(t, nil, strings.Fields(args)...); !strings.Contains(out, "Usage:") {
			t.Errorf("hookonce %s prints no usage: %s", args, out)
		}
	}
}

// TestAway calls the tool with stores that do not answer or cannot be: call
// checks that no password is told.
func TestAway(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://user:" + marker + "@127.0.0.1:1/db",
		"postgres://user:" + marker + "@127.0.0.1:port/db",
		"postgres://user:" + marker + "/@127.0.0.1:5/db",
		"host=127.0.0.1 port=1 user=u password=" + marker,
		"host=127.0.0.1 port=x user=u password=" + marker,
	} {
		environ := []string{"DATABASE_URL=" + address, "REDIS_URL=redis://127.0.0.1:1"}
		for _, args := range []string{"migrate up", "migrate status", "events list", "events show shop a"} {
			refuses(t, environ, "", strings.Fields(args)...)
		}
	}
	database := stacktest.Postgres(t)
	if _, err := migrations.Up(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{
		"redis://user:" + marker + "@127.0.0.1:1/0",
		"redis://user:" + marker + "@127.0.0.1:port/0",
		"http://user:" + marker + "@127.0.0.1:1/0",
	} {
		refuses(t, []string{"DATABASE_URL=" + database, "REDIS_URL=" + address}, "", "events", "show", "shop", "a")
	}
}

// TestDevEnv is not parallel, since it changes the working folder.
func TestDevEnv(t *testing.T) {
	t.Chdir(t.TempDir())
	refuses(t, nil, "DATABASE_URL is not set, and no hookonce dev runs here", "events", "list")
	refuses(t, nil, "INGEST_URL is not set, and no hookonce dev runs here", "send")

	database := stacktest.Postgres(t)
	write(t, devEnvFile, "INGEST_URL=http://127.0.0.1:1\nDATABASE_URL="+withPassword(t, database)+"\n")
	_, said, err := call(t, nil, "migrate", "up")
	if err != nil || said != "using DATABASE_URL of .hookonce/dev.env\n" {
		t.Errorf("migrate up = %v, and says %q", err, said)
	}
	if out := must(t, []string{"DATABASE_URL=" + stacktest.Postgres(t)}, "migrate", "up"); out == "nothing to do\n" {
		t.Error("the environment does not win")
	}
	if out := must(t, []string{"DATABASE_URL=" + database}, "migrate", "up"); out != "nothing to do\n" {
		t.Errorf("migrate up prints %q: dev.env was not used before", out)
	}
	write(t, devEnvFile, "DATABASE_URL=postgres://127.0.0.1:1/db\nHOOKONCE_CONFIG="+
		write(t, filepath.Join(t.TempDir(), "x.yaml"), "sources: {mine: {verify: none, id: {json: /i}, type: {json: /t}}}")+"\n")
	refuses(t, nil, "it has mine", "send")
}
