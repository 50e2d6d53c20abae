package postgres_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/postgres"
)

// facts reads those of a store that is opened for it.
func facts(t *testing.T, url string) postgres.Facts {
	t.Helper()
	store, err := postgres.Open(t.Context(), url, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f, err := store.ReadFacts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f.ClockSkew.Abs() > time.Second {
		t.Errorf("clock skew %s to a server of this machine", f.ClockSkew)
	}
	f.ClockSkew = 0
	return f
}

func TestFacts(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	var want postgres.Facts // as other settings tell it
	err = s.db.QueryRow(t.Context(), `SELECT (SELECT setting FROM pg_settings WHERE name = 'server_version'),
		(SELECT setting::bool FROM pg_settings WHERE name = 'fsync'), (SELECT setting::bool FROM pg_settings WHERE name = 'full_page_writes'),
		(SELECT setting::int FROM pg_settings WHERE name = 'max_connections')`).
		Scan(&want.Version, &want.Fsync, &want.FullPageWrites, &want.MaxConnections)
	if err != nil {
		t.Fatal(err)
	}
	want.SynchronousCommit, want.Pool, want.Schema = "on", 4, latest
	got := facts(t, s.url)
	got.Reserved = 0 // some servers of a test let us in as another than the superuser
	if got != want {
		t.Errorf("ReadFacts = %+v, want %+v", got, want)
	}
}

func TestFactsOfSchema(t *testing.T) {
	t.Parallel()
	if f := facts(t, stacktest.Postgres(t)); f.Schema != 0 || f.SchemaHidden {
		t.Errorf("without migrations: %+v", f)
	}
	s := newStore(t)
	s.exec(t, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (98, true), (99, false)`)
	if f := facts(t, s.url); f.Schema != 98 || f.SchemaHidden {
		t.Errorf("with migration 98: %+v", f)
	}
	s.exec(t, `DROP TABLE goose_db_version`)
	if f := facts(t, s.url); f.Schema != 0 || !f.SchemaHidden {
		t.Errorf("with tables of somebody else's making: %+v", f)
	}
}

func TestFactsOfReadOnly(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(stacktest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("default_transaction_read_only", "on")
	u.RawQuery = q.Encode()
	if f := facts(t, u.String()); !f.ReadOnly || f.Standby {
		t.Errorf("read-only: %+v", f)
	}
}

func TestFactsOfAway(t *testing.T) {
	t.Parallel()
	store, err := postgres.Open(t.Context(), "postgres://127.0.0.1:1/none", 4)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.ReadFacts(t.Context()); err == nil {
		t.Error("ReadFacts of nobody succeeds")
	}
}

// TestFactsOfPooler goes through what does as PgBouncer does.
func TestFactsOfPooler(t *testing.T) {
	t.Parallel()
	for _, transactions := range []bool{false, true} {
		t.Run(fmt.Sprintf("by the transaction %t", transactions), func(t *testing.T) {
			t.Parallel()
			p := pooler(t, stacktest.Postgres(t), transactions)
			if f := facts(t, p); !f.Pooled || f.Shared != transactions || !f.Unlimited {
				t.Errorf("ReadFacts = %+v, want it pooled, unlimited, and shared: %t", f, transactions)
			}
		})
	}
}

// A pool holds sessions for clients: one each for good, or by the transaction.
// It keeps the settings of clients to itself, and makes up their process.
type pool struct {
	server       string
	startup      []byte
	transactions bool

	mu       sync.Mutex
	idle     []net.Conn // the last used is used next
	greeting []byte     // of a session, for all clients
}

func pooler(tb testing.TB, to string, transactions bool) string {
	tb.Helper()
	u, err := url.Parse(to)
	if err != nil {
		tb.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	fields := fmt.Sprintf("user\x00%s\x00database\x00%s\x00\x00", u.User.Username(), u.Path[1:])
	startup := binary.BigEndian.AppendUint32(nil, uint32(8+len(fields)))
	startup = append(binary.BigEndian.AppendUint32(startup, 3<<16), fields...)
	p := &pool{server: u.Host, startup: startup, transactions: transactions}
	tb.Cleanup(func() {
		ln.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, session := range p.idle {
			session.Close()
		}
	})
	go func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	u.Host = ln.Addr().String()
	return u.String()
}

// serve ends with its client, or at an error, as PgBouncer would not.
func (p *pool) serve(client net.Conn) {
	defer client.Close()
	if _, err := readMessage(client, 0); err != nil {
		return
	}
	session, err := p.take()
	if err != nil {
		return
	}
	free := p.transactions
	if free {
		p.put(session)
	}
	client.Write(p.welcome())
	for {
		message, err := readMessage(client, 1)
		if err != nil || message[0] == 'X' {
			break
		}
		if free {
			if session, err = p.take(); err != nil {
				return
			}
			free = false
		}
		session.Write(message)
		if message[0] != 'Q' && message[0] != 'S' { // not yet the end of a request
			continue
		}
		answer, err := readAnswer(session)
		if err != nil {
			break
		}
		client.Write(answer)
		if p.transactions && answer[len(answer)-1] == 'I' {
			p.put(session)
			free = true
		}
	}
	if !free {
		session.Close()
	}
}

// take returns an idle session, or starts one.
func (p *pool) take() (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		session := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return session, nil
	}
	session, err := net.Dial("tcp", p.server)
	if err != nil {
		return nil, err
	}
	session.Write(p.startup)
	greeting, err := readAnswer(session)
	if at := bytes.Index(greeting, []byte("K\x00\x00\x00\x0c")); at >= 0 { // the key of the session: process, secret
		binary.BigEndian.PutUint32(greeting[at+5:], 1)
	}
	p.greeting = greeting
	return session, err
}

func (p *pool) put(session net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, session)
}

func (p *pool) welcome() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.greeting
}

// readAnswer reads up to the message that says that the session is ready.
func readAnswer(r io.Reader) ([]byte, error) {
	var all []byte
	for {
		message, err := readMessage(r, 1)
		all = append(all, message...)
		if err != nil || message[0] == 'Z' {
			return all, err
		}
	}
}
