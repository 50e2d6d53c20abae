package faults

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

func (s *stage) killIngest() { s.ingest.kill() }

func (s *stage) anyWorker() *slot { return s.workers[s.dice().IntN(len(s.workers))] }

// killAtClaim kills a worker while its claims wait for the table.
func (s *stage) killAtClaim() { s.locked(150*time.Millisecond, func() { s.anyWorker().kill() }) }

// locked holds the table against all others.
func (s *stage) locked(d time.Duration, during func()) {
	ctx := context.Background()
	tx, err := s.db.Begin(ctx)
	if err != nil {
		s.Error(err)
		return
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, `LOCK TABLE received_events IN EXCLUSIVE MODE`); err != nil {
		s.Error(err)
		return
	}
	time.Sleep(d)
	if during != nil {
		during()
	}
}

// killBeforeDone kills a worker that has committed and waits for Redis to hear
// of it.
func (s *stage) killBeforeDone() {
	s.redisWorker.set(func() { s.redisWorker.stalled = true })
	time.Sleep(300 * time.Millisecond)
	s.anyWorker().kill()
	time.Sleep(50 * time.Millisecond)
	s.redisWorker.set(func() { s.redisWorker.stalled = false })
}

// stopWorkers stops some workers for longer than a lease, and asynq's.
func (s *stage) stopWorkers(n int, d time.Duration) {
	var wg sync.WaitGroup
	for _, w := range s.workers[:n] {
		s.fire("SIGSTOP of a worker for "+d.String(), func() {
			wg.Go(func() { w.pause(d) })
		})
		time.Sleep(300 * time.Millisecond)
	}
	wg.Wait()
}

func (s *stage) restart(server interface {
	Restart(context.Context) error
}) {
	if err := server.Restart(context.Background()); err != nil {
		s.Error(err)
	}
}

func (s *stage) check(err error) {
	if err != nil {
		s.Error(err)
	}
}

// awaitWritten returns when Redis does not wait for its disk. While it does,
// everysec lets it answer before it writes, and what it then loses is of the
// second that the mode may lose, and not a fault of ours.
func (s *stage) awaitWritten() {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		info, err := s.rdb.InfoMap(context.Background(), "persistence").Result()
		if err == nil && info["Persistence"]["aof_pending_bio_fsync"] == "0" {
			return
		}
	}
}

// killRedis kills Redis, and does something to its data before the restart.
func (s *stage) killRedis(down time.Duration, between func(dir string)) {
	dir := s.configOf("dir")
	s.check(s.stack.Redis.Kill())
	time.Sleep(down)
	if between != nil {
		between(dir)
	}
	s.restart(s.stack.Redis)
}

func (s *stage) configOf(name string) string {
	v, err := s.rdb.ConfigGet(context.Background(), name).Result()
	s.check(err)
	return v[name]
}

// emptied removes the append-only file.
func (s *stage) emptied(dir string) { s.check(os.RemoveAll(filepath.Join(dir, "appendonlydir"))) }

// truncated cuts the end of the append-only file off.
func (s *stage) truncated(dir string) {
	files, _ := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	for _, f := range files {
		info, err := os.Stat(f)
		if err == nil {
			s.check(os.Truncate(f, info.Size()*9/10))
		}
	}
}

func (s *stage) flush() { s.check(s.rdb.FlushAll(context.Background()).Err()) }

func (s *stage) killPostgres(down time.Duration) {
	s.check(s.stack.Postgres.Kill())
	time.Sleep(down)
	s.restart(s.stack.Postgres)
	s.db.Reset()
}

func pauseServer(s *stage, server interface {
	Pause() error
	Resume() error
}, d time.Duration) {
	s.check(server.Pause())
	time.Sleep(d)
	s.check(server.Resume())
}

