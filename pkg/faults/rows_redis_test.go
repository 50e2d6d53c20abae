package faults

import (
	"context"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack"
)

// redisRows take Redis away, or its data, or its answers.
func redisRows() []*row {
	minute := 100 * time.Second
	return []*row{
		{number: "20", name: "Redis kill -9, AOF everysec", bound: minute, fault: func(s *stage) {
			s.times(3, "kill -9 of Redis", func() { s.awaitWritten(); s.killRedis(500*time.Millisecond, nil) })
		}},
		{number: "21", name: "Redis kill -9 and emptied", mayLose: "queue", bound: minute, fault: func(s *stage) {
			s.times(3, "kill -9 of Redis, its file removed", func() { s.killRedis(300*time.Millisecond, s.emptied) })
		}},
		{number: "22", name: "FLUSHALL", short: []string{"inbox"}, mayLose: "queue", bound: minute, fault: func(s *stage) { s.times(4, "FLUSHALL", s.flush) }},
		{
			// The rows above run with INBOX_FALLBACK=none in inbox mode; this is the default.
			number: "22b", name: "Postgres slow for ingest (500 ms), then FLUSHALL; INBOX_FALLBACK=redis", modes: []string{"inbox"}, proxied: true, bound: minute,
			fault: func(s *stage) {
				for range 3 {
					s.fire("Postgres is slow, then FLUSHALL", func() {
						s.pgIngest.slow(2*time.Second, func() time.Duration { return 250 * time.Millisecond })
						s.flush()
					})
					s.rest(500*time.Millisecond, time.Second)
				}
			},
		},
		{number: "24", name: "Redis SIGSTOP, 10 s once", bound: minute, fault: func(s *stage) {
			for _, d := range []time.Duration{2 * time.Second, 10 * time.Second, 2 * time.Second} {
				s.fire("SIGSTOP of Redis", func() { pauseServer(s, s.stack.Redis, d) })
				s.rest(300*time.Millisecond, time.Second)
			}
		}},
		{number: "25", name: "network cut to Redis: down, reset, stalled", proxied: true, bound: minute, fault: func(s *stage) {
			s.fire("down", func() { s.both(func(p *proxy) { p.away(2 * time.Second) }, s.redisIngest, s.redisWorker) })
			s.times(3, "reset", func() { s.both((*proxy).cut, s.redisIngest, s.redisWorker) })
			s.fire("stalled", func() { s.both(func(p *proxy) { p.stall(3 * time.Second) }, s.redisIngest, s.redisWorker) })
		}},
		{number: "26", name: "answer of enqueue lost", proxied: true, bound: minute, fault: func(s *stage) {
			for range 6 {
				s.loseReplies(s.redisIngest, "enqueue", "asynq:{main}:t:", 5, false)
			}
		}},
		{number: "27", name: "answer of SET NX lost", proxied: true, bound: minute, fault: func(s *stage) {
			for range 6 {
				s.loseReplies(s.redisWorker, "SET NX", ":lock:", 3, false)
			}
		}},
		{number: "28", name: "answer of dequeue lost", proxied: true, bound: minute, fault: func(s *stage) {
			for range 5 {
				s.loseReplies(s.redisWorker, "dequeue", "asynq:{main}:paused", 1, false)
			}
		}},
		{number: "29", name: "Redis away just at done; its answer lost", proxied: true, bound: minute, fault: func(s *stage) {
			for i := range 6 {
				s.loseReplies(s.redisWorker, "done", "asynq:{main}:processed:", 3, i%2 == 0)
			}
		}},
		{number: "30", name: "latency 300 ms ± 200 to Redis", proxied: true, bound: minute, fault: func(s *stage) {
			s.times(3, "latency", func() { s.both(func(p *proxy) { p.slow(2*time.Second, jitter) }, s.redisIngest, s.redisWorker) })
		}},
		{number: "31", name: "replica promoted with a gap", proxied: true, mayLose: "queue", bound: minute, prepare: replica, fault: promote},
		{number: "32", name: "writes go to a replica (READONLY), then back", proxied: true, bound: minute, prepare: replica, fault: demote},
		{number: "33", name: "three sentinels, failover with a gap", mayLose: "queue", bound: minute, prepare: sentinels, fault: failOver},
		{number: "33b", name: "cluster of three masters, each killed", sources: []string{"twin"}, mix: either, bound: minute, prepare: cluster, fault: killMasters},
		{number: "34", name: "Redis full, noeviction", bound: minute, fault: func(s *stage) {
			s.times(3, "full", func() { s.fill(1500 * time.Millisecond) })
		}},
		{number: "35", name: "allkeys-lru set under way, and full", mayLose: "queue", bound: minute, fault: func(s *stage) {
			s.times(3, "evicted", func() { s.evict(time.Second) })
		}},
		{number: "37", name: "end of the AOF cut off", mayLose: "queue", bound: minute, fault: func(s *stage) {
			s.times(3, "kill -9 of Redis, a tenth of its file lost", func() { s.killRedis(300*time.Millisecond, s.truncated) })
		}},
		{number: "39", name: "active without lease, lease without hash, task without message", bound: minute, fault: func(s *stage) {
			s.times(5, "orphans", s.orphan)
		}},
		{number: "39b", name: "task in no list: what a partial loss, or asynq's NOT FOUND after its LREM, leaves", modes: []string{"inbox"}, bound: minute, fault: func(s *stage) {
			s.times(3, "ids dropped from pending", func() {
				for range 5 {
					s.rdb.RPop(context.Background(), "asynq:{main}:pending")
				}
			})
		}},
		{
			number: "40", name: "asynq's archive trimmed", sources: []string{"poison"}, mayDie: []string{"poison"},
			mix: sometimes(6, "poison", typeError), fault: trims, expect: allPoisonDead,
		},
		{number: "41", name: "locks deleted and overwritten by hand", mix: sometimes(3, "main", typeSlow), fault: func(s *stage) {
			s.times(6, "locks broken", s.breakLocks)
		}},
	}
}

