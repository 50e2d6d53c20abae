package doctor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/doctor"
)

// healthy are facts with nothing to find.
func healthy() (doctor.Facts, *doctor.Redis, *doctor.Postgres) {
	p := &doctor.Postgres{
		Version: "17.4", Fsync: true, FullPageWrites: true, SynchronousCommit: "on",
		MaxConnections: 100, Reserved: 3, Pool: 20, Schema: 3,
	}
	f := doctor.Facts{Postgres: p, Schema: 3, Queues: []doctor.Queue{{Source: "shop", Archived: 8000}}, Redis: []doctor.Redis{{
		Mode: "standalone", Version: "6.2.0", Role: "master", Policy: "noeviction",
		AOF: "yes", Fsync: "always", NoFsyncOnRewrite: "no", Snapshots: "yes", MaxMemory: 1000, UsedMemory: 600,
	}}}
	return f, &f.Redis[0], p
}

func TestHealthy(t *testing.T) {
	t.Parallel()
	f, _, _ := healthy()
	found := doctor.Check(f)
	if len(found) < 9 {
		t.Errorf("%d findings: that is not all", len(found))
	}
	for _, got := range found {
		if got.Level != doctor.OK || got.Refuses || got.Fix != "" || got.Subject == "" || got.Matters() {
			t.Errorf("found %+v, want it ok", got)
		}
	}
	if found := doctor.Check(doctor.Facts{}); found != nil {
		t.Errorf("found %v in nothing", found)
	}
}

// A finding is what is wanted of one: its level, words of its text and of what
// to do, and whether a program must not start.
type finding struct {
	level     doctor.Level
	text, fix string
	refuses   bool
}

// wants checks that there is one finding that is not ok, and it is want.
func wants(t *testing.T, f doctor.Facts, subject string, want finding) {
	t.Helper()
	var found []doctor.Finding
	for _, got := range doctor.Check(f) {
		if got.Level != doctor.OK {
			found = append(found, got)
		}
	}
	if len(found) != 1 {
		t.Fatalf("found %+v, want one thing that is not ok", found)
	}
	got := found[0]
	if got.Level != want.level || got.Subject != subject || got.Refuses != want.refuses ||
		!strings.Contains(got.Text, want.text) || !strings.Contains(got.Fix, want.fix) {
		t.Errorf("found %+v, want of %s: %+v", got, subject, want)
	}
	if got.Matters() && got.Fix == "" {
		t.Errorf("%s: does not say what to do", got)
	}
}

func TestRedis(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*doctor.Redis)
		want  finding
	}{
		{"version 6.1", func(r *doctor.Redis) { r.Version = "6.1.9" }, finding{doctor.Error, "6.1.9 is too old", "6.2", true}},
		{"version 5.9", func(r *doctor.Redis) { r.Version = "5.9" }, finding{doctor.Error, "5.9 is too old", "6.2", true}},
		{"version hidden", func(r *doctor.Redis) { r.Version = "" }, finding{doctor.Note, "version", "6.2", false}},
		{"version strange", func(r *doctor.Redis) { r.Version = "df-v1" }, finding{doctor.Note, "version", "6.2", false}},
		{"replica", func(r *doctor.Redis) { r.Role = "slave" }, finding{doctor.Error, "replica", "master", true}},
		{"sentinel", func(r *doctor.Redis) { r.Mode = "sentinel" }, finding{doctor.Error, "sentinel", "redis-sentinel://", false}},
		{"one of a cluster", func(r *doctor.Redis) { r.Mode = "cluster" }, finding{doctor.Warning, "node of a cluster", "redis-cluster://", false}},
		{"replicated", func(r *doctor.Redis) { r.Replicas = 2 }, finding{doctor.Note, "2 replicas", "inbox", false}},
		{"evicting", func(r *doctor.Redis) { r.Policy = "volatile-lru" }, finding{doctor.Error, "volatile-lru", "REDIS_ALLOW_EVICTION=true", true}},
		{"policy hidden", func(r *doctor.Redis) { r.Policy = "" }, finding{doctor.Note, "maxmemory-policy", "noeviction", false}},
		{"everysec", func(r *doctor.Redis) { r.Fsync = "everysec" }, finding{doctor.Note, "up to 1 s of acknowledged events", "always", false}},
		{"fsync no", func(r *doctor.Redis) { r.Fsync = "no" }, finding{doctor.Warning, "half a minute", "everysec", false}},
		{"fsync hidden", func(r *doctor.Redis) { r.Fsync = "" }, finding{doctor.Note, "does not tell appendfsync", "", false}},
		{"snapshots", func(r *doctor.Redis) { r.AOF = "no" }, finding{doctor.Warning, "snapshots only", "appendonly", false}},
		{"nothing kept", func(r *doctor.Redis) { r.AOF, r.Snapshots = "no", "no" }, finding{doctor.Warning, "a restart loses all that is queued", "appendonly", false}},
		{"AOF hidden", func(r *doctor.Redis) { r.AOF = "" }, finding{doctor.Warning, "does not show that it persists", "REDIS_PERSISTENT=true", false}},
		{"snapshots hidden", func(r *doctor.Redis) { r.AOF, r.Snapshots = "no", "" }, finding{doctor.Warning, "does not show that it persists", "REDIS_PERSISTENT=true", false}},
		{"no fsync on rewrite", func(r *doctor.Redis) { r.NoFsyncOnRewrite = "yes" }, finding{doctor.Note, "no-appendfsync-on-rewrite", "to no", false}},
		{"no limit", func(r *doctor.Redis) { r.MaxMemory = 0 }, finding{doctor.Warning, "maxmemory is 0", "set maxmemory", false}},
		{"filling", func(r *doctor.Redis) { r.UsedMemory = 610 }, finding{doctor.Warning, "61 % of maxmemory", "raise maxmemory", false}},
		{"CONFIG hidden", func(r *doctor.Redis) { r.ConfigHidden = true }, finding{doctor.Note, "hides its CONFIG", "noeviction", false}},
		{"clock ahead", func(r *doctor.Redis) { r.ClockSkew = 1100 * time.Millisecond }, finding{doctor.Warning, "1.1s ahead of", "NTP", false}},
		{"clock behind", func(r *doctor.Redis) { r.ClockSkew = -time.Minute }, finding{doctor.Warning, "1m0s behind", "NTP", false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, r, _ := healthy()
			tt.spoil(r)
			wants(t, f, "redis", tt.want)
		})
	}
}