// processing lists events that an attempt runs on.
func (s *stage) processing() []key {
	rows, err := s.db.Query(context.Background(), `SELECT source, event_id FROM received_events WHERE status = 'processing'`)
	if err != nil {
		s.Error(err)
		return nil
	}
	defer rows.Close()
	var keys []key
	for rows.Next() {
		var k key
		s.check(rows.Scan(&k.source, &k.id))
		keys = append(keys, k)
	}
	return keys
}

func lockKey(k key) string { return "hookonce:{" + k.source + "}:lock:" + k.id }

// breakLocks deletes some locks of running attempts and gives others away.
func (s *stage) breakLocks() {
	for i, k := range s.processing() {
		if i%2 == 0 {
			s.check(s.rdb.Del(context.Background(), lockKey(k)).Err())
		} else {
			s.check(s.rdb.Set(context.Background(), lockKey(k), "stranger", 3*time.Second).Err())
		}
	}
}

// endLeases does what a jump of Postgres' clock does: all leases are over. The
// locks are gone too, and each event gets a second task beside the running one.
func (s *stage) endLeases() {
	ctx := context.Background()
	_, err := s.db.Exec(ctx, `UPDATE received_events SET lease_until = clock_timestamp() - interval '1 s', sweep_at = clock_timestamp()
		WHERE status = 'processing'`)
	s.check(err)
	for _, k := range s.processing() {
		s.check(s.rdb.Del(ctx, lockKey(k), "asynq:{"+k.source+"}:t:"+k.id).Err())
	}
}

// orphan makes tasks that asynq counts as running and that nobody runs: a real
// one, one that never was, and one without its message.
func (s *stage) orphan() {
	ctx := context.Background()
	const p = "asynq:{main}:"
	if id, err := s.rdb.RPop(ctx, p+"pending").Result(); err == nil {
		s.rdb.LPush(ctx, p+"active", id)
		s.rdb.HSet(ctx, p+"t:"+id, "state", "active")
	}
	s.rdb.LPush(ctx, p+"active", "ghost")
	s.rdb.ZAdd(ctx, p+"lease", redis.Z{Score: float64(time.Now().Unix()), Member: "ghost"})
	if id, err := s.rdb.RPop(ctx, p+"pending").Result(); err == nil && s.mode == "inbox" {
		s.rdb.LPush(ctx, p+"active", id)
		s.rdb.HDel(ctx, p+"t:"+id, "msg")
	} else if err == nil {
		s.rdb.RPush(ctx, p+"pending", id)
	}
}

// terminate ends some of the workers' sessions.
func (s *stage) terminate() {
	n := s.count(`SELECT count(pg_terminate_backend(pid)) FROM (
		SELECT pid FROM pg_stat_activity WHERE application_name = 'hookonce' AND state <> 'idle' ORDER BY random() LIMIT 4) AS chosen`)
	if n < 0 {
		s.Error("pg_terminate_backend failed")
	}
}

func (s *stage) readOnly(d time.Duration) {
	ctx := context.Background()
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		s.Error(err)
		return
	}
	defer conn.Release()
	for _, value := range []string{"on", "off"} {
		for _, sql := range []string{`ALTER SYSTEM SET default_transaction_read_only = ` + value, `SELECT pg_reload_conf()`} {
			_, err := conn.Exec(ctx, sql)
			s.check(err)
		}
		if value == "on" {
			time.Sleep(d)
		}
	}
}

// fill leaves Redis no memory for a while.
func (s *stage) fill(d time.Duration) {
	ctx := context.Background()
	s.check(s.rdb.ConfigSet(ctx, "maxmemory", "1mb").Err())
	time.Sleep(d)
	s.check(s.rdb.ConfigSet(ctx, "maxmemory", "0").Err())
}

