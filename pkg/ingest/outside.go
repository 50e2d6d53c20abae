package ingest

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

// An outsider is a connection that was told to come back, and waits outside of
// the server until a request of it is let in. While it is idle it takes a
// goroutine with a small stack and no buffer.
type outsider struct {
	listener *doorListener
	conn     net.Conn
	raw      syscall.RawConn
	renewed  time.Time // when its deadlines were set

	// What ended the waiting.
	ahead   []byte // a request for the server, or its beginning; nil: the connection is over
	counted bool   // the door counts it
}

// outsideFor is how long an outsider may be idle, at most.
const outsideFor = 2 * time.Minute

// newOutsider returns nil if the connection cannot wait.
func newOutsider(l *doorListener, conn net.Conn) *outsider {
	c, ok := conn.(syscall.Conn)
	if !ok || readNow == nil {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	return &outsider{listener: l, conn: conn, raw: raw}
}

// stay answers the request that was read, and waits until another is let in or
// the connection ends.
func (o *outsider) stay() {
	if !o.listener.remember(o) {
		o.conn.Close()
		return
	}
	err := o.answer()
	if err == nil {
		err = o.raw.Read(o.ready)
	}
	o.listener.forget(o)
	if err != nil || o.ahead == nil {
		o.conn.Close()
		return
	}
	c := &doorConn{Conn: o.conn, listener: o.listener, ahead: o.ahead, alone: o.counted}
	c.counted.Store(o.counted)
	o.listener.arrive(arrival{conn: c})
}

// buffers are used from when something is there to read until it is answered.
var buffers = sync.Pool{New: func() any { return new([4 << 10]byte) }}

// ready is called when something may be there to read. It reports true when the
// waiting is over.
//
// It does not read until nothing is left, which would take a call for each
// request: whatever comes after it has read wakes it again. Only an end that
// came with a request is not seen before the deadline.
func (o *outsider) ready(fd uintptr) bool {
	buf := buffers.Get().(*[4 << 10]byte)
	defer buffers.Put(buf)
	n, err := readNow(fd, buf[:])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return false
	case err != nil || n == 0:
		return true
	}
	read := bytes.TrimLeft(buf[:n], "\r\n") // an old client ends a POST so (RFC 9112, section 2.2)
	if len(read) == 0 {
		return false
	}
	whole := n < len(buf) && isWhole(read)
	if whole && !o.listener.door.expect() {
		return o.answer() != nil
	}
	o.ahead, o.counted = bytes.Clone(read), whole
	return true
}

// answer says to come back.
func (o *outsider) answer() error {
	if now := time.Now(); now.Sub(o.renewed) > outsideFor/2 {
		if err := o.conn.SetDeadline(now.Add(outsideFor)); err != nil {
			return err
		}
		o.renewed = now
	}
	if _, err := o.conn.Write(busyResponse); err != nil {
		return err
	}
	o.listener.door.turnedAway()
	return nil
}
