package bench

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
	"github.com/redis/go-redis/v9"
)

// The naive designs do the work in the request, as the negative controls of
// pkg/faults do, and lose or double events as those show.

const naiveTable = `CREATE TABLE naive (source text, event_id text, status text, PRIMARY KEY (source, event_id))`

type naive struct {
	db  *pgxpool.Pool
	rdb *redis.Client
}

type design func(ctx context.Context, source string, ev event) (duplicate bool, err error)

func (n *naive) handler(d design) http.Handler {
	e := echo.New()
	e.POST("/webhooks/:source", func(c echo.Context) error { // the load generator
		ev, err := readEvent(c.Request())
		if err != nil {
			return c.JSON(http.StatusBadRequest, reply{"error", err.Error(), ""})
		}
		duplicate, err := d(context.WithoutCancel(c.Request().Context()), c.Param("source"), ev)
		switch {
		case err != nil:
			return c.JSON(http.StatusInternalServerError, reply{"error", "", ev.ID})
		case duplicate:
			return c.JSON(http.StatusOK, reply{"duplicate", "", ev.ID})
		}
		return c.JSON(http.StatusOK, reply{"accepted", "", ev.ID})
	})
	return e
}

// work is the effect: the same row that our handler writes.
func (n *naive) work(ctx context.Context, source string, ev event) error {
	_, err := n.db.Exec(ctx, `INSERT INTO payments (source, event_id, event_type, amount, attempt) VALUES ($1, $2, $3, $4, 1)`,
		source, ev.ID, ev.Type, ev.Data.Object.Amount)
	return err
}

// lockRunUnlock is design A.
func (n *naive) lockRunUnlock(ctx context.Context, source string, ev event) (bool, error) {
	lock := source + ":" + ev.ID
	err := n.rdb.SetArgs(ctx, lock, "locked", redis.SetArgs{Mode: "NX", TTL: 5 * time.Second}).Err()
	if errors.Is(err, redis.Nil) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer n.rdb.Del(ctx, lock)
	return false, n.work(ctx, source, ev)
}

// insertRunUpdate is design B.
func (n *naive) insertRunUpdate(ctx context.Context, source string, ev event) (bool, error) {
	tag, err := n.db.Exec(ctx, `INSERT INTO naive VALUES ($1, $2, 'PROCESSING') ON CONFLICT DO NOTHING`, source, ev.ID)
	if err != nil || tag.RowsAffected() == 0 {
		return err == nil, err
	}
	if err := n.work(ctx, source, ev); err != nil {
		return false, err
	}
	_, err = n.db.Exec(ctx, `UPDATE naive SET status = 'COMPLETED' WHERE source = $1 AND event_id = $2`, source, ev.ID)
	return false, err
}
