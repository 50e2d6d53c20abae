package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Facts are what a database tells of itself, and of the way to it.
type Facts struct {
	Version           string
	Fsync             bool
	FullPageWrites    bool
	SynchronousCommit string // as our sessions have it
	Standby           bool   // in recovery
	ReadOnly          bool   // our transactions are

	MaxConnections int
	Reserved       int // of those, not for us
	Pool           int // connections that this store may open

	Schema       int64 // number of the latest migration that was applied, or 0
	SchemaHidden bool  // our tables are there, and which migrations they had cannot be read

	Pooled    bool          // something between us and Postgres holds the sessions
	Shared    bool          // and it gives one of our connections now this session, now that
	Unlimited bool          // and our settings of a session did not get through
	ClockSkew time.Duration // how far its clock is ahead of ours
}

// A role may be kept from the list of migrations, which is then hidden. The
// startup message sets our settings, so a session without them is not one that
// we opened.
const selectFacts = `
SELECT current_setting('server_version'),
       current_setting('fsync') = 'on',
       current_setting('full_page_writes') = 'on',
       current_setting('synchronous_commit'),
       pg_is_in_recovery(),
       current_setting('transaction_read_only') = 'on',
       current_setting('max_connections')::int,
       CASE WHEN current_setting('is_superuser') = 'on' THEN 0
            ELSE current_setting('superuser_reserved_connections')::int
               + coalesce(current_setting('reserved_connections', true)::int, 0)
       END,
       to_regclass('received_events') IS NOT NULL,
       coalesce(has_table_privilege(to_regclass('goose_db_version'), 'SELECT'), false),
       pg_backend_pid(),
       (SELECT setting FROM pg_settings WHERE name = 'statement_timeout')`

const selectVersion = `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`

// plainly keeps questions about a session from needing one: a prepared
// statement would be lost where sessions are shared.
const plainly = pgx.QueryExecModeExec

// ReadFacts asks the database about itself.
func (s *Store) ReadFacts(ctx context.Context) (Facts, error) {
	f, err := s.readFacts(ctx)
	if err != nil {
		return Facts{}, unavailable(fmt.Errorf("ask database about itself: %w", err))
	}
	return f, nil
}

func (s *Store) readFacts(ctx context.Context) (Facts, error) {
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return Facts{}, err
	}
	defer conn.Release()
	f := Facts{Pool: int(s.db.Config().MaxConns)}
	var tables, readable bool
	var pid uint32
	var timeout string
	err = conn.QueryRow(ctx, selectFacts, plainly).Scan(&f.Version, &f.Fsync, &f.FullPageWrites, &f.SynchronousCommit, &f.Standby, &f.ReadOnly,
		&f.MaxConnections, &f.Reserved, &tables, &readable, &pid, &timeout)
	if err != nil {
		return Facts{}, err
	}
	f.Unlimited = timeout != millis(statementTimeout)
	f.SchemaHidden = tables && !readable
	if readable {
		if err := conn.QueryRow(ctx, selectVersion, plainly).Scan(&f.Schema); err != nil {
			return Facts{}, err
		}
	}
	if f.ClockSkew, err = clockSkew(ctx, conn); err != nil {
		return Facts{}, err
	}
	// Postgres tells its process at the start of a session; a pooler makes up
	// a number of its own.
	if f.Pooled = pid != conn.Conn().PgConn().PID(); f.Pooled && f.Pool > 1 {
		f.Shared, err = s.shares(ctx, conn)
	}
	return f, err
}

const selectSession = `SELECT pg_backend_pid()`

// shares reports whether conn's statements run in another session while a
// transaction of ours occupies one: only a pooler that hands out sessions by
// the transaction, or the statement, does that.
func (s *Store) shares(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
	var before, occupied, after int
	if err := conn.QueryRow(ctx, selectSession, plainly).Scan(&before); err != nil {
		return false, err
	}
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx)
	if err := tx.QueryRow(ctx, selectSession, plainly).Scan(&occupied); err != nil {
		return false, err
	}
	if occupied == before {
		return true, nil
	}
	err = conn.QueryRow(ctx, selectSession, plainly).Scan(&after)
	return before != after, err
}

const selectClock = `SELECT clock_timestamp()`

// clockSkew is how far the database's clock is ahead of ours: of some answers,
// the one that came soonest tells best.
func clockSkew(ctx context.Context, conn *pgxpool.Conn) (time.Duration, error) {
	var skew time.Duration
	soonest := time.Duration(-1)
	for range 3 {
		var theirs time.Time
		asked := time.Now()
		if err := conn.QueryRow(ctx, selectClock, plainly).Scan(&theirs); err != nil {
			return 0, err
		}
		if took := time.Since(asked); soonest < 0 || took < soonest {
			soonest, skew = took, theirs.Sub(asked.Add(took/2))
		}
	}
	return skew, nil
}
