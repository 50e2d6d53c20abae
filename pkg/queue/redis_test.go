package queue_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/queue"
)

func TestDial(t *testing.T) {
	t.Parallel()
	tests := []struct {
		address, addr, user, password string
		db                            int
		tls                           bool
	}{
		{"redis://h", "h:6379", "", "", 0, false},
		{"redis://:s3cret@h:1234/5", "h:1234", "", "s3cret", 5, false},
		{"redis://me:s3%2Fcret@h:1234/5", "h:1234", "me", "s3/cret", 5, false},
		{"rediss://me:s3cret@h:1234/5", "h:1234", "me", "s3cret", 5, true},
		{"redis-sentinel://s:26379/5?master_name=main&addr=s2:26379&username=me&password=s3cret", "FailoverClient", "me", "s3cret", 5, false},
		{"redis-sentinel://sentinel:other@s:26379/5?master_name=main&username=me&password=s3cret", "FailoverClient", "me", "s3cret", 5, false},
	}
	for _, tt := range tests {
		client, ok := dial(t, tt.address, queue.IngestProfile(800*time.Millisecond)).(*redis.Client)
		if !ok {
			t.Fatalf("Dial(%s) = %T", tt.address, client)
		}
		o := client.Options()
		if o.Addr != tt.addr || o.Username != tt.user || o.Password != tt.password || o.DB != tt.db || (o.TLSConfig != nil) != tt.tls {
			t.Errorf("Dial(%s): %s, user %s, password %s, db %d, TLS %t", tt.address, o.Addr, o.Username, o.Password, o.DB, o.TLSConfig != nil)
		}
		if !o.ContextTimeoutEnabled || o.ReadTimeout != 800*time.Millisecond || o.MaxRetries != 0 || o.PoolSize != 128 {
			t.Errorf("Dial(%s) has not the profile: %+v", tt.address, o)
		}
	}
}

func TestDialCluster(t *testing.T) {
	t.Parallel()
	profile := queue.WorkerProfile(map[string]queue.Settings{"a": {Concurrency: 3}, "b": {Concurrency: 5}})
	client, ok := dial(t, "redis-cluster://me:s3cret@h:1234?addr=h2:1235", profile).(*redis.ClusterClient)
	if !ok {
		t.Fatalf("Dial = %T", client)
	}
	o := client.Options()
	if strings.Join(o.Addrs, " ") != "h:1234 h2:1235" || o.Username != "me" || o.Password != "s3cret" {
		t.Errorf("Dial: %q, user %s, password %s", o.Addrs, o.Username, o.Password)
	}
	if !o.ContextTimeoutEnabled || o.ReadTimeout != 10*time.Second || o.MaxRetries != 1 || o.PoolSize != 2*2+3+5+4 {
		t.Errorf("Dial has not the profile: %+v", o)
	}
}

func TestDialRefuses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "s3cret", "h:6379", "http://me:s3cret@h", "unix://me:s3cret@h/socket",
		"redis://me:s3cret@h:port", "redis://me:s3cret@h:6379/x", "redis://me:s3cret@h:6379/0/1",
		"redis://me:s3cret%zz@h", "redis://me:s3cret@h:6379?colour=blue", "redis://me:pa#s3cret@h",
		"redis://me:1/s3cret@h:6379", "redis://me:1/2/s3cret@h:6379", "redis://me:s3cret/x@h:6379", "redis://me:s3cret#x@h:6379",
		"redis://me:%s3cret@h", "redis://[s3cret@h", "redis://me:s3cret @h:6379/\x7f",
		"redis-cluster://me:s3cret/@h:6379", "redis-cluster://me:s3cret@h?addr", "redis-cluster://me:s3cret@h?colour=blue",
		"redis-sentinel://me:s3cret@h:26379", "redis-sentinel://me:s3cret@h:26379/x?master_name=m",
		"redis-sentinel://h:26379?master_name=m&password=a&s3cret",
	} {
		rdb, err := queue.Dial(address, queue.IngestProfile(time.Second))
		if err == nil {
			rdb.Close()
			t.Errorf("Dial(%q) takes the address", address)
			continue
		}
		if !strings.HasPrefix(err.Error(), "REDIS_URL: ") || strings.Contains(err.Error(), "s3c") {
			t.Errorf("Dial(%q): %v", address, err)
		}
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	if err := queue.Ping(t.Context(), newRig(t).rdb); err != nil {
		t.Error(err)
	}
	if queue.Ping(t.Context(), dial(t, "redis://127.0.0.1:1", queue.IngestProfile(time.Second))) == nil {
		t.Error("Ping of nobody succeeds")
	}
}

func TestIsVolatile(t *testing.T) {
	t.Parallel()
	r, _ := privateRig(t)
	for _, tt := range []struct {
		appendonly, save string
		want             bool
	}{{"yes", "", false}, {"no", "", true}, {"no", "3600 1", false}} {
		for name, value := range map[string]string{"appendonly": tt.appendonly, "save": tt.save} {
			if err := r.rdb.ConfigSet(t.Context(), name, value).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if got := queue.IsVolatile(t.Context(), r.rdb); got != tt.want {
			t.Errorf("IsVolatile with appendonly %q and save %q = %t, want %t", tt.appendonly, tt.save, got, tt.want)
		}
	}
	err := r.rdb.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">pw", "~*", "+@all", "-config").Err()
	if err != nil {
		t.Fatal(err)
	}
	blind := dial(t, strings.Replace(r.url, "redis://", "redis://blind:pw@", 1), queue.IngestProfile(time.Second))
	if !queue.IsVolatile(t.Context(), blind) {
		t.Error("a Redis that does not tell counts as persistent")
	}
}
