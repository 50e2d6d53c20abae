package program_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/program"
	"github.com/hookonce/hookonce/pkg/signature"
)

func write(tb testing.TB, name, text string) {
	tb.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		tb.Fatal(err)
	}
}

// A syncLog is a log to look at while it is written.
type syncLog struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *syncLog) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.all.String(), s)
}

// TestReload changes the sources file and secrets of an ingest again and again,
// also to what is wrong, while deliveries come: each of them is accepted.
func TestReload(t *testing.T) {
	t.Parallel()
	steady, coming := stacktest.Source(t), stacktest.Source(t)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "first")
	only := fmt.Sprintf("sources:\n  %s: {provider: github, secrets: {file: %s}}\n", steady, secret)
	both := only + fmt.Sprintf("  %s: {provider: github, secrets: [second]}\n", coming)
	s := newStage(t, stacktest.Redis(t), stacktest.Postgres(t), only)

	var log syncLog
	hangup, listening, ended := make(chan os.Signal), make(chan string, 1), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		ended <- program.Ingest(ctx, program.Options{Environ: s.environ(), Stderr: &log, Hangup: hangup,
			Listening: listener(listening)})
	}()
	url := <-listening
	send := func(source, secret string) answer {
		body := fmt.Appendf(nil, `{"n":%q}`, rand.Text())
		h := sign(t, signature.GitHub(), secret, body)
		h.Set("X-GitHub-Delivery", rand.Text())
		h.Set("X-GitHub-Event", "push")
		a, err := tryPost(url+"/webhooks/"+source, h, body)
		if err != nil {
			t.Error(err)
		}
		return a
	}
	reloads := 0
	reload := func(text, message string) {
		write(t, s.sources, text)
		before := log.count(message)
		hangup <- syscall.SIGHUP
		reloads++
		eventually(t, message, func() bool { return log.count(message) > before })
	}

	var sent atomic.Int64
	var wg sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				if a := send(steady, "first"); a.Code != 200 || a.Status != "accepted" {
					t.Errorf("%+v, want it accepted", a)
				}
				sent.Add(1)
			}
		})
	}
	const good, bad = `"msg":"sources reloaded"`, `"msg":"sources not reloaded: those in use stay"`
	for range 5 {
		reload(both, good)
		if a := send(coming, "second"); a.Code != 200 {
			t.Errorf("a new source answered %+v", a)
		}
		for _, wrong := range []string{"sources:\n", "sources: {a: {b: c}}\n", "\x00", "", strings.ReplaceAll(both, secret, secret+".none")} {
			reload(wrong, bad)
			if a := send(coming, "second"); a.Code != 200 {
				t.Errorf("after a bad file a source answered %+v", a)
			}
		}
		reload(only, good)
		if a := send(coming, "second"); a.Code != 404 {
			t.Errorf("a source that is no more answered %+v", a)
		}
	}
	close(end)
	wg.Wait()

	write(t, secret, "third\n")
	reload(only, good)
	for secret, want := range map[string]int{"first": 401, "third": 200} {
		if a := send(steady, secret); a.Code != want {
			t.Errorf("after a new secret the %s answered %+v, want %d", secret, a, want)
		}
	}
	if log.count("third") > 0 || log.count("white space around the secret") != 1 || log.count("hookonce.yaml:1: sources: want a mapping") == 0 {
		t.Errorf("log:\n%s", log.all.String())
	}
	if n := log.count(`"changed":[`); n != 1 {
		t.Errorf("%d reloads name sources that changed, want that with the new secret", n)
	}
	if sent.Load() < 50 {
		t.Errorf("%d were sent during %d reloads: too few to tell", sent.Load(), reloads)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Ingest = %v", err)
	}
}

// TestHangup has processes that get a SIGHUP: it does not end them, and a worker
// calls the handlers that the file names then.
func TestHangup(t *testing.T) {
	t.Parallel()
	name := stacktest.Source(t)
	file := func(match string) string {
		return fmt.Sprintf("sources:\n  %s:\n    verify: none\n    id: {json: /event_id}\n    type: {json: /event_type}\n    handlers: [{match: %q, handler: payments}]\n", name, match)
	}
	s := newStage(t, stacktest.Redis(t), stacktest.Postgres(t), file("nothing"))
	ingest, worker := s.start("ingest"), s.start("worker")
	pay := func(id string) {
		if a := post(t, ingest.url+"/webhooks/"+name, http.Header{}, payment(id, 1)); a.Code != 200 {
			t.Errorf("%s: %+v", id, a)
		}
	}
	pay("evt_1")
	s.awaitCompleted(1)
	write(t, s.sources, file("payment.*")+"    timeout: 20s\n  "+stacktest.Source(t)+": {provider: github, secrets: [x]}\n")
	for p, messages := range map[*process][]string{ingest: {"sources reloaded"}, worker: {"handlers reloaded", "restart the worker: of these sources more than the handlers has changed"}} {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			p.await(t, m)
		}
	}
	pay("evt_2")
	s.awaitCompleted(2)
	if n := s.count(`SELECT count(*) FROM payments WHERE event_id = 'evt_2'`); n != 1 || s.count(`SELECT count(*) FROM payments`) != 1 {
		t.Errorf("%d payments of evt_2, want 1, and none of evt_1", n)
	}
	write(t, s.sources, file("payment.*")+"    colour: red\n")
	if err := worker.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	worker.await(t, "sources not reloaded: those in use stay")
	pay("evt_3")
	s.awaitCompleted(3)
	if n := s.count(`SELECT count(*) FROM payments`); n != 2 {
		t.Errorf("%d payments, want 2", n)
	}
}

// TestReloadIgnoreFields has an inbox compare bodies as the file says now.
func TestReloadIgnoreFields(t *testing.T) {
	t.Parallel()
	name := stacktest.Source(t)
	file := fmt.Sprintf("sources:\n  %s:\n    verify: none\n    id: {json: /event_id}\n    type: {json: /event_type}\n", name)
	s := newStage(t, stacktest.Redis(t), stacktest.Postgres(t), file)
	ingest := s.start("ingest", "INGEST_ACK=inbox")
	twice := func(id string) {
		for n := range 2 {
			body := fmt.Appendf(nil, `{"event_id":%q,"event_type":"t","pending":%d}`, id, n)
			if a := post(t, ingest.url+"/webhooks/"+name, http.Header{}, body); a.Code != 200 {
				t.Errorf("%s: %+v", id, a)
			}
		}
	}
	twice("evt_1")
	write(t, s.sources, file+"    ignore_fields: [/pending]\n")
	if err := ingest.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	ingest.await(t, "sources reloaded")
	twice("evt_2")
	for id, want := range map[string]int{"evt_1": 1, "evt_2": 0} {
		if n := s.count(`SELECT count(*) FROM payload_conflicts WHERE event_id = $1`, id); n != want {
			t.Errorf("%d other bodies of %s, want %d", n, id, want)
		}
	}
}

// listener sends the public address of a program once it listens.
func listener(to chan<- string) func(public, ops net.Addr) {
	return func(public, _ net.Addr) { to <- "http://" + public.String() }
}
