package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Redis is what one Redis tells of itself. What it does not tell is "", or -1
// if it is a number, and is never held against it.
type Redis struct {
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

func (r Redis) subject() string { return strings.TrimSpace("redis " + r.Address) }

func (r Redis) check(f Facts) []Finding {
	all := append(r.version(), r.role()...)
	all = append(all, r.eviction(f.AllowEviction)...)
	all = append(all, r.persistence(f)...)
	all = append(all, r.memory()...)
	if r.ConfigHidden {
		all = append(all, Finding{Level: Note, Subject: r.subject(),
			Text: "it hides its CONFIG, so what INFO does not tell is not checked",
			Fix:  "look at your provider's settings: noeviction, and appendonly with appendfsync everysec or always"})
	}
	all = append(all, clock(r.subject(), r.ClockSkew))
	for i := range all {
		all[i].Subject = r.subject()
	}
	return all
}

// The oldest version that asynq and our scripts work with.
const oldestMajor, oldestMinor = 6, 2

func (r Redis) version() []Finding {
	major, minor, ok := parseVersion(r.Version)
	switch {
	case !ok:
		return []Finding{{Level: Note, Text: "it does not tell its version", Fix: "see that it is 6.2 or newer"}}
	case major < oldestMajor || major == oldestMajor && minor < oldestMinor:
		return []Finding{{Level: Error, Text: "version " + r.Version + " is too old", Fix: "use Redis 6.2 or newer, or Valkey", Refuses: true}}
	}
	return []Finding{{Level: OK, Text: "version " + r.Version}}
}

func parseVersion(s string) (major, minor int, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	return major, minor, errMajor == nil && errMinor == nil
}

func (r Redis) role() []Finding {
	switch {
	case r.Mode == "sentinel":
		return []Finding{{Level: Error, Text: "this is a sentinel, which keeps no queue", Fix: "set REDIS_URL to redis-sentinel://host:port/0?master_name=NAME"}}
	case r.Role == "slave":
		return []Finding{{Level: Error, Text: "it is a replica, which takes no writes", Fix: "set REDIS_URL to the master, or use redis-sentinel:// so that it is found", Refuses: true}}
	case r.Mode == "cluster" && !r.Clustered:
		return []Finding{{Level: Warning, Text: "it is a node of a cluster, and REDIS_URL names it as a server of its own: other nodes' queues are out of reach", Fix: "use redis-cluster://"}}
	case r.Replicas > 0:
		return []Finding{{Level: Note, Text: fmt.Sprintf("%d replicas follow it, a little late: a failover can lose the last acknowledged events", r.Replicas), Fix: "INGEST_ACK=inbox loses none"}}
	}
	return nil
}

func (r Redis) eviction(allowed bool) []Finding {
	switch {
	case r.Policy == "noeviction":
		return []Finding{{Level: OK, Text: "maxmemory-policy is noeviction"}}
	case r.Policy == "":
		return []Finding{{Level: Note, Text: "it does not tell its maxmemory-policy", Fix: "see that it is noeviction: an evicted task is a lost event"}}
	case allowed:
		return []Finding{{Level: Warning, Text: "maxmemory-policy is " + r.Policy + ", which REDIS_ALLOW_EVICTION allows: an evicted task is a lost event", Fix: "set maxmemory-policy to noeviction"}}
	}
	return []Finding{{Level: Error, Text: "maxmemory-policy is " + r.Policy + ": an evicted task is a lost event",
		Fix: "set maxmemory-policy to noeviction (REDIS_ALLOW_EVICTION=true starts nevertheless)", Refuses: true}}
}

// persistence says what a restart of Redis loses. Where Postgres holds events
// first, that is a matter of speed only.
func (r Redis) persistence(f Facts) []Finding {
	found := r.kept(f.Persistent)
	if found.Level == Warning && f.Inbox {
		found.Level, found.Fix = Note, ""
		found.Text += "; Postgres holds events first, so they are sent again"
	}
	all := []Finding{found}
	if r.AOF == "yes" && r.NoFsyncOnRewrite == "yes" {
		all = append(all, Finding{Level: Note, Text: "no-appendfsync-on-rewrite is yes: while the AOF is rewritten, a power loss can take more than appendfsync says", Fix: "set no-appendfsync-on-rewrite to no"})
	}
	return all
}

func (r Redis) kept(promised bool) Finding {
	const restart = ": a restart loses all that is queued, acknowledged or not"
	const fix = "turn on appendonly, or set INGEST_ACK=inbox"
	switch {
	case r.AOF == "yes":
		return r.fsynced()
	case promised:
		return Finding{Level: Note, Text: "it does not show that it persists, and REDIS_PERSISTENT says so"}
	case r.AOF == "" || r.Snapshots == "":
		return Finding{Level: Warning, Text: "it does not show that it persists, so it counts as keeping nothing" + restart, Fix: fix + "; or say REDIS_PERSISTENT=true if you know that it persists"}
	case r.Snapshots == "yes":
		return Finding{Level: Warning, Text: "it keeps snapshots only: a restart loses what was acknowledged since the last one", Fix: fix}
	}
	return Finding{Level: Warning, Text: "it keeps nothing" + restart, Fix: fix}
}

func (r Redis) fsynced() Finding {
	switch r.Fsync {
	case "always":
		return Finding{Level: OK, Text: "appendfsync is always: what is acknowledged is on disk"}
	case "everysec":
		return Finding{Level: Note, Text: "appendfsync is everysec: a power loss can take up to 1 s of acknowledged events", Fix: "appendfsync always or INGEST_ACK=inbox lose none"}
	case "":
		return Finding{Level: Note, Text: "it has an AOF and does not tell appendfsync: a power loss can take a second of acknowledged events, or more"}
	}
	return Finding{Level: Warning, Text: "appendfsync is " + r.Fsync + ": a power loss can take half a minute of acknowledged events", Fix: "set appendfsync to everysec or always"}
}

// headroom is the share of memory beyond which it should be enlarged: from
// 80 % on, nothing more is put in.
const headroom = 0.6

func (r Redis) memory() []Finding {
	share := float64(r.UsedMemory) / float64(r.MaxMemory)
	switch {
	case r.MaxMemory < 0:
		return nil
	case r.MaxMemory == 0:
		return []Finding{{Level: Warning, Text: "maxmemory is 0: a long queue fills the machine, which then kills Redis, and ingest cannot stop at 80 % of nothing", Fix: "set maxmemory to about half of the machine's memory"}}
	case share > headroom:
		return []Finding{{Level: Warning, Text: fmt.Sprintf("%.0f %% of maxmemory is used; at 80 %% ingest puts nothing more in", 100*share), Fix: "raise maxmemory, or run more workers"}}
	}
	return []Finding{{Level: OK, Text: fmt.Sprintf("%.0f %% of maxmemory is used", 100*share)}}
}

func instances(nodes []Redis) []Finding {
	if !nodes[0].Clustered {
		return nil
	}
	return []Finding{{Level: Note, Subject: "redis", Text: fmt.Sprintf("a cluster of %d masters: each source's queue is on one of them, so one source grows no faster than one node", len(nodes))}}
}

// A Queue is what asynq holds of one source.
type Queue struct {
	Source    string
	Archived  int64
	Leaseless int64 // tasks that are said to be worked on, by nobody
}

// manyArchived is near the 10,000 at which asynq forgets the oldest.
const manyArchived = 8000

func (q Queue) check() []Finding {
	var all []Finding
	if q.Archived > manyArchived {
		all = append(all, Finding{Level: Note, Subject: "queue " + q.Source,
			Text: fmt.Sprintf("%d tasks are archived; asynq forgets the oldest beyond 10,000, and Postgres keeps all", q.Archived),
			Fix:  "see hookonce dead list"})
	}
	if q.Leaseless > 0 {
		all = append(all, Finding{Level: Note, Subject: "queue " + q.Source,
			Text: fmt.Sprintf("%d tasks are active and have no lease: their worker was lost as it took them", q.Leaseless),
			Fix:  "none, if a worker runs: its sweeper sends for them"})
	}
	return all
}
