package faults

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// naiveTable is the record that two of the naive designs keep.
const naiveTable = `
CREATE TABLE naive (source text, event_id text, status text, sha256 bytea, PRIMARY KEY (source, event_id));`

// A naive server does the work in the request. It is as honest as its design
// allows: it answers 2xx only after its work, and 500 if that fails.
type naive struct {
	db     *pgxpool.Pool
	rdb    *redis.Client
	design func(n *naive, ctx context.Context, d naiveDelivery) (duplicate bool, err error)
}

type naiveDelivery struct {
	source, id string
	sum        [sha256.Size]byte
}

var naiveDesigns = map[string]func(*naive, context.Context, naiveDelivery) (bool, error){
	"naive 0": (*naive).lookThenInsert,
	"naive A": (*naive).lockRunUnlock,
	"naive B": (*naive).insertRunUpdate,
}

// naiveRecords reads what each design takes for the state of its events, in the
// columns of a record.
var naiveRecords = map[string]string{
	"naive 0": `SELECT source, event_id, 'completed', 1, 1, sha256, true FROM naive`,
	"naive A": `SELECT DISTINCT source, event_id, 'completed', 1, 1, sha256, true FROM effects`, // Redis forgets
	"naive B": `SELECT source, event_id, lower(status), 1, 1, sha256, true FROM naive`,
}

func (n *naive) work(ctx context.Context, d naiveDelivery) error {
	if err := nap(ctx, 20*time.Millisecond+time.Duration(hash(d.id)%120)*time.Millisecond); err != nil {
		return err
	}
	_, err := n.db.Exec(ctx, insertEffect, d.source, d.id, 1, d.sum[:])
	return err
}

// lookThenInsert is design 0.
func (n *naive) lookThenInsert(ctx context.Context, d naiveDelivery) (bool, error) {
	var there bool
	err := n.db.QueryRow(ctx, `SELECT EXISTS (SELECT FROM naive WHERE source = $1 AND event_id = $2)`, d.source, d.id).Scan(&there)
	if err != nil || there {
		return there, err
	}
	if err := n.work(ctx, d); err != nil {
		return false, err
	}
	_, err = n.db.Exec(ctx, `INSERT INTO naive VALUES ($1, $2, 'COMPLETED', $3) ON CONFLICT DO NOTHING`, d.source, d.id, d.sum[:])
	return false, err
}

// lockRunUnlock is design A.
func (n *naive) lockRunUnlock(ctx context.Context, d naiveDelivery) (bool, error) {
	lock := d.source + ":" + d.id
	err := n.rdb.SetArgs(ctx, lock, "locked", redis.SetArgs{Mode: "NX", TTL: 5 * time.Second}).Err()
	if errors.Is(err, redis.Nil) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer n.rdb.Del(ctx, lock)
	return false, n.work(ctx, d)
}

// insertRunUpdate is design B.
func (n *naive) insertRunUpdate(ctx context.Context, d naiveDelivery) (bool, error) {
	tag, err := n.db.Exec(ctx, `INSERT INTO naive VALUES ($1, $2, 'PROCESSING', $3) ON CONFLICT DO NOTHING`, d.source, d.id, d.sum[:])
	if err != nil || tag.RowsAffected() == 0 {
		return err == nil, err
	}
	if err := n.work(ctx, d); err != nil {
		return false, err
	}
	_, err = n.db.Exec(ctx, `UPDATE naive SET status = 'COMPLETED' WHERE source = $1 AND event_id = $2`, d.source, d.id)
	return false, err
}

func (n *naive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var fields struct {
		EventID string `json:"event_id"`
	}
	if err == nil {
		err = json.Unmarshal(body, &fields)
	}
	if err != nil {
		http.Error(w, `{"status":"error"}`, http.StatusBadRequest)
		return
	}
	d := naiveDelivery{r.PathValue("source"), fields.EventID, sha256.Sum256(body)}
	duplicate, err := n.design(n, context.WithoutCancel(r.Context()), d)
	switch {
	case err != nil:
		http.Error(w, `{"status":"error"}`, http.StatusInternalServerError)
	case duplicate:
		fmt.Fprint(w, `{"status":"duplicate"}`)
	default:
		fmt.Fprint(w, `{"status":"accepted"}`)
	}
}

func runNaive(ctx context.Context, name string, stderr io.Writer) error {
	design := naiveDesigns[name]
	if design == nil {
		return errors.New("unknown program " + name)
	}
	db, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	o, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		return err
	}
	rdb := redis.NewClient(o)
	defer rdb.Close()
	ln, err := net.Listen("tcp", os.Getenv("INGEST_ADDR"))
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks/{source}", &naive{db, rdb, design})
	fmt.Fprintln(stderr, `{"msg":"listening"}`)
	server := &http.Server{Handler: mux}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
