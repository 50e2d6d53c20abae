package program_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/signature"
)

// canaryWord is in each secret of TestCanary, and must be seen nowhere again.
const canaryWord = "canary7Qd2"

// canaries are all forms in which a secret could come to light.
func canaries(signatures ...string) []string {
	word := []byte(canaryWord)
	forms := []string{canaryWord, hex.EncodeToString(word)}
	for _, pad := range []string{"", "x", "xx"} { // the word at each offset of base64
		text := base64.StdEncoding.EncodeToString(append([]byte(pad), word...))
		forms = append(forms, text[4:12])
	}
	for _, s := range signatures {
		_, bare, found := strings.Cut(s, "=")
		if !found {
			bare = s
		}
		forms = append(forms, bare)
	}
	return forms
}

// A nest looks for canaries in what programs show.
type nest struct {
	t     *testing.T
	words []string
}

func (n nest) check(where, text string) {
	n.t.Helper()
	for _, w := range n.words {
		if i := strings.Index(text, w); i >= 0 {
			n.t.Errorf("%s has a secret: …%.120q…", where, text[max(0, i-60):])
			return
		}
	}
}

// TestCanary sends good, bad and hostile deliveries to programs whose secrets
// and addresses have a word in them, with stores that work, fail and come back,
// and looks for that word in all that the programs write and say (N11).
func TestCanary(t *testing.T) {
	t.Parallel()
	stack := stacktest.Private(t, devstack.Options{Fast: true}) // it is killed
	secretFile := filepath.Join(t.TempDir(), "secret")
	write(t, secretFile, "file-"+canaryWord+"\n")
	s := newStage(t, stack.RedisURL, stack.DatabaseURL, fmt.Sprintf(`sources:
  github: {provider: github, secrets: ["${CANARY}", {file: %s}], headers: [X-GitHub-Event, User-Agent], rate_limit: 1000/s}
  stripe: {provider: stripe, secrets: ["${CANARY}"]}
  locked: {provider: github, secrets: ["${CANARY}"], allow_ips: [192.0.2.7]}
  small: {provider: github, secrets: ["${CANARY}"], max_body: 10}
  slow: {provider: github, secrets: ["${CANARY}"], rate_limit: 1/h}
`, secretFile))
	withSecret(t, stack, s)
	ingest := s.start("ingest", "CANARY=env-"+canaryWord)
	worker := s.start("worker", "CANARY=env-"+canaryWord)

	body := []byte(`{"id":"evt_1","type":"x","action":"opened"}`)
	github := sign(t, signature.GitHub(), "file-"+canaryWord, body)
	byEnv := sign(t, signature.GitHub(), "env-"+canaryWord, body)
	stripe := sign(t, signature.Stripe(), "env-"+canaryWord, body)
	_, stripeMAC, _ := strings.Cut(stripe.Get("Stripe-Signature"), "v1=")
	n := nest{t, canaries(github.Get("X-Hub-Signature-256"), byEnv.Get("X-Hub-Signature-256"), stripeMAC)}

	for _, h := range []http.Header{github, byEnv} {
		h.Set("X-GitHub-Delivery", "d-1")
		h.Set("X-GitHub-Event", "issues")
		h.Set("User-Agent", "hooks")
		h.Set("Authorization", "Bearer "+canaryWord)
		h.Set("Cookie", "session="+canaryWord)
	}
	broken := func(h http.Header, name, value string) http.Header {
		h = h.Clone()
		h.Set(name, value)
		return h
	}
	send := func(round string) (codes []int) {
		try := func(path string, h http.Header, body []byte) {
			text, code := ask(t, ingest.url+path, h, body)
			n.check("an answer", text)
			codes = append(codes, code)
		}
		github.Set("X-GitHub-Delivery", "d-"+round)
		byEnv.Set("X-GitHub-Delivery", "e-"+round)
		try("/webhooks/github?token="+canaryWord, github, body)
		try("/webhooks/github?token="+canaryWord, broken(github, "X-GitHub-Delivery", "replay-"+round), body)
		try("/webhooks/stripe", stripe, body)
		try("/webhooks/github", broken(github, "X-Hub-Signature-256", "sha256="+hex.EncodeToString([]byte(canaryWord))), body)
		try("/webhooks/github", broken(github, "X-Hub-Signature-256", canaryWord), body)
		try("/webhooks/github", github, []byte(`{"a":`))
		try("/webhooks/github", broken(github, "Content-Type", "text/"+canaryWord), body)
		try("/webhooks/github", broken(github, "Content-Encoding", canaryWord), body)
		try("/webhooks/"+canaryWord+"?"+canaryWord, github, body)
		try("/"+canaryWord, github, body)
		try("/webhooks/locked?token="+canaryWord, broken(byEnv, "X-Forwarded-For", canaryWord), body)
		try("/webhooks/small", byEnv, body)
		try("/webhooks/slow", byEnv, body)
		try("/webhooks/slow", byEnv, body)
		return codes
	}
	ops := func() {
		for _, p := range []*process{ingest, worker} {
			for _, path := range []string{"/metrics", "/readyz", "/healthz", "/" + canaryWord} {
				text, _ := ask(t, p.ops+path, nil, nil)
				n.check(path, strings.ReplaceAll(text, "/"+canaryWord, ""))
			}
		}
	}
	if codes := send("1"); fmt.Sprint(codes) != "[200 200 200 401 401 401 415 415 404 404 403 413 200 429]" {
		t.Errorf("answers %v", codes)
	}
	s.awaitCompleted(3)
	ops()
	if err := stack.Redis.Kill(); err != nil {
		t.Fatal(err)
	}
	send("2")
	ops()
	if err := stack.Postgres.Stop(); err != nil {
		t.Fatal(err)
	}
	send("3")
	ops()
	if err := stack.Postgres.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.db.Reset() // its connections ended with the server
	if err := stack.Redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	write(t, s.sources, "sources: {a: {provider: "+canaryWord+", secrets: ["+canaryWord+"], "+canaryWord+": 1}}\n")
	for _, p := range []*process{ingest, worker} {
		p.cmd.Process.Signal(syscall.SIGHUP)
		p.await(t, "sources not reloaded: those in use stay")
	}
	n.check("Redis", redisDump(t, stack.RedisURL))
	n.check("Postgres", postgresDump(s))
	for _, p := range []*process{ingest, worker} {
		p.stop(t)
		n.check("a log", p.text())
		if !strings.Contains(p.text(), `"level":"DEBUG"`) && p == ingest {
			t.Error("the log is not of all levels")
		}
	}
}

