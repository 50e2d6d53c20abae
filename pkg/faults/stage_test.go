package faults

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
)

// sources is what the programs serve. Times are short, so that a run is too.
const sources = `
sources:
  main: &rest
    verify: none
    id: {json: /event_id}
    type: {json: /event_type}
    timeout: 2s
    max_retry: 12
    concurrency: 8
    handlers: [{match: "*", handler: effect}]
`

// extraSources are served where a row asks for them.
var extraSources = map[string]string{
	"twin":   `  twin: {timeout: 2s, max_retry: 12, concurrency: 8, REST}`,
	"poison": `  poison: {timeout: 1s, max_retry: 2, concurrency: 4, REST}`,
	"brief":  `  brief: {timeout: 2s, max_retry: 1, concurrency: 32, REST}`,
	"long":   `  long: {timeout: 15s, max_retry: 12, concurrency: 8, REST}`,
}

const rest = `verify: none, id: {json: /event_id}, type: {json: /event_type}, handlers: [{match: "*", handler: effect}]`

// harness are tables of the test's own: effects that nothing keeps from being
// written twice, and each change of an event's status.
const harness = `
CREATE TABLE effects (n bigserial, source text, event_id text, attempt integer, sha256 bytea, at timestamptz DEFAULT clock_timestamp());
CREATE TABLE accounts (id integer PRIMARY KEY, n integer NOT NULL DEFAULT 0);
INSERT INTO accounts SELECT generate_series(1, 12);
CREATE TABLE changes (n bigserial, source text, event_id text, was text, becomes text, from_attempt integer, to_attempt integer,
	at timestamptz DEFAULT clock_timestamp());
CREATE FUNCTION note_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		INSERT INTO changes (source, event_id, was, becomes, from_attempt, to_attempt)
		VALUES (NEW.source, NEW.event_id, 'none', NEW.status, 0, NEW.attempt);
	ELSIF TG_OP = 'DELETE' THEN
		INSERT INTO changes (source, event_id, was, becomes, from_attempt, to_attempt)
		VALUES (OLD.source, OLD.event_id, OLD.status, 'none', OLD.attempt, 0);
	ELSIF OLD.status <> NEW.status OR OLD.attempt <> NEW.attempt THEN
		INSERT INTO changes (source, event_id, was, becomes, from_attempt, to_attempt)
		VALUES (NEW.source, NEW.event_id, OLD.status, NEW.status, OLD.attempt, NEW.attempt);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER note_change AFTER INSERT OR UPDATE OR DELETE ON received_events FOR EACH ROW EXECUTE FUNCTION note_change();
`

// A stage is where one row plays: servers of its own, the programs, and a
// sender.
type stage struct {
	testing.TB
	row  *row
	mode string
	seed uint64
	rng  *rand.Rand

	stack   *devstack.Stack
	db      *pgxpool.Pool // direct, as are the others
	rdb     redis.UniversalClient
	standby redis.UniversalClient // a second one, of a row that asks for it

	// Where the programs find the servers, if not at the stack's addresses.
	redisURL string
	pair     [2]*node // a master and its replica
	watchers []*node
	nodes    []*node // of a cluster
	canary   string
	disk     string // folder of the small disk, of a row that asks for one
	next     string // the next build, of a row that asks for one

	// The ways of the programs to the servers, of a row that asks for proxies.
	redisIngest, redisWorker, pgIngest, pgWorker *proxy

	names   []string // of the sources
	ingest  *slot
	workers []*slot
	sender  *sender
	url     string // of ingest

	pulse  *pulse
	fired  atomic.Int32
	events []string // what the nemesis did
	began  time.Time
	healed time.Time
}

func newStage(tb testing.TB, r *row, mode string, seed uint64, exe string) *stage {
	tb.Helper()
	h := fnv.New64a()
	fmt.Fprint(h, r.number, mode)
	s := &stage{TB: tb, row: r, mode: mode, seed: seed, rng: rand.New(rand.NewPCG(seed, h.Sum64())), began: time.Now()}
	s.pulse, s.canary = newPulse(tb), newCanary()
	s.startServers()
	ctx := context.Background()
	if _, err := migrations.Up(ctx, s.stack.DatabaseURL); err != nil {
		tb.Fatal(err)
	}
	var err error
	if s.db, err = pgxpool.New(ctx, s.stack.DatabaseURL); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.db.Close)
	s.exec(harness + naiveTable)
	o, err := redis.ParseURL(s.stack.RedisURL)
	if err != nil {
		tb.Fatal(err)
	}
	direct := redis.NewClient(o)
	tb.Cleanup(func() { direct.Close() })
	s.rdb = direct
	if r.prepare != nil {
		r.prepare(s)
	}
	if tb.Failed() {
		tb.FailNow()
	}
	s.launch(exe)
	s.sender = newSender(s.url+"/webhooks/", s.rng)
	if r.naive == "" {
		s.takeBase()
	}
	return s
}

