// Package postgres is the store of record: which events there are, how each
// stands, and the transaction in which a handler's effect and the event's
// completion become true together. All of the program's SQL is here.
//
// Times are Postgres' own (clock_timestamp, since now() stands still within a
// transaction). Statements run in READ COMMITTED, which the claim relies on: a
// claim that waited for another sees what that one committed.
package postgres

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A Store keeps events in one database. It may be used from many goroutines.
type Store struct {
	db   *pgxpool.Pool
	same func(source string, a, b []byte) bool
}

// CompareBy says by what two bodies of one event with different hashes are one
// all the same: then none is kept as another body. It must be called before the
// store is used.
func (s *Store) CompareBy(same func(source string, a, b []byte) bool) { s.same = same }

// Limits of one session. They push out a statement, a lock or a client that
// hangs; a handler's transaction has its own, by its source's timeout.
const (
	statementTimeout = 5 * time.Second
	lockTimeout      = 200 * time.Millisecond // a claim that must wait longer comes back instead
	inboxLock        = 100 * time.Millisecond // a provider waits
	settleTimeout    = 5 * time.Second        // an outcome waits for the backend of a lost connection
	handlerLock      = 5 * time.Second
	checkInterval    = time.Second // notice within this time that the client is gone
)

// Open prepares a store for the database at url, with at most conns
// connections, and does not connect yet: [Store.Ping] does. The settings of the
// session are ours and cannot be changed by the url.
func Open(ctx context.Context, url string, conns int) (*Store, error) {
	return open(ctx, url, conns, lockTimeout, nil)
}

// OpenInbox is [Open] for ingest, which has less time.
func OpenInbox(ctx context.Context, url string, conns int) (*Store, error) {
	return open(ctx, url, conns, inboxLock, keyByKey)
}

// keyByKey makes the inbox look for each key by the index. A plan is kept for the
// life of a connection, and one made while the table was small would compare
// each batch with all rows.
var keyByKey = map[string]string{"enable_hashjoin": "off", "enable_mergejoin": "off"}

func open(ctx context.Context, url string, conns int, lock time.Duration, more map[string]string) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %s", reason(err))
	}
	cfg.MaxConns = int32(conns)
	cfg.ConnConfig.ConnectTimeout = 3 * time.Second
	watch := cfg.ConnConfig.BuildContextWatcherHandler
	cfg.ConnConfig.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return interruptWatch{watch(c), c}
	}
	p := cfg.ConnConfig.RuntimeParams
	p["application_name"] = "hookonce"
	p["default_transaction_isolation"] = "read committed"
	p["synchronous_commit"] = "on"
	p["statement_timeout"] = millis(statementTimeout)
	p["lock_timeout"] = millis(lock)
	p["idle_in_transaction_session_timeout"] = millis(statementTimeout)
	p["client_connection_check_interval"] = millis(checkInterval)
	// For the same reason, and since disks do not turn any more: with the default
	// of 4 a plan made while the table has a few pages reads all of it for one key.
	p["random_page_cost"] = "1.1"
	maps.Copy(p, more)
	db, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	return &Store{db: db}, nil
}

// reason is what err, of a URL that cannot be parsed, says after the URL. pgx
// masks a password in it only where it recognizes one.
func reason(err error) string {
	text := err.Error()
	return strings.TrimPrefix(text[strings.LastIndex(text, "`")+1:], ": ")
}

// Close waits for connections in use and closes all.
func (s *Store) Close() { s.db.Close() }

const selectSchema = `SELECT to_regclass('received_events') IS NOT NULL`

// Ping reports whether the database answers and holds our tables.
func (s *Store) Ping(ctx context.Context) error {
	var there bool
	if err := s.db.QueryRow(ctx, selectSchema).Scan(&there); err != nil {
		return unavailable(fmt.Errorf("ping database: %w", err))
	}
	if !there {
		return fmt.Errorf("database has no table received_events: run hookonce migrate up")
	}
	return nil
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