// withSecret puts a password into the addresses that programs are given, which
// the servers do not ask for.
func withSecret(t *testing.T, stack *devstack.Stack, s *stage) {
	t.Helper()
	for _, address := range []*string{&s.redisURL, &s.url} {
		u, err := url.Parse(*address)
		if err != nil {
			t.Fatal(err)
		}
		user := u.User.Username()
		if u.Scheme == "redis" {
			user = "default"
		}
		u.User = url.UserPassword(user, "pw-"+canaryWord)
		*address = u.String()
	}
	rdb := connect(t, stack.RedisURL)
	if err := rdb.Do(t.Context(), "ACL", "SETUSER", "default", ">pw-"+canaryWord).Err(); err != nil {
		t.Fatal(err)
	}
}

// ask returns an answer with its header; "" if there was none.
func ask(t *testing.T, target string, h http.Header, body []byte) (text string, code int) {
	t.Helper()
	method := http.MethodPost
	if body == nil {
		method = http.MethodGet
	}
	req, err := http.NewRequest(method, target, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if h != nil {
		req.Header = h.Clone()
		if req.Header.Get("Content-Type") == "" {
			req.Header.Set("Content-Type", "application/json")
		}
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", 0
	}
	defer res.Body.Close()
	all, _ := io.ReadAll(res.Body)
	return fmt.Sprint(res.Header) + string(all), res.StatusCode
}

// redisDump returns all keys of a Redis and what is in them.
func redisDump(t *testing.T, address string) string {
	t.Helper()
	rdb, ctx := connect(t, address), t.Context()
	var dump strings.Builder
	keys := rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		k := keys.Val()
		fmt.Fprintln(&dump, k, rdb.Get(ctx, k).Val(), rdb.HGetAll(ctx, k).Val(), rdb.LRange(ctx, k, 0, -1).Val(), rdb.ZRange(ctx, k, 0, -1).Val(), rdb.SMembers(ctx, k).Val())
	}
	if err := keys.Err(); err != nil || dump.Len() == 0 {
		t.Errorf("dump of Redis: %d bytes, %v", dump.Len(), err)
	}
	return dump.String()
}

// postgresDump returns all rows of our tables, with payloads as text.
func postgresDump(s *stage) string {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var dump strings.Builder
	for _, table := range []string{"received_events", "event_attempts", "payload_conflicts", "audit_log", "queue_epochs", "payments"} {
		rows, err := s.db.Query(ctx, `SELECT t::text FROM `+table+` AS t`)
		if err != nil {
			s.tb.Fatal(err)
		}
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				s.tb.Fatal(err)
			}
			dump.WriteString(row + "\n")
		}
		if err := rows.Err(); err != nil {
			s.tb.Fatal(err)
		}
	}
	return dump.String()
}