// private is a stack of the row's own. Servers that lose their port to another
// program while they start get another chance: a row that is skipped for it
// would be a green lie.
func (s *stage) private(o devstack.Options) *devstack.Stack {
	s.Helper()
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		stack, err := devstack.Start(ctx, o)
		cancel()
		if err == nil && !stack.Volatile {
			s.Cleanup(func() { s.check(stack.Close()) })
			return stack
		}
		if err == nil {
			s.check(stack.Close())
			break
		}
		s.Log(err)
	}
	return stacktest.Private(s, o)
}

// startServers starts a Redis and a Postgres, one of them on a small disk if the
// row says so.
func (s *stage) startServers() {
	s.Helper()
	o := devstack.Options{Fast: !s.row.durable}
	if s.row.disk == "" {
		s.stack = s.private(o)
		return
	}
	const elsewhere = "redis://127.0.0.1:1" // so that this one is not started
	onDisk, off := o, o
	if onDisk.Dir, onDisk.DatabaseURL, off.RedisURL = s.smallDisk(), "postgres://127.0.0.1:1/none", elsewhere; s.row.disk == "postgres" {
		onDisk.DatabaseURL, onDisk.RedisURL, off.RedisURL, off.DatabaseURL = "", elsewhere, "", "postgres://127.0.0.1:1/none"
	}
	small, large := s.private(onDisk), s.private(off)
	s.stack = &devstack.Stack{RedisURL: small.RedisURL, Redis: small.Redis, DatabaseURL: large.DatabaseURL, Postgres: large.Postgres}
	if s.row.disk == "postgres" {
		s.stack = &devstack.Stack{RedisURL: large.RedisURL, Redis: large.Redis, DatabaseURL: small.DatabaseURL, Postgres: small.Postgres}
	}
}

// launch starts the programs.
func (s *stage) launch(exe string) {
	s.Helper()
	text := strings.ReplaceAll(sources, "&rest", "")
	env := []string{"LEASE_ALLOWANCE=1s", "SWEEP_EVERY=500ms", "RETRY_MIN=100ms", "RETRY_MAX=1s"}
	if s.row.ownTimes {
		text, env = strings.NewReplacer("    timeout: 2s\n", "", "    max_retry: 12\n", "", "    concurrency: 8\n", "").Replace(text), nil
	}
	s.names = append([]string{"main"}, s.row.sources...)
	for _, name := range s.row.sources {
		text += strings.ReplaceAll(extraSources[name], "REST", rest) + "\n"
	}
	text += signedSource
	file := filepath.Join(s.TempDir(), "hookonce.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	redisIngest, redisWorker := s.stack.RedisURL, s.stack.RedisURL
	pgIngest, pgWorker := s.stack.DatabaseURL, s.stack.DatabaseURL
	if s.redisURL != "" {
		redisIngest, redisWorker = s.redisURL, s.redisURL
	}
	if s.row.proxied {
		s.redisIngest, redisIngest = s.through(s.stack.RedisURL)
		s.redisWorker, redisWorker = s.through(s.stack.RedisURL)
		s.pgIngest, pgIngest = s.through(s.stack.DatabaseURL)
		s.pgWorker, pgWorker = s.through(s.stack.DatabaseURL)
	}
	for _, address := range []*string{&redisIngest, &redisWorker} {
		*address = withPassword(*address, "default", s.canary)
	}
	for _, address := range []*string{&pgIngest, &pgWorker} {
		*address = withPassword(*address, "postgres", s.canary)
	}
	common := append([]string{
		"CANARY_SECRET=" + s.canary,
		"PATH=" + os.Getenv("PATH"), "HOOKONCE_CONFIG=" + file, "OPS_ADDR=127.0.0.1:0", "FAULT_SINK=" + s.row.sink,
	}, s.row.env...)
	if s.row.strictInbox(s.mode) {
		common = append(common, "INBOX_FALLBACK=none")
	}
	exes := []string{exe}
	if s.row.limit != "" {
		exes = []string{"/bin/sh", "-c", s.row.limit + ` && exec "$0"`, exe}
	}
	program := "ingest"
	if s.row.naive != "" {
		program = s.row.naive
	}
	addr := freeAddr(s)
	s.url = "http://" + addr
	s.ingest = newSlot(s, program, append([]string{
		"REDIS_URL=" + redisIngest, "DATABASE_URL=" + pgIngest, "INGEST_ADDR=" + addr, "INGEST_ACK=" + s.mode,
	}, common...), exes, s.canary)
	if s.row.naive != "" {
		return // it does the work itself
	}
	for range max(s.row.workers, 2) {
		s.workers = append(s.workers, newSlot(s, "worker", slices.Concat([]string{
			"REDIS_URL=" + redisWorker, "DATABASE_URL=" + pgWorker,
		}, env, common), []string{exe}, s.canary))
	}
}

func (s *stage) through(address string) (*proxy, string) {
	s.Helper()
	u, err := url.Parse(address)
	if err != nil {
		s.Fatal(err)
	}
	p := newProxy(s, u.Host)
	u.Host = p.addr()
	return p, u.String()
}

// freeAddr is none that an outgoing connection could be given, since ingest
// comes back to it after a crash.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(9000))
		if ln, err := net.Listen("tcp", addr); err == nil {
			ln.Close()
			return addr
		}
	}
	tb.Fatal("no free port")
	return ""
}

