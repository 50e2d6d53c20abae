package bench

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"github.com/hookonce/hookonce/pkg/bench/load"
)

// cappedRate is what a capped ingest can take, about.
const (
	cappedRate = 7_000
	cappedMost = 8_000
)

// overload gives ingest less CPU than it needs, and three times the deliveries
// that it can take then.
func overload(ctx context.Context, r *rig) error {
	c, err := r.contestant(ctx, "queue", "GOMAXPROCS=1")
	if err != nil {
		return err
	}
	defer c.part.stop()
	share, most, err := r.capShare(ctx, c)
	if err != nil {
		return err
	}
	if err := r.clear(ctx); err != nil {
		return err
	}
	uncap := throttle(c.part.pid(), share)
	defer uncap()
	l := load.Load{
		Rate: 3 * most, Warm: r.seconds(2), For: r.seconds(60), Conns: openConns, Most: 4 * mostConns,
		Maker: smallEvents(),
	}
	watch := r.watch(ctx, c.part)
	before := residentMB(c.part.pid())
	res, err := r.fire(ctx, c, l)
	peak := watch()
	if err != nil {
		return err
	}
	t := r.report.table("Overload: three times what a capped ingest can take", latencyHead...)
	t.line(append([]string{"queue"}, latencies(res)...)...)
	t.notes = append(t.notes, c.notes...)
	t.notes = append(t.notes, fmt.Sprintf("Ingest runs %.0f %% of the time, on one processor; so capped it accepts %.0f/s from %d connections in a closed loop. "+
		"It answered 503 within %.0f ms (p99). Redis was %.0f %% full at most.", 100*share, most, manyConns, millis(res.Refusals.At(0.99)), 100*peak.redis))
	v := worst(atMost(most, cappedMost), atMost(res.Acks.At(0.99).Seconds(), 1), atMost(float64(res.Failed+res.Lost), 0),
		atMost(peak.resident-before, 64), atMost(peak.redis, 0.8))
	r.report.goal(fmt.Sprintf("**overload**: ingest capped at %.0f/s, 3× that offered for %.0f s", most, l.For.Seconds()),
		"accepted p99 < 1 s, the rest 503 with `Retry-After`, none lost, RSS ≤ +64 MB, Redis < 80 %",
		fmt.Sprintf("offered %.0f/s, accepted %.0f/s with p99 %.0f ms, 503 to %d, %d without a good answer, RSS +%.0f MB, Redis %.0f %%",
			res.Offered, res.Rate(), millis(res.Acks.At(0.99)), res.Refused, res.Failed+res.Lost, peak.resident-before, 100*peak.redis),
		sound(v, l, res))
	return nil
}

// capShare finds the share of time in which ingest takes about cappedRate.
func (r *rig) capShare(ctx context.Context, c *contestant) (share, most float64, err error) {
	share = 0.5
	for range 3 {
		if err := r.clear(ctx); err != nil {
			return 0, 0, err
		}
		uncap := throttle(c.part.pid(), share)
		res, err := r.fire(ctx, c.other(), load.Load{Conns: manyConns, Warm: r.seconds(1), For: r.seconds(3), Maker: smallEvents()})
		uncap()
		if err != nil {
			return 0, 0, err
		}
		most = res.Rate()
		if most > 0.85*cappedRate && most < cappedMost {
			break
		}
		share = min(max(share*cappedRate/most, 0.05), 1)
	}
	return share, most, nil
}

// throttle lets a process run for a share of each period only, as a limit of
// the system would. The function ends that.
func throttle(pid int, share float64) (end func()) {
	const period = 10 * time.Millisecond
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		on := time.Duration(share * float64(period))
		for {
			select {
			case <-stop:
				_ = syscall.Kill(pid, syscall.SIGCONT)
				return
			default:
			}
			_ = syscall.Kill(pid, syscall.SIGCONT)
			time.Sleep(on)
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			time.Sleep(period - on)
		}
	}()
	ended := false
	return func() {
		if !ended {
			ended = true
			close(stop)
			<-stopped
		}
	}
}

// A peak is the most that was seen.
type peak struct {
	resident float64 // MB
	redis    float64 // share of its limit
}

// watch looks at a part and at Redis until the function is called.
func (r *rig) watch(ctx context.Context, p *part) func() peak {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan peak)
	go func() {
		var most peak
		for ctx.Err() == nil {
			most.resident = max(most.resident, residentMB(p.pid()))
			if info, err := r.rdb.InfoMap(ctx, "memory").Result(); err == nil {
				var used, limit float64
				_, _ = fmt.Sscan(info["Memory"]["used_memory"], &used)
				_, _ = fmt.Sscan(info["Memory"]["maxmemory"], &limit)
				most.redis = max(most.redis, used/max(limit, 1))
			}
			_ = pause(ctx, 200*time.Millisecond)
		}
		result <- most
	}()
	return func() peak { cancel(); return <-result }
}
