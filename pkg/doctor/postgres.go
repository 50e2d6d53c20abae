package doctor

import (
	"fmt"
	"time"
)

// Postgres is what a database tells of itself, and of the way to it.
type Postgres struct {
	Version           string
	Fsync             bool
	FullPageWrites    bool
	SynchronousCommit string // as our sessions have it
	Standby           bool   // in recovery
	ReadOnly          bool   // our transactions are

	MaxConnections int
	Reserved       int // of those, not for us
	Pool           int // connections that one program may open

	Schema       int64 // number of the latest migration that was applied, or 0
	SchemaHidden bool  // our tables are there, and which migrations they had cannot be read

	Pooled    bool          // something between us and Postgres holds the sessions
	Shared    bool          // and it gives one of our connections now this session, now that
	Unlimited bool          // and our settings of a session did not get through
	ClockSkew time.Duration // how far its clock is ahead of ours
}

func (p Postgres) check(schema int64) []Finding {
	all := []Finding{{Level: OK, Text: "version " + p.Version}}
	all = append(all, p.writes()...)
	all = append(all, p.durability()...)
	all = append(all, p.schema(schema))
	all = append(all, p.connections()...)
	all = append(all, p.pooler()...)
	all = append(all, clock("postgres", p.ClockSkew))
	for i := range all {
		all[i].Subject = "postgres"
	}
	return all
}

// writes refuses nothing: while a standby takes over, it is what it was.
func (p Postgres) writes() []Finding {
	switch {
	case p.Standby:
		return []Finding{{Level: Error, Text: "it is a standby, which takes no writes", Fix: "point DATABASE_URL at the primary, for example with several hosts and target_session_attrs=read-write"}}
	case p.ReadOnly:
		return []Finding{{Level: Error, Text: "our transactions are read-only", Fix: "set default_transaction_read_only to off, for this role and database too"}}
	}
	return nil
}

func (p Postgres) durability() []Finding {
	var all []Finding
	if !p.Fsync {
		all = append(all, Finding{Level: Error, Text: "fsync is off: a crash of the machine can destroy the database", Fix: "set fsync to on, unless this is a test"})
	}
	if !p.FullPageWrites {
		all = append(all, Finding{Level: Error, Text: "full_page_writes is off: a crash of the machine can leave half a page", Fix: "set full_page_writes to on, unless the storage never writes half a page (ZFS, Aurora)"})
	}
	if p.SynchronousCommit == "off" {
		all = append(all, Finding{Level: Error, Text: "synchronous_commit is off in our sessions: a crash can take what was committed, and acknowledged", Fix: "set synchronous_commit to on, for this role and database too"})
	}
	if all == nil {
		all = []Finding{{Level: OK, Text: "a commit is on disk: fsync, full_page_writes and synchronous_commit are on"}}
	}
	return all
}

func (p Postgres) schema(known int64) Finding {
	const fix = "run hookonce migrate up"
	switch {
	case p.SchemaHidden:
		return Finding{Level: Note, Text: "which migrations were applied cannot be read", Fix: "grant SELECT on goose_db_version to this role"}
	case p.Schema == 0:
		return Finding{Level: Error, Text: "our tables are not there", Fix: fix, Refuses: true}
	case p.Schema < known:
		return Finding{Level: Error, Text: fmt.Sprintf("its schema is at %d, and this build needs %d", p.Schema, known), Fix: fix, Refuses: true}
	case p.Schema > known:
		return Finding{Level: Warning, Text: fmt.Sprintf("its schema is at %d, and this build knows %d: migrations only expand, so it works, until a release drops what this build needs", p.Schema, known), Fix: "finish the update"}
	}
	return Finding{Level: OK, Text: fmt.Sprintf("its schema is at %d, as this build needs", p.Schema)}
}

// connections looks past a pooler: that one has limits of its own.
func (p Postgres) connections() []Finding {
	free := p.MaxConnections - p.Reserved
	switch {
	case p.Pooled:
		return nil
	case p.Pool > free:
		return []Finding{{Level: Error, Text: fmt.Sprintf("one program opens up to %d connections, and Postgres has %d for all of us", p.Pool, free),
			Fix: "raise max_connections, or lower the concurrency of the sources", Refuses: true}}
	}
	return []Finding{{Level: OK, Text: fmt.Sprintf("a pool of %d fits %d connections; %d such programs do", p.Pool, free, free/max(p.Pool, 1))}}
}

func (p Postgres) pooler() []Finding {
	const session = "point DATABASE_URL at Postgres itself, or at a pool of sessions (pool_mode=session)"
	var all []Finding
	switch {
	case p.Shared:
		all = append(all, Finding{Level: Warning, Text: "a pooler in transaction mode is between us and Postgres: prepared statements fail at random, and the limits of a session are not kept",
			Fix: session + "; or add default_query_exec_mode=exec to DATABASE_URL, and set synchronous_commit, statement_timeout, lock_timeout and idle_in_transaction_session_timeout with ALTER ROLE"})
	case p.Pooled:
		all = append(all, Finding{Level: Note, Text: "a pooler of sessions is between us and Postgres", Fix: "see that it has a session for each connection of each program"})
	}
	if p.Unlimited && !p.Shared {
		all = append(all, Finding{Level: Warning, Text: "our settings of a session (statement_timeout, lock_timeout, …) do not reach Postgres, so what hangs is not cut off",
			Fix: session + " without ignore_startup_parameters; or set them with ALTER ROLE"})
	}
	return all
}
