package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/queue"
)

// facts reads those of the one Redis at url.
func facts(t *testing.T, rdb redis.UniversalClient) queue.Facts {
	t.Helper()
	all, err := queue.ReadFacts(t.Context(), rdb)
	if err != nil || len(all) != 1 {
		t.Fatalf("ReadFacts = %+v, %v, want one", all, err)
	}
	if all[0].ClockSkew.Abs() > time.Second {
		t.Errorf("clock skew %s to a server of this machine", all[0].ClockSkew)
	}
	all[0].ClockSkew = 0
	return all[0]
}

func TestFacts(t *testing.T) {
	t.Parallel()
	r, _ := privateRig(t)
	got := facts(t, r.rdb)
	if got.Version == "" || got.UsedMemory <= 0 {
		t.Errorf("ReadFacts = %+v, want a version and the memory used", got)
	}
	got.Version, got.UsedMemory = "", 0
	want := queue.Facts{Mode: "standalone", Role: "master", Policy: "noeviction", AOF: "yes", Fsync: "everysec", NoFsyncOnRewrite: "no", Snapshots: "no", MaxMemory: 1 << 30}
	if got != want {
		t.Errorf("ReadFacts = %+v, want %+v", got, want)
	}
	for name, value := range map[string]string{
		"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru", "appendonly": "no", "save": "60 1", "appendfsync": "always", "no-appendfsync-on-rewrite": "yes",
	} {
		if err := r.rdb.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	got = facts(t, r.rdb)
	got.Version, got.UsedMemory = "", 0
	want = queue.Facts{Mode: "standalone", Role: "master", Policy: "allkeys-lru", AOF: "no", Fsync: "always", NoFsyncOnRewrite: "yes", Snapshots: "yes", MaxMemory: 100 << 20}
	if got != want {
		t.Errorf("after CONFIG SET, ReadFacts = %+v, want %+v", got, want)
	}
}

// TestFactsHidden asks as one who may not use the commands.
func TestFactsHidden(t *testing.T) {
	t.Parallel()
	r, _ := privateRig(t)
	as := func(name string, rules ...any) queue.Facts {
		t.Helper()
		rules = append([]any{"ACL", "SETUSER", name, "on", ">pw", "~*", "+@all"}, rules...)
		if err := r.rdb.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
		return facts(t, dial(t, strings.Replace(r.url, "redis://", "redis://"+name+":pw@", 1), queue.IngestProfile(time.Second)))
	}
	f := as("noconfig", "-config")
	if !f.ConfigHidden || f.Policy != "noeviction" || f.AOF != "yes" || f.Fsync != "" || f.Snapshots != "" {
		t.Errorf("without CONFIG: %+v, want what INFO tells", f)
	}
	f = as("nothing", "-config", "-info", "-time")
	if want := (queue.Facts{Replicas: -1, MaxMemory: -1, UsedMemory: -1, ConfigHidden: true}); f != want {
		t.Errorf("without all: %+v, want %+v", f, want)
	}
	wrong := dial(t, strings.Replace(r.url, "redis://", "redis://nothing:wrong@", 1), queue.IngestProfile(time.Second))
	if _, err := queue.ReadFacts(t.Context(), wrong); err == nil {
		t.Error("ReadFacts with a wrong password succeeds")
	}
}

func TestFactsOfReplica(t *testing.T) {
	t.Parallel()
	master, _ := privateRig(t)
	stack := stacktest.Private(t, devstack.Options{DatabaseURL: "postgres://127.0.0.1:1/none"})
	replica := dial(t, stack.RedisURL, queue.IngestProfile(time.Second))
	host, port, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(master.url, "redis://"), "/0"), ":")
	if err := replica.Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	if f := facts(t, replica); f.Role != "slave" {
		t.Errorf("ReadFacts = %+v, want a slave", f)
	}
	eventually(t, "the master sees its replica", func() bool { return facts(t, master.rdb).Replicas == 1 })
}

func TestFactsOfAway(t *testing.T) {
	t.Parallel()
	rdb := dial(t, "redis://127.0.0.1:1", queue.IngestProfile(time.Second))
	if _, err := queue.ReadFacts(t.Context(), rdb); err == nil {
		t.Error("ReadFacts of nobody succeeds")
	}
	if _, err := queue.ReadQueues(t.Context(), rdb); err == nil {
		t.Error("ReadQueues of nobody succeeds")
	}
}

func TestReadQueues(t *testing.T) {
	t.Parallel()
	r, _ := privateRig(t)
	if all, err := queue.ReadQueues(t.Context(), r.rdb); err != nil || len(all) != 0 {
		t.Errorf("ReadQueues of nothing = %v, %v", all, err)
	}
	r.enqueue(r.event("one", "{}"))
	for _, err := range []error{
		r.rdb.LPush(t.Context(), r.key("active"), "a", "b", "c").Err(),
		r.rdb.ZAdd(t.Context(), r.key("lease"), redis.Z{Member: "a"}).Err(),
		r.rdb.ZAdd(t.Context(), r.key("archived"), redis.Z{Member: "d"}, redis.Z{Member: "e"}).Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := queue.ReadQueues(t.Context(), r.rdb)
	if want := (queue.SourceFacts{Source: r.source, Archived: 2, Leaseless: 2}); err != nil || len(all) != 1 || all[0] != want {
		t.Errorf("ReadQueues = %+v, %v, want %+v", all, err, want)
	}
}