// trims deletes what asynq has archived.
func trims(s *stage) {
	ctx := context.Background()
	const key = "asynq:{poison}:archived"
	for range 5 {
		deadline := time.Now().Add(10 * time.Second)
		for s.rdb.ZCard(ctx, key).Val() == 0 && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		s.fire("archive trimmed", func() {
			for _, id := range s.rdb.ZRange(ctx, key, 0, -1).Val() {
				s.check(s.rdb.ZRem(ctx, key, id).Err())
				s.check(s.rdb.Del(ctx, "asynq:{poison}:t:"+id).Err())
			}
		})
	}
}

// replica starts a second Redis that follows the first.
func replica(s *stage) {
	ctx := context.Background()
	second, err := devstack.Start(ctx, devstack.Options{DatabaseURL: s.stack.DatabaseURL})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.check(second.Close()) })
	o, err := redis.ParseURL(second.RedisURL)
	if err != nil {
		s.Fatal(err)
	}
	s.standby = redis.NewClient(o)
	s.Cleanup(func() { s.standby.Close() })
	s.follow(s.standby, s.rdb)
}

// follow makes one Redis the replica of another, and waits until it is.
func (s *stage) follow(replica, master redis.UniversalClient) {
	ctx := context.Background()
	host, port, err := net.SplitHostPort(addressOf(master))
	s.check(err)
	s.check(replica.Do(ctx, "REPLICAOF", host, port).Err())
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if info, err := replica.Info(ctx, "replication").Result(); err == nil && strings.Contains(info, "master_link_status:up") {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.Error("the replica does not follow")
}

func addressOf(rdb redis.UniversalClient) string { return rdb.(*redis.Client).Options().Addr }

// turn leads the programs to another Redis.
func (s *stage) turn(to redis.UniversalClient) {
	for _, p := range []*proxy{s.redisIngest, s.redisWorker} {
		p.set(func() { p.target = addressOf(to) })
		p.cut()
	}
}

// promote lets the replica fall behind, and then take over.
func promote(s *stage) {
	ctx := context.Background()
	for range 3 {
		master, next := s.rdb, s.standby
		s.fire("replica promoted", func() {
			s.check(next.Do(ctx, "REPLICAOF", "NO", "ONE").Err())
			time.Sleep(400 * time.Millisecond) // the gap
			s.turn(next)
		})
		s.rest(500*time.Millisecond, time.Second)
		s.rdb, s.standby = next, master
		s.follow(master, next)
	}
}

// demote leads the programs to the replica, which refuses to write.
func demote(s *stage) {
	for range 3 {
		s.fire("READONLY", func() {
			s.turn(s.standby)
			time.Sleep(1500 * time.Millisecond)
			s.turn(s.rdb)
		})
		s.rest(300*time.Millisecond, time.Second)
	}
}