// TestHidden gives what a managed Redis may leave of itself: nothing.
func TestHidden(t *testing.T) {
	t.Parallel()
	nothing := doctor.Redis{MaxMemory: -1, UsedMemory: -1, Replicas: -1, ConfigHidden: true}
	for _, got := range doctor.Check(doctor.Facts{Redis: []doctor.Redis{nothing}, Persistent: true}) {
		if got.Matters() || got.Refuses {
			t.Errorf("found %+v, want no more than a note", got)
		}
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	f, r, _ := healthy()
	r.AOF, r.Snapshots, f.Inbox = "no", "no", true
	wants(t, f, "redis", finding{doctor.Note, "Postgres holds events first", "", false})
	f.Inbox, f.Persistent = false, true
	wants(t, f, "redis", finding{doctor.Note, "REDIS_PERSISTENT says so", "", false})
	f, r, _ = healthy()
	r.Policy, f.AllowEviction = "allkeys-lru", true
	wants(t, f, "redis", finding{doctor.Warning, "which REDIS_ALLOW_EVICTION allows", "noeviction", false})
}

func TestCluster(t *testing.T) {
	t.Parallel()
	f, r, _ := healthy()
	r.Address, r.Clustered, r.Mode = "10.0.0.1:7000", true, "cluster"
	wants(t, f, "redis", finding{doctor.Note, "cluster of 1 masters", "", false})
	f.Redis = append(f.Redis, *r)
	f.Redis[1].Address, f.Redis[1].Policy = "10.0.0.2:7000", "allkeys-lru"
	var evicting []string
	for _, got := range doctor.Check(f) {
		if got.Level == doctor.Error {
			evicting = append(evicting, got.Subject)
		}
	}
	if len(evicting) != 1 || evicting[0] != "redis 10.0.0.2:7000" {
		t.Errorf("errors of %q, want of the second node", evicting)
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(*doctor.Postgres)
		want  finding
	}{
		{"fsync", func(p *doctor.Postgres) { p.Fsync = false }, finding{doctor.Error, "fsync is off", "fsync to on", false}},
		{"full_page_writes", func(p *doctor.Postgres) { p.FullPageWrites = false }, finding{doctor.Error, "half a page", "full_page_writes to on", false}},
		{"synchronous_commit", func(p *doctor.Postgres) { p.SynchronousCommit = "off" }, finding{doctor.Error, "synchronous_commit is off", "to on", false}},
		{"standby", func(p *doctor.Postgres) { p.Standby, p.ReadOnly = true, true }, finding{doctor.Error, "standby", "primary", false}},
		{"read-only", func(p *doctor.Postgres) { p.ReadOnly = true }, finding{doctor.Error, "read-only", "default_transaction_read_only", false}},
		{"no schema", func(p *doctor.Postgres) { p.Schema = 0 }, finding{doctor.Error, "not there", "run hookonce migrate up", true}},
		{"old schema", func(p *doctor.Postgres) { p.Schema = 2 }, finding{doctor.Error, "is at 2, and this build needs 3", "run hookonce migrate up", true}},
		{"new schema", func(p *doctor.Postgres) { p.Schema = 4 }, finding{doctor.Warning, "only expand", "update", false}},
		{"schema hidden", func(p *doctor.Postgres) { p.Schema, p.SchemaHidden = 0, true }, finding{doctor.Note, "cannot be read", "goose_db_version", false}},
		{"pool", func(p *doctor.Postgres) { p.Pool = 98 }, finding{doctor.Error, "up to 98 connections, and Postgres has 97", "max_connections", true}},
		{"session pooler", func(p *doctor.Postgres) { p.Pooled, p.Pool = true, 98 }, finding{doctor.Note, "pooler of sessions", "", false}},
		{"transaction pooler", func(p *doctor.Postgres) { p.Pooled, p.Shared, p.Unlimited = true, true, true }, finding{doctor.Warning, "transaction mode", "default_query_exec_mode=exec", false}},
		{"settings lost", func(p *doctor.Postgres) { p.Unlimited = true }, finding{doctor.Warning, "do not reach Postgres", "ignore_startup_parameters", false}},
		{"clock", func(p *doctor.Postgres) { p.ClockSkew = 2 * time.Second }, finding{doctor.Warning, "2s ahead of", "NTP", false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f, _, p := healthy()
			tt.spoil(p)
			wants(t, f, "postgres", tt.want)
		})
	}
}

// TestBounds gives what is just allowed.
func TestBounds(t *testing.T) {
	t.Parallel()
	f, r, p := healthy()
	p.Pool, p.SynchronousCommit, p.ClockSkew = 97, "local", -time.Second
	r.Version, r.ClockSkew, r.Replicas = "7.0.15", time.Second, -1
	for _, got := range doctor.Check(f) {
		if got.Level != doctor.OK {
			t.Errorf("found %+v, want it ok", got)
		}
	}
}

func TestQueues(t *testing.T) {
	t.Parallel()
	f, _, _ := healthy()
	f.Queues[0] = doctor.Queue{Source: "shop", Archived: 8001}
	wants(t, f, "queue shop", finding{doctor.Note, "8001 tasks are archived", "hookonce dead list", false})
	f.Queues[0] = doctor.Queue{Source: "shop", Leaseless: 2}
	wants(t, f, "queue shop", finding{doctor.Note, "2 tasks are active and have no lease", "sweeper", false})
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	const timeout = 15 * time.Second
	tests := []struct {
		name string
		a    doctor.Attempts
		want doctor.Level // "" for nothing
	}{
		{"half", doctor.Attempts{Events: 20, P99: timeout / 2, Timeout: timeout}, doctor.OK},
		{"over half", doctor.Attempts{Events: 20, P99: timeout/2 + 1, Timeout: timeout}, doctor.Warning},
		{"too few", doctor.Attempts{Events: 19, P99: timeout, Timeout: timeout}, ""},
		{"no such source", doctor.Attempts{Events: 20, P99: timeout}, ""},
	}
	for _, tt := range tests {
		tt.a.Source = "shop"
		got := doctor.Check(doctor.Facts{Attempts: []doctor.Attempts{tt.a}})
		switch {
		case tt.want == "" && len(got) == 0:
		case len(got) != 1 || got[0].Level != tt.want || got[0].Subject != "source shop" || (got[0].Fix == "") != (tt.want == doctor.OK):
			t.Errorf("%s: found %+v, want %q", tt.name, got, tt.want)
		}
	}
}

func TestAway(t *testing.T) {
	t.Parallel()
	got := doctor.Away("postgres", errors.New("dial:\n  refused"))
	if got.Level != doctor.Error || got.Refuses || got.Text != "cannot be asked: dial: refused" || got.Fix == "" {
		t.Errorf("Away = %+v", got)
	}
	got = doctor.Away("postgres", errors.New("FATAL: unsupported startup parameter: lock_timeout"))
	if !strings.Contains(got.Fix, "ignore_startup_parameters") {
		t.Errorf("Away = %+v, want it to know PgBouncer", got)
	}
	for _, text := range []string{
		"WRONGPASS invalid username-password pair or user is disabled.",
		"NOAUTH Authentication required.",
		`failed to connect: FATAL: password authentication failed for user "u" (SQLSTATE 28P01)`,
		`server error: FATAL: role "u" does not exist (SQLSTATE 28000)`,
		`server error: FATAL: database "x" does not exist (SQLSTATE 3D000)`,
	} {
		if got := doctor.Away("redis", errors.New(text)); !strings.Contains(got.Fix, "correct the user, the password") {
			t.Errorf("Away of %s = %+v, want it to say what to correct", text, got)
		}
	}
	if want := "postgres: a: b"; (doctor.Finding{Subject: "postgres", Text: "a", Fix: "b"}).String() != want {
		t.Errorf("String is not %q", want)
	}
}
