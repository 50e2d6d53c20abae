package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// A Limiter counts the deliveries of all processes. It returns how long the
// sender should wait, or 0. An error means that it could not be found out.
type Limiter interface {
	Take(ctx context.Context, source string, count int, per time.Duration) (wait time.Duration, err error)
}

var errAddress = errors.New("address is not allowed")

// A rateError means that a source has used up its rate.
type rateError struct {
	wait  time.Duration
	final bool // the provider never retries after a 4xx
}

func (e *rateError) Error() string { return "over the rate of the source for " + e.wait.String() }

// seconds is for the header Retry-After.
func (e *rateError) seconds() string {
	return strconv.FormatInt(int64(max(1, (e.wait+time.Second-1)/time.Second)), 10)
}

// judgeEdge is the part of judge for what this file refuses; code is 0 for
// anything else.
func judgeEdge(err error) (code int, message, reason string) {
	rate, limited := errors.AsType[*rateError](err)
	switch {
	case errors.Is(err, errAddress):
		return http.StatusForbidden, "Not allowed from this address.", "address"
	case errors.Is(err, errNoRoom):
		return http.StatusServiceUnavailable, "Too busy to read the body: send it again.", "no_room"
	case limited && rate.final:
		return http.StatusServiceUnavailable, "Too many deliveries: send it again later.", "rate_limited"
	case limited:
		return http.StatusTooManyRequests, "Too many deliveries: send it again later.", "rate_limited"
	}
	return 0, "", ""
}

// admit refuses a request by its address, before a byte of its body is read.
func (d *delivery) admit(r *http.Request) error {
	if len(d.src.AllowIPs) == 0 {
		return nil
	}
	if client := d.Proxies.client(r); !contains(d.src.AllowIPs, client) {
		return fmt.Errorf("%w: %s", errAddress, client)
	}
	return nil
}

// keepRate counts the delivery, once it is known to be the provider's: nobody
// else can use up the source's rate.
func (d *delivery) keepRate(ctx context.Context) error {
	limit := d.src.RateLimit
	if limit.Count == 0 || d.Limiter == nil {
		return nil
	}
	d.report.NoRateLimit = true
	if d.Away() {
		return nil
	}
	wait, err := d.Limiter.Take(context.WithoutCancel(ctx), d.src.Name, limit.Count, limit.Per)
	if err != nil {
		d.Log.DebugContext(ctx, "rate limit not kept: redis did not say", "source", d.src.Name, "err", err)
		return nil
	}
	d.report.NoRateLimit = false
	if wait > 0 {
		return &rateError{wait, d.src.FinalClientErrors}
	}
	return nil
}
