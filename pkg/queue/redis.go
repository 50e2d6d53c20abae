package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// A Profile sets how long a client waits and how often it tries.
type Profile struct {
	Read    time.Duration // for one answer, if the call's context allows as much
	Retries int           // after a network error
	Pool    int           // connections at most
}

// IngestProfile never sends twice, since the provider does, and answers within
// the deadline for an acknowledgement.
func IngestProfile(deadline time.Duration) Profile {
	return Profile{Read: deadline, Retries: -1, Pool: 128}
}

// WorkerProfile waits long for an answer: a dequeue whose answer was not waited
// for leaves its task orphaned. It has a connection for each fetching server
// and each attempt.
func WorkerProfile(settings map[string]Settings) Profile {
	pool := 2 * len(settings)
	for _, s := range settings {
		pool += s.Concurrency
	}
	return Profile{Read: 10 * time.Second, Retries: 1, Pool: pool + 4}
}

// Dial prepares a client, and does not connect yet. The forms of address are
//
//	redis://user:password@host:port/db      rediss:// with TLS
//	redis-cluster://host:port?addr=host:port
//	redis-sentinel://host:port/db?master_name=NAME&addr=host:port&username=U&password=P
//
// with user and password of a sentinel address being the sentinels' own.
func Dial(address string, p Profile) (redis.UniversalClient, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	plain := "redis://" + rest
	switch scheme {
	case "redis", "rediss":
		o, err := redis.ParseURL(address)
		if err != nil {
			return nil, errAddress
		}
		o.ContextTimeoutEnabled, o.DisableIdentity = true, true
		o.DialTimeout, o.DialerRetries = dialTimeout, 1
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = p.Read, p.Read, p.Read
		o.MaxRetries, o.PoolSize = p.Retries, p.Pool
		return redis.NewClient(o), nil
	case "redis-cluster":
		o, err := redis.ParseClusterURL(plain)
		if err != nil {
			return nil, errAddress
		}
		o.ContextTimeoutEnabled, o.DisableIdentity = true, true
		o.DialTimeout, o.DialerRetries = dialTimeout, 1
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = p.Read, p.Read, p.Read
		o.MaxRetries, o.PoolSize = p.Retries, p.Pool
		return redis.NewClusterClient(o), nil
	case "redis-sentinel":
		o, err := redis.ParseFailoverURL(plain)
		if err != nil {
			return nil, errAddress
		}
		if o.MasterName == "" {
			return nil, errors.New("REDIS_URL: a redis-sentinel:// address needs ?master_name=")
		}
		o.ContextTimeoutEnabled, o.DisableIdentity = true, true
		o.DialTimeout, o.DialerRetries = dialTimeout, 1
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = p.Read, p.Read, p.Read
		o.MaxRetries, o.PoolSize = p.Retries, p.Pool
		return redis.NewFailoverClient(o), nil
	}
	return nil, errors.New("REDIS_URL: must begin with redis://, rediss://, redis-cluster:// or redis-sentinel://")
}

const dialTimeout = 200 * time.Millisecond

// errAddress tells nothing of the address: what is wrong with it may be a piece
// of its password.
var errAddress = errors.New("REDIS_URL: cannot be read: host, port, number of the database or an option is wrong," +
	" or a special character of the user or password is not written as %XX")

// Quiet keeps go-redis from writing lines of its own to the standard error, amid
// a log in JSON. What it would say there it returns as an error too. It is for
// a main to call, before the first client.
func Quiet() { logging.Disable() }

// Ping reports whether Redis answers.
func Ping(ctx context.Context, rdb redis.UniversalClient) error {
	if err := rdb.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("ping redis: %w", err)
	}
	return nil
}

// IsVolatile reports whether Redis keeps nothing over a restart. A Redis that
// does not tell (its CONFIG is hidden) counts as volatile.
func IsVolatile(ctx context.Context, rdb redis.UniversalClient) bool {
	for name, off := range map[string]string{"appendonly": "no", "save": ""} {
		v, err := rdb.ConfigGet(ctx, name).Result()
		if err == nil && v[name] != off {
			if _, told := v[name]; told {
				return false
			}
		}
	}
	return true
}