// evict lets Redis throw away what was not used for the longest time, for a while.
func (s *stage) evict(d time.Duration) {
	ctx := context.Background()
	used := 0
	for line := range strings.Lines(s.rdb.Info(ctx, "memory").Val()) {
		if n, ok := strings.CutPrefix(strings.TrimSpace(line), "used_memory:"); ok {
			used, _ = strconv.Atoi(n)
		}
	}
	s.check(s.rdb.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
	s.check(s.rdb.ConfigSet(ctx, "maxmemory", strconv.Itoa(used/2)).Err())
	time.Sleep(d)
	s.check(s.rdb.ConfigSet(ctx, "maxmemory", "1gb").Err())
	s.check(s.rdb.ConfigSet(ctx, "maxmemory-policy", "noeviction").Err())
	if strings.Contains(s.rdb.Info(ctx, "stats").Val(), "evicted_keys:0\r") {
		s.Error("evicted=0 keys")
	}
}

// moveLeases is what others see of a worker whose clock is off: the lease of
// each task that it runs, which it writes every 5 s.
func (s *stage) moveLeases(by, d time.Duration) {
	ctx := context.Background()
	const leases = "asynq:{main}:lease"
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		at := float64(time.Now().Add(30*time.Second + by).Unix())
		for i, id := range s.rdb.ZRange(ctx, leases, 0, -1).Val() {
			if i%2 == 0 { // the other worker's clock is right
				s.check(s.rdb.ZAddXX(ctx, leases, redis.Z{Score: at, Member: id}).Err())
			}
		}
	}
}

// tenants hold some of Postgres' connections all the time: each takes a moment
// to open.
func (s *stage) tenants(n int) {
	for range n {
		c, err := pgx.Connect(context.Background(), s.stack.DatabaseURL)
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { c.Close(context.Background()) })
	}
}

// takeConnections ends the programs' sessions, and takes each connection that
// Postgres has.
func (s *stage) takeConnections(d time.Duration) {
	ctx := context.Background()
	own, err := s.db.Acquire(ctx)
	if err != nil {
		s.Error(err)
		return
	}
	defer own.Release()
	var taken []*pgx.Conn
	defer func() {
		for _, c := range taken {
			c.Close(ctx)
		}
	}()
	refused := 0
	for end := time.Now().Add(d); refused == 0 || time.Now().Before(end); {
		c, err := pgx.Connect(ctx, s.stack.DatabaseURL)
		if err == nil {
			taken = append(taken, c)
			continue
		}
		if refused++; refused == 1 {
			end = time.Now().Add(d)
		}
		_, err = own.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hookonce'`)
		s.check(err)
	}
}

// recallDuringCommit lets the sweeper find all tasks gone while completions are
// made and not committed: it must wait for them, and reopen none.
func (s *stage) recallDuringCommit() {
	before := s.pgWorker.losses()
	s.pgWorker.holdBack("commit\x00", 6, 1200*time.Millisecond)
	for deadline := time.Now().Add(10 * time.Second); s.pgWorker.losses() == before && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	s.flush()
	s.sender.mu.Lock()
	last := s.sender.order[max(0, len(s.sender.order)-40):]
	s.sender.mu.Unlock()
	for _, e := range last {
		s.sender.wg.Go(func() { s.sender.post(e, 0) })
	}
	time.Sleep(1200 * time.Millisecond)
	s.pgWorker.holdBack("", 0, 0)
}

// holdSweep makes open events overdue, lets the sweeper take them, and holds
// its look at their tasks back until attempts have completed them.
func (s *stage) holdSweep() {
	before := s.redisWorker.losses()
	s.redisWorker.holdBack("\r\nload\r\n", len(s.workers), 1800*time.Millisecond) // only sweeps load a script
	for deadline := time.Now().Add(10 * time.Second); s.redisWorker.losses() == before && time.Now().Before(deadline); {
		s.exec(`UPDATE received_events SET sweep_at = clock_timestamp() WHERE id IN (
			SELECT id FROM received_events WHERE status IN ('received', 'processing') AND sweeps = 0 LIMIT 100 FOR UPDATE SKIP LOCKED)`)
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(1800 * time.Millisecond)
	s.redisWorker.holdBack("", 0, 0)
}
