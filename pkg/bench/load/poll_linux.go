package load

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// A poller is the engine of Linux: one thread that sends and receives on all
// connections.
type poller struct {
	*run
	ctx  context.Context
	to   *syscall.SockaddrInet4
	epfd int
	fds  map[int]*conn

	idle []*conn     // of an open loop
	due  []time.Time // deliveries that wait for a connection
	free []*conn     // that have just got free
	away int         // deliveries on their way

	next, begins, ends time.Time // of an open loop
	rng                *rand.Rand
	sent               int           // in the measured time
	late               time.Duration // at most, though a connection was there
}

// poll fires the load, unless the address is not one of IPv4.
func (r *run) poll(ctx context.Context) (res Result, err error, ok bool) {
	addr, err := net.ResolveTCPAddr("tcp4", r.Addr)
	if err != nil {
		return res, nil, false
	}
	p := &poller{run: r, ctx: ctx, to: &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(addr.IP.To4())}, fds: map[int]*conn{}, rng: rand.New(rand.NewPCG(1, 2))}
	if p.epfd, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return res, err, true
	}
	defer func() { _ = syscall.Close(p.epfd) }()
	r.Most = max(r.Most, r.Conns)
	for range r.Conns {
		if err := p.add(); err != nil {
			return res, err, true
		}
	}
	res, err = p.fire()
	return res, err, true
}

// fire takes the times, while a thread sends.
func (p *poller) fire() (Result, error) {
	start := time.Now()
	p.next, p.begins = start, start.Add(p.Warm)
	span := p.For
	if span == 0 && p.Rate > 0 {
		span = time.Duration(float64(p.Count) / p.Rate * float64(time.Second))
	}
	p.ends = p.begins.Add(span)
	var began time.Time
	var cpu time.Duration
	if p.Warm == 0 {
		began, cpu = p.begin()
	}
	done := make(chan struct{})
	go func() { defer close(done); p.loop() }()
	if p.Warm > 0 {
		wait(p.ctx, done, p.Warm)
		began, cpu = p.begin()
	}
	switch {
	case p.Rate > 0:
		wait(p.ctx, done, time.Until(p.ends))
	case p.For > 0:
		wait(p.ctx, done, p.For)
	default:
		wait(p.ctx, done, time.Hour)
	}
	took, used := p.end(began, cpu)
	<-done
	if p.Rate > 0 {
		took = span
	}
	res := p.result(took, used)
	res.Late = p.late
	if p.Rate > 0 {
		res.Offered = float64(p.sent) / took.Seconds()
	}
	return res, p.ctx.Err()
}

// loop returns when nothing is to be sent and all is answered, or given up.
func (p *poller) loop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if p.Rate == 0 {
		p.free = append(p.free, p.all...)
	}
	events := make([]syscall.EpollEvent, 256)
	var giveUp time.Time
	for {
		freed := p.free
		p.free = nil
		for _, c := range freed {
			p.again(c)
		}
		sending := p.sending()
		if !sending && giveUp.IsZero() {
			giveUp = time.Now().Add(grace)
		}
		if p.ctx.Err() != nil || !sending && (p.away == 0 || time.Now().After(giveUp)) {
			break
		}
		n := p.wait(events, sending)
		for _, e := range events[:n] {
			if c := p.fds[int(e.Fd)]; c != nil {
				p.handle(c)
			}
		}
	}
	p.abandon()
}

// sending sends what is due, and reports whether more is to come.
func (p *poller) sending() bool {
	if p.Rate == 0 {
		return p.phase.Load() != ending && (p.Count == 0 || p.left.Load() > 0)
	}
	for now := time.Now(); !p.next.After(now) && p.next.Before(p.ends); {
		p.dispatch(p.next)
		p.next = p.next.Add(time.Duration(p.rng.ExpFloat64() / p.Rate * float64(time.Second)))
	}
	return p.next.Before(p.ends)
}

