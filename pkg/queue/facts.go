package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Facts are what one Redis tells of itself. What it does not tell is "", or -1
// if it is a number: a managed Redis hides much.
type Facts struct {
	Address   string // of one node of a cluster, else ""
	Clustered bool   // it was reached as a cluster
	Mode      string // standalone, cluster or sentinel
	Version   string
	Role      string // master or slave
	Replicas  int64

	Policy string // what is evicted when the memory is full

	AOF              string // yes or no
	Fsync            string // always, everysec or no
	NoFsyncOnRewrite string // yes or no
	Snapshots        string // yes or no

	MaxMemory  int64 // bytes, 0 without a limit
	UsedMemory int64

	ConfigHidden bool          // CONFIG is refused or answers nothing
	ClockSkew    time.Duration // how far its clock is ahead of ours
}

// ReadFacts asks a Redis about itself, or each master of a cluster. An answer
// that is refused is no error; one that does not come is.
func ReadFacts(ctx context.Context, rdb redis.UniversalClient) ([]Facts, error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		f, err := readNode(ctx, rdb)
		if err != nil {
			return nil, fmt.Errorf("ask redis about itself: %w", err)
		}
		return []Facts{f}, nil
	}
	var mu sync.Mutex
	var all []Facts
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		f, err := readNode(ctx, node)
		f.Address, f.Clustered = node.Options().Addr, true
		mu.Lock()
		defer mu.Unlock()
		all = append(all, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ask redis about itself: %w", err)
	}
	return all, nil
}

func readNode(ctx context.Context, rdb redis.Cmdable) (Facts, error) {
	if err := rdb.Ping(ctx).Err(); err != nil { // here a refusal is one of us, not of a question
		return Facts{}, err
	}
	text, err := rdb.Info(ctx).Result()
	if !refused(err) {
		return Facts{}, err
	}
	info := parseInfo(text)
	f := Facts{
		Mode:       info["redis_mode"],
		Version:    info["redis_version"],
		Role:       info["role"],
		Replicas:   number(info["connected_slaves"]),
		Policy:     info["maxmemory_policy"],
		AOF:        map[string]string{"0": "no", "1": "yes"}[info["aof_enabled"]],
		MaxMemory:  number(info["maxmemory"]),
		UsedMemory: number(info["used_memory"]),
	}
	if err := f.readConfig(ctx, rdb); err != nil {
		return Facts{}, err
	}
	f.ClockSkew, err = clockSkew(ctx, rdb)
	return f, err
}

// readConfig fills in what CONFIG GET tells. Each name is asked for alone, as
// a Redis 6 must be.
func (f *Facts) readConfig(ctx context.Context, rdb redis.Cmdable) error {
	for name, set := range map[string]func(value string){
		"maxmemory-policy":          func(v string) { f.Policy = v },
		"maxmemory":                 func(v string) { f.MaxMemory = number(v) },
		"appendonly":                func(v string) { f.AOF = v },
		"appendfsync":               func(v string) { f.Fsync = v },
		"no-appendfsync-on-rewrite": func(v string) { f.NoFsyncOnRewrite = v },
		"save": func(v string) {
			f.Snapshots = "yes"
			if v == "" {
				f.Snapshots = "no"
			}
		},
	} {
		values, err := rdb.ConfigGet(ctx, name).Result()
		if !refused(err) {
			return err
		}
		if value, told := values[name]; told {
			set(value)
		} else {
			f.ConfigHidden = true
		}
	}
	return nil
}

// clockSkew is how far the clock of Redis is ahead of ours: of some answers,
// the one that came soonest tells best.
func clockSkew(ctx context.Context, rdb redis.Cmdable) (time.Duration, error) {
	var skew time.Duration
	soonest := time.Duration(-1)
	for range 3 {
		asked := time.Now()
		theirs, err := rdb.Time(ctx).Result()
		if err != nil {
			if refused(err) {
				return 0, nil
			}
			return 0, err
		}
		if took := time.Since(asked); soonest < 0 || took < soonest {
			soonest, skew = took, theirs.Sub(asked.Add(took/2))
		}
	}
	return skew, nil
}

// refused reports whether err is none, or an answer of Redis.
func refused(err error) bool {
	_, answer := errors.AsType[redis.Error](err)
	return err == nil || answer
}

// parseInfo reads the answer of INFO.
func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// number is -1 if s is none.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// SourceFacts are what asynq holds of one source.
type SourceFacts struct {
	Source    string
	Archived  int64
	Leaseless int64 // tasks that are said to be worked on, by nobody
}

// ReadQueues looks at the queues that asynq knows.
func ReadQueues(ctx context.Context, rdb redis.UniversalClient) ([]SourceFacts, error) {
	sources, err := rdb.SMembers(ctx, "asynq:queues").Result()
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var all []SourceFacts
	for _, source := range sources {
		q, err := readQueue(ctx, rdb, source)
		if err != nil {
			return nil, fmt.Errorf("look at queue %s: %w", source, err)
		}
		all = append(all, q)
	}
	return all, nil
}

// readQueue counts at one moment: each task that is active has a lease.
func readQueue(ctx context.Context, rdb redis.UniversalClient, source string) (SourceFacts, error) {
	key := func(name string) string { return "asynq:{" + source + "}:" + name }
	var archived, active, leased *redis.IntCmd
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		archived = p.ZCard(ctx, key("archived"))
		active = p.LLen(ctx, key("active"))
		leased = p.ZCard(ctx, key("lease"))
		return nil
	})
	if err != nil {
		return SourceFacts{}, err
	}
	return SourceFacts{source, archived.Val(), max(0, active.Val()-leased.Val())}, nil
}
