// Package replay knows signed bytes again that come under another id. It is for
// sources whose provider does not sign the id: whoever has seen one delivery
// could send it once more as another event.
//
// A mark in Redis says under which id some bytes were held first. It is written
// only after the event is held, so that it never stands for an event that is
// not; and it is a help, not a guarantee: where Redis does not answer at once,
// or has lost the mark, nothing is known again.
package replay

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// patience bounds a look: it is not worth more of the time that an
	// acknowledgement has.
	patience = 100 * time.Millisecond
	// waiting is how many marks may wait to be written; more are left out.
	waiting = 4096
	// together is how many are written in one exchange.
	together = 128
	// writing bounds that exchange, which nobody waits for.
	writing = 2 * time.Second
)

// Marks are kept in Redis. They may be used from many goroutines, and need
// [Marks.Run] to be written.
type Marks struct {
	rdb redis.UniversalClient
	log *slog.Logger

	todo chan mark

	mu  sync.Mutex
	own map[string]string // those that are not written yet, by their keys
}

type mark struct {
	key, id string
	window  time.Duration
}

// New returns marks on rdb, which it does not close.
func New(rdb redis.UniversalClient, log *slog.Logger) *Marks {
	return &Marks{rdb: rdb, log: log, todo: make(chan mark, waiting), own: map[string]string{}}
}

// key is in the same cluster slot as the source's queue, so what has the mark
// has the task that was there before it.
func key(source string, sum [sha256.Size]byte) string {
	return "hookonce:{" + source + "}:replay:" + hex.EncodeToString(sum[:])
}

// First returns the id under which the bytes with this hash were held first, or
// "" if they are new. It is one exchange with Redis; an error means that Redis
// did not say.
func (m *Marks) First(ctx context.Context, source string, sum [sha256.Size]byte) (id string, err error) {
	k := key(source, sum)
	m.mu.Lock()
	id = m.own[k]
	m.mu.Unlock()
	if id != "" {
		return id, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id, err = m.rdb.Get(ctx, k).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", fmt.Errorf("look for a replay to %s: %w", source, err)
	}
	return id, nil
}

// Held remembers for a time that an event with these bytes is held under id. It
// does not wait for Redis: this process knows at once, others a moment later.
// The first id stays.
func (m *Marks) Held(source string, sum [sha256.Size]byte, id string, window time.Duration) {
	k := key(source, sum)
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.own[k]; known {
		return
	}
	select {
	case m.todo <- mark{k, id, window}:
		m.own[k] = id
	default: // Redis is too slow to keep up
	}
}

// Run writes marks until ctx ends, and then those that wait.
func (m *Marks) Run(ctx context.Context) error {
	for {
		select {
		case first := <-m.todo:
			_ = m.write(ctx, m.batch(first)) // it was logged
		case <-ctx.Done():
			for len(m.todo) > 0 {
				if err := m.write(ctx, m.batch(<-m.todo)); err != nil {
					return nil // the rest would fail too
				}
			}
			return nil
		}
	}
}

func (m *Marks) batch(first mark) []mark {
	all := []mark{first}
	for len(all) < together {
		select {
		case next := <-m.todo:
			all = append(all, next)
		default:
			return all
		}
	}
	return all
}

// write tries once: a mark that came late would be one of another time.
func (m *Marks) write(ctx context.Context, marks []mark) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writing)
	defer cancel()
	_, err := m.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, mk := range marks {
			pipe.SetArgs(ctx, mk.key, mk.id, redis.SetArgs{Mode: "NX", TTL: mk.window})
		}
		return nil
	})
	if errors.Is(err, redis.Nil) { // one was there
		err = nil
	}
	if err != nil {
		m.log.WarnContext(ctx, "replays of some deliveries will not be known", "deliveries", len(marks), "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mk := range marks {
		delete(m.own, mk.key)
	}
	return err
}
