package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/queue"
)

func TestUsedShare(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		info string
		want float64
	}{
		{"as Redis writes it", "# Memory\r\nused_memory:750\r\nused_memory_human:1K\r\nused_memory_peak:900\r\nmaxmemory:1000\r\nmaxmemory_human:1M\r\nmaxmemory_policy:noeviction\r\n", 0.75},
		{"maxmemory first", "maxmemory:1000\nused_memory:10\n", 0.01},
		{"more than allowed", "used_memory:1500\r\nmaxmemory:1000\r\n", 1.5},
		{"large", "used_memory:17179869184\r\nmaxmemory:34359738368\r\n", 0.5},
		{"no limit", "used_memory:750\r\nmaxmemory:0\r\n", 0},
		{"limit not told", "used_memory:750\r\n", 0},
		{"use not told", "maxmemory:1000\r\n", 0},
		{"nothing", "", 0},
		{"no numbers", "used_memory:much\r\nmaxmemory:-1\r\nfoo\r\n", 0},
	}
	for _, tt := range tests {
		if got := queue.UsedShare(tt.info); got != tt.want {
			t.Errorf("%s: UsedShare(%q) = %v, want %v", tt.name, tt.info, got, tt.want)
		}
	}
}

// TestMemory sets the limit of a Redis so that it is full to a certain share.
func TestMemory(t *testing.T) {
	t.Parallel()
	r, server := privateRig(t)
	ctx := t.Context()
	log := new(logBuffer)
	m := queue.NewMemory(r.rdb, slog.New(slog.NewTextHandler(log, nil)))
	if !m.Room() || m.Persists() {
		t.Errorf("before the first look: room %v, persists %v, want true, false", m.Room(), m.Persists())
	}
	if err := r.rdb.Set(ctx, "ballast", strings.Repeat("x", 20<<20), 0).Err(); err != nil { // next to it a client's buffers are small
		t.Fatal(err)
	}
	fill := func(share float64) {
		t.Helper()
		info, err := r.rdb.InfoMap(ctx, "memory").Result()
		if err != nil {
			t.Fatal(err)
		}
		var used float64
		fmt.Sscan(info["Memory"]["used_memory"], &used)
		limit := int64(0)
		if share > 0 {
			limit = int64(used / share)
		}
		if err := r.rdb.ConfigSet(ctx, "maxmemory", fmt.Sprint(limit)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		share float64
		room  bool
	}{{0, true}, {0.5, true}, {0.77, true}, {0.83, false}, {0.95, false}, {0.77, false}, {0.73, false}, {0.67, true}, {0.77, true}, {0.83, false}, {0, true}} {
		fill(step.share)
		m.Look(ctx)
		if m.Room() != step.room {
			t.Errorf("at %v of the memory: room %v, want %v", step.share, m.Room(), step.room)
		}
	}
	if n := strings.Count(log.String(), "limit of memory"); n != 2 || strings.Count(log.String(), "room again") != 2 {
		t.Errorf("log tells each change once, got:\n%s", log)
	}
	for _, config := range []struct {
		appendonly, save string
		persists         bool
	}{{"no", "", false}, {"yes", "", true}, {"no", "3600 1", true}, {"no", "", false}} {
		r.rdb.ConfigSet(ctx, "appendonly", config.appendonly)
		r.rdb.ConfigSet(ctx, "save", config.save)
		m.Look(ctx)
		if m.Persists() != config.persists {
			t.Errorf("with %+v: persists %v", config, m.Persists())
		}
	}
	fill(0.9)
	m.Look(ctx)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	m.Look(ctx)
	if m.Room() {
		t.Error("there is room in a Redis that does not answer, and was full")
	}
}

func TestMemoryRun(t *testing.T) {
	t.Parallel()
	r, _ := privateRig(t)
	if err := r.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	m := queue.NewMemory(r.rdb, slog.New(slog.DiscardHandler))
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	r.eventually("it notices that there is no room", func() bool { return !m.Room() })
	if err := r.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	r.eventually("it notices that there is room", m.Room)
	end()
	if err := <-done; err != nil {
		t.Errorf("Run = %v", err)
	}
}
