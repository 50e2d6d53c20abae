package program_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/handler"
	"github.com/hookonce/hookonce/pkg/program"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// programVariable makes the test binary be one of the programs, so that tests
// can kill a process of its own.
const programVariable = "HOOKONCE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	switch os.Getenv(programVariable) {
	case "ingest":
		program.Main("ingest", program.Ingest)
	case "worker":
		program.Main("worker", func(ctx context.Context, o program.Options) error {
			o.Handlers = map[string]handler.Handler{"stall": handler.Func(stall)}
			return program.Worker(ctx, o)
		})
	default:
		os.Exit(stacktest.Main(m))
	}
}

// stall writes an effect; in the first attempt it then says so and never ends.
func stall(ctx context.Context, tx pgx.Tx, ev webhook.Event) error {
	if _, err := tx.Exec(ctx, `INSERT INTO effects (event_id, attempt) VALUES ($1, $2)`, ev.ID, ev.Attempt); err != nil {
		return err
	}
	if ev.Attempt == 1 {
		fmt.Fprintln(os.Stderr, `{"msg":"stalled"}`)
		<-ctx.Done()
		select {}
	}
	return nil
}

// A stage is where programs run: a Redis, and a database of the test's own.
type stage struct {
	tb       testing.TB
	redisURL string
	url      string // of the database
	db       *pgxpool.Pool
	sources  string // the sources file
}

// newStage prepares a stage with the given sources file, in which SOURCE stands
// for a name of the test's own.
func newStage(tb testing.TB, redisURL, databaseURL, sources string) *stage {
	tb.Helper()
	ctx := context.Background() // the cleanup outlives tb.Context()
	if _, err := migrations.Up(ctx, databaseURL); err != nil {
		tb.Fatal(err)
	}
	db, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(db.Close)
	if _, err := db.Exec(ctx, `CREATE TABLE effects (event_id text, attempt integer)`); err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "hookonce.yaml")
	if err := os.WriteFile(file, []byte(sources), 0o600); err != nil {
		tb.Fatal(err)
	}
	return &stage{tb: tb, redisURL: redisURL, url: databaseURL, db: db, sources: file}
}

func (s *stage) environ(extra ...string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"),
		"REDIS_URL=" + s.redisURL,
		"DATABASE_URL=" + s.url,
		"HOOKONCE_CONFIG=" + s.sources,
		"INGEST_ADDR=127.0.0.1:0",
		"OPS_ADDR=127.0.0.1:0",
		"INGEST_ACK_TIMEOUT=10s", // the machine of a test is not what it measures
		"LOG_LEVEL=debug",
	}, extra...)
}

// A process is a running ingest or worker.
type process struct {
	cmd   *exec.Cmd
	lines chan logLine // what it logs; closed at its end

	url, ops string // its addresses

	mu  sync.Mutex
	log bytes.Buffer
}

type logLine struct {
	Msg, Addr, Ops, Layer string
	EventID               string `json:"event_id"`
}

// start runs a program as a process, and returns once it listens. It is ended
// with the test.
func (s *stage) start(name string, extra ...string) *process {
	s.tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.tb.Fatal(err)
	}
	p := &process{cmd: exec.Command(exe), lines: make(chan logLine, 10_000)}
	p.cmd.Env = s.environ(append(extra, programVariable+"="+name)...)
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		s.tb.Fatal(err)
	}
	go p.read(stderr)
	s.tb.Cleanup(func() {
		p.stop(s.tb)
		if s.tb.Failed() {
			s.tb.Logf("%s:\n%s", name, p.text())
		}
	})
	line := p.await(s.tb, "listening", "working")
	p.url, p.ops = "http://"+line.Addr, "http://"+line.Ops
	return p
}

func (p *process) read(r io.Reader) {
	defer close(p.lines)
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.mu.Lock()
		p.log.Write(append(scanner.Bytes(), '\n'))
		p.mu.Unlock()
		var line logLine
		if json.Unmarshal(scanner.Bytes(), &line) == nil {
			p.lines <- line
		}
	}
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// await returns the next line with one of the messages.
func (p *process) await(tb testing.TB, messages ...string) logLine {
	tb.Helper()
	deadline := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				tb.Fatalf("process ended before it said %q:\n%s", messages, p.text())
			}
			for _, m := range messages {
				if line.Msg == m {
					return line
				}
			}
		case <-deadline:
			tb.Fatalf("process did not say %q:\n%s", messages, p.text())
		}
	}
}

// kill ends the process as a crash does.
func (p *process) kill(tb testing.TB) {
	tb.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		tb.Fatal(err)
	}
	p.cmd.Wait()
}

// stop ends the process as an operator does. It may be gone already.
func (p *process) stop(tb testing.TB) {
	tb.Helper()
	if p.cmd.ProcessState != nil {
		return
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	for range p.lines { // to its end
	}
	if err := p.cmd.Wait(); err != nil {
		tb.Errorf("%s: %v\n%s", p.cmd.Env[len(p.cmd.Env)-1], err, p.text())
	}
}

const patience = 60 * time.Second

// eventually waits for what other processes do.
func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			tb.Fatalf("%s: not within %s", what, patience)
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

// count runs a query for one number.
func (s *stage) count(sql string, args ...any) int {
	s.tb.Helper()
	var n int
	if err := s.db.QueryRow(context.Background(), sql, args...).Scan(&n); err != nil {
		s.tb.Fatalf("%s: %v", sql, err)
	}
	return n
}

// awaitCompleted waits until all n events of the stage are completed.
func (s *stage) awaitCompleted(n int) {
	s.tb.Helper()
	eventually(s.tb, fmt.Sprintf("%d events are completed", n), func() bool {
		return s.count(`SELECT count(*) FROM received_events WHERE status = 'completed'`) == n
	})
}

type answer struct {
	Code    int
	Status  string `json:"status"`
	Message string `json:"message"`
	EventID string `json:"event_id"`
}

// post delivers a body.
func post(tb testing.TB, url string, h http.Header, body []byte) answer {
	tb.Helper()
	a, err := tryPost(url, h, body)
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func tryPost(url string, h http.Header, body []byte) (answer, error) {
	var a answer
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header = h.Clone()
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.Code = resp.StatusCode
	return a, errors.Join(json.NewDecoder(resp.Body).Decode(&a))
}

// payment is a delivery of the source default.
func payment(id string, amount int) []byte {
	return fmt.Appendf(nil, `{"event_id":%q,"event_type":"payment.succeeded","amount":%d,"timestamp":1790000000}`, id, amount)
}

// sharedFolder is where real payloads lie beside the project, if they do.
func sharedFolder(tb testing.TB) string {
	tb.Helper()
	for _, dir := range []string{os.Getenv("HOOKONCE_SHARED"), filepath.Join("..", "..", "..", "shared")} {
		if _, err := os.Stat(filepath.Join(dir, "corpus", "manifest.json")); dir != "" && err == nil {
			return dir
		}
	}
	tb.Skip("no ../shared with real payloads beside the project: this is a user's checkout")
	return ""
}
