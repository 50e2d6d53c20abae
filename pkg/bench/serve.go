package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
)

// Serve is one of the parts that are not ours: floor, naive-a, naive-b. It
// serves until ctx ends.
func Serve(ctx context.Context, name string, getenv func(string) string, listening func(net.Addr)) error {
	h := floor()
	if name != "floor" {
		n, err := newNaive(ctx, getenv)
		if err != nil {
			return err
		}
		defer n.close()
		switch name {
		case "naive-a":
			h = n.handler(n.lockRunUnlock)
		case "naive-b":
			h = n.handler(n.insertRunUpdate)
		default:
			return fmt.Errorf("no part is called %q", name)
		}
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", getenv("INGEST_ADDR"))
	if err != nil {
		return err
	}
	listening(ln.Addr())
	server := &http.Server{Handler: h}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// naiveConnections is what served them best on two cores.
const naiveConnections = 32

func newNaive(ctx context.Context, getenv func(string) string) (*naive, error) {
	cfg, err := pgxpool.ParseConfig(getenv("DATABASE_URL"))
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = naiveConnections
	options, err := redis.ParseURL(getenv("REDIS_URL"))
	if err != nil {
		return nil, err
	}
	db, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return &naive{db, redis.NewClient(options)}, nil
}

func (n *naive) close() {
	n.db.Close()
	n.rdb.Close()
}
