// Package dashboard serves asynqmon, the web page of asynq, for people to watch
// the queues. It is read-only: what is done there is not kept in any record.
package dashboard

import (
	"net/http"

	"github.com/hibiken/asynqmon"
)

// Handler is the dashboard. Close ends its connections.
type Handler interface {
	http.Handler
	Close() error
}

// New returns the dashboard. dial returns a new client of go-redis at each
// call; the dashboard closes it.
func New(dial func() any) Handler {
	return asynqmon.New(asynqmon.Options{RootPath: "/", RedisConnOpt: dialer(dial), ReadOnly: true})
}

// dialer is an asynq.RedisConnOpt.
type dialer func() any

func (d dialer) MakeRedisClient() any { return d() }
