package queue

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Memory watches how full Redis is, and whether it keeps what it has over a
// restart. To fetch a task takes memory too, so a Redis that is full never
// drains: from 80 % of maxmemory on, nothing more should be put in, until it is
// below 70 % again.
type Memory struct {
	rdb     redis.UniversalClient
	log     *slog.Logger
	full    atomic.Bool
	persist atomic.Bool
}

const (
	memoryStop  = 0.8
	memoryGo    = 0.7
	memoryEvery = time.Second
)

// NewMemory returns a watch that has not looked yet: until then there is room,
// and nothing persists.
func NewMemory(rdb redis.UniversalClient, log *slog.Logger) *Memory {
	return &Memory{rdb: rdb, log: log}
}

// Room reports whether Redis has memory for more tasks.
func (m *Memory) Room() bool { return !m.full.Load() }

// Persists reports whether Redis shows that it keeps what it has.
func (m *Memory) Persists() bool { return m.persist.Load() }

// Run looks every second until ctx ends.
func (m *Memory) Run(ctx context.Context) error {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		m.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look keeps the last answer if there is none.
func (m *Memory) look(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, memoryEvery)
	defer cancel()
	used, err := m.used(bounded)
	if err != nil {
		return
	}
	m.persist.Store(!IsVolatile(bounded, m.rdb))
	switch full := m.full.Load(); {
	case !full && used >= memoryStop:
		m.full.Store(true)
		m.log.ErrorContext(ctx, "redis is at its limit of memory: nothing more is put in", "used", used)
	case full && used < memoryGo:
		m.full.Store(false)
		m.log.InfoContext(ctx, "redis has room again", "used", used)
	}
}

// used is the share of maxmemory that is taken, of a cluster's fullest node.
func (m *Memory) used(ctx context.Context) (float64, error) {
	cluster, ok := m.rdb.(*redis.ClusterClient)
	if !ok {
		text, err := m.rdb.Info(ctx, "memory").Result()
		return usedShare(text), err
	}
	var mu sync.Mutex
	most := 0.0
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		text, err := node.Info(ctx, "memory").Result()
		mu.Lock()
		defer mu.Unlock()
		most = max(most, usedShare(text))
		return err
	})
	return most, err
}

// usedShare reads the answer of INFO memory. Without a limit it is 0.
func usedShare(info string) float64 {
	var used, limit float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_memory":
			used, _ = strconv.ParseFloat(value, 64)
		case "maxmemory":
			limit, _ = strconv.ParseFloat(value, 64)
		}
	}
	if limit <= 0 {
		return 0
	}
	return used / limit
}