// wait waits for events, but no longer than until the next delivery is due.
func (p *poller) wait(events []syscall.EpollEvent, sending bool) int {
	d := 20 * time.Millisecond
	if len(p.free) > 0 {
		d = 0
	}
	if p.Rate > 0 && sending {
		d = min(max(time.Until(p.next), 0), d)
	}
	const epollPwait2 = 441 // on every architecture
	t := syscall.NsecToTimespec(int64(d))
	n, _, errno := syscall.Syscall6(epollPwait2, uintptr(p.epfd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(unsafe.Pointer(&t)), 0, 0)
	if errno == syscall.ENOSYS { // before Linux 5.11: late by up to a millisecond
		m, _ := syscall.EpollWait(p.epfd, events, int((d+time.Millisecond-1)/time.Millisecond))
		return max(m, 0)
	}
	if errno != 0 {
		return 0
	}
	return int(n)
}

// dispatch sends a delivery on a free connection, or leaves it to the next that
// gets free.
func (p *poller) dispatch(meant time.Time) {
	measured := !meant.Before(p.begins)
	if measured {
		p.sent++
	}
	if len(p.idle) == 0 && len(p.all) < p.Most {
		_ = p.add() // too many open files: it waits
	}
	n := len(p.idle)
	if n == 0 {
		p.due = append(p.due, meant)
		return
	}
	c := p.idle[n-1]
	p.idle = p.idle[:n-1]
	if measured {
		p.late = max(p.late, time.Since(meant))
	}
	p.post(c, meant)
}

// again is for a connection that got free.
func (p *poller) again(c *conn) {
	if p.Rate == 0 {
		if p.sending() {
			p.left.Add(-1)
			p.post(c, time.Now())
		}
		return
	}
	if len(p.due) == 0 {
		p.idle = append(p.idle, c)
		return
	}
	meant := p.due[0]
	p.due = p.due[1:]
	p.post(c, meant)
}

// post sends the next delivery on c.
func (p *poller) post(c *conn, meant time.Time) {
	c.meant = meant
	p.away++
	if c.broken {
		if err := p.connect(c); err != nil {
			p.settle(c, 0, nil, err)
			return
		}
	}
	c.out = c.request.next()
	p.handle(c)
}

// handle writes what is to be written, and reads what is there.
func (p *poller) handle(c *conn) {
	for len(c.out) > 0 {
		n, err := syscall.Write(c.fd, c.out)
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOTCONN) {
			return // it goes on with the next event
		}
		if err != nil {
			p.settle(c, 0, nil, err)
			return
		}
		c.out = c.out[n:]
	}
	for !c.broken {
		n, err := syscall.Read(c.fd, c.answer[c.n:])
		if errors.Is(err, syscall.EAGAIN) {
			return
		}
		if c.meant.IsZero() { // nobody waits for it: the server hung up
			c.hangUp()
			return
		}
		if err == nil && n <= 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			p.settle(c, 0, nil, err)
			return
		}
		c.n += n
		code, body, whole, err := parse(c.answer[:c.n])
		if err == nil && !whole && c.n == len(c.answer) {
			err = errAnswer
		}
		if whole || err != nil {
			p.settle(c, code, body, err)
			return
		}
	}
}

// settle counts an answer. The connection is free for the next.
func (p *poller) settle(c *conn, code int, body []byte, err error) {
	measured := p.phase.Load() == measuring
	if p.Rate > 0 {
		measured = !c.meant.Before(p.begins)
	}
	c.out = nil
	c.count(measured, code, body, err)
	c.meant = time.Time{}
	p.away--
	if err != nil { // a server that is gone must not keep this thread busy
		time.Sleep(time.Millisecond)
	}
	p.free = append(p.free, c)
}

// abandon counts what was not answered, and closes all.
func (p *poller) abandon() {
	for _, c := range p.all {
		if !c.meant.IsZero() {
			c.count(p.Rate > 0 && !c.meant.Before(p.begins) || p.Rate == 0 && p.phase.Load() != warming, 0, nil, io.ErrUnexpectedEOF)
		}
		c.closeFD()
	}
	for _, meant := range p.due {
		if !meant.Before(p.begins) {
			p.sent--
		}
	}
}