func (s *stage) exec(sql string, args ...any) int {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var err error
	if len(args) == 0 {
		conn, aerr := s.db.Acquire(ctx)
		if aerr != nil {
			s.Error(aerr)
			return 0
		}
		defer conn.Release()
		_, err = conn.Conn().PgConn().Exec(ctx, sql).ReadAll()
	} else {
		tag, eerr := s.db.Exec(ctx, sql, args...)
		if eerr == nil {
			return int(tag.RowsAffected())
		}
		err = eerr
	}
	if err != nil {
		s.Errorf("%s: %v", sql, err)
	}
	return 0
}

// count runs a query for one number; -1 if it fails.
func (s *stage) count(sql string, args ...any) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for range 2 { // the pool may hold connections to a Postgres that was killed
		n := 0
		if err := s.db.QueryRow(ctx, sql, args...).Scan(&n); err == nil {
			return n
		}
		s.db.Reset()
	}
	return -1
}

const countDone = `SELECT count(*) FROM received_events WHERE status IN ('completed', 'dead')`

// inFlight is how many acknowledged events are not finished.
func (s *stage) inFlight() int {
	if s.row.naive != "" { // there all work is done within a request
		return s.sender.waiting()
	}
	done := s.count(countDone)
	if done < 0 {
		return 0
	}
	return s.sender.acked() - done
}

const countOpen = `SELECT count(*) FROM received_events WHERE status NOT IN ('completed', 'dead')`

// stillFor is how long a slow machine may stand still after the bound; as long
// as what is open gets less, it is waited for.
const (
	stillFor    = 15 * time.Second
	quietAtMost = 10 * time.Minute
)

// quiet waits until no event is open and no task is left, three times in a
// row, and reports what still is.
func (s *stage) quiet(bound time.Duration) (open, tasks int) {
	deadline, last := time.Now().Add(bound), time.Now().Add(max(bound, quietAtMost))
	least := -1
	for calm := 0; ; {
		open, tasks = s.count(countOpen), s.tasks()
		if open >= 0 && tasks >= 0 && (least < 0 || open+tasks < least) {
			least = open + tasks
			if late := time.Now().Add(stillFor); late.After(deadline) && late.Before(last) {
				deadline = late
			}
		}
		if open == 0 && tasks == 0 {
			calm++
		} else {
			calm = 0
		}
		if calm == 3 || time.Now().After(deadline) {
			return open, tasks
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// tasks is how many of asynq's tasks are not over; -1 if it cannot be told.
func (s *stage) tasks() int {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	total := 0
	for _, name := range s.names {
		p := "asynq:{" + name + "}:"
		for _, list := range []string{"pending", "active"} {
			n, err := s.rdb.LLen(ctx, p+list).Result()
			if err != nil {
				return -1
			}
			total += int(n)
		}
		for _, set := range []string{"retry", "scheduled"} {
			n, err := s.rdb.ZCard(ctx, p+set).Result()
			if err != nil {
				return -1
			}
			total += int(n)
		}
	}
	return total
}
