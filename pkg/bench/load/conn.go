package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// A conn is a connection and what was counted on it. At any time one goroutine
// has it.
type conn struct {
	run     *run
	net     atomic.Pointer[wire] // replaced when it breaks
	broken  bool
	request *request
	answer  []byte // n bytes of it have come
	n       int
	meant   time.Time // when the delivery on its way was to be sent

	// Of the engine of Linux: the socket, or -1, and what is still to be written.
	fd  int
	out []byte

	warm, counts      Counts
	accepted, refused Latencies
}

type wire struct{ net.Conn }

func newConn(r *run, nc net.Conn, path string) *conn {
	c := &conn{run: r, request: r.Maker.request(path), answer: make([]byte, 8<<10), fd: -1}
	if nc != nil {
		c.net.Store(&wire{nc})
	}
	return c
}

// alive dials again if the connection broke.
func (c *conn) alive(ctx context.Context) bool {
	if !c.broken {
		return true
	}
	nc, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", c.run.Addr)
	if err != nil {
		time.Sleep(10 * time.Millisecond)
		return ctx.Err() == nil && c.run.phase.Load() != ending
	}
	c.net.Store(&wire{nc})
	c.broken = false
	return true
}

// send writes the next delivery. A failure shows in receive.
func (c *conn) send(meant time.Time) {
	c.meant = meant
	if c.broken {
		return
	}
	_, _ = c.net.Load().Write(c.request.next())
}

// receive reads the answer and counts it.
func (c *conn) receive(measured bool) {
	code, body, err := c.read()
	c.count(measured, code, body, err)
}

// count counts the answer that has come, or the error that came instead, which
// breaks the connection.
func (c *conn) count(measured bool, code int, body []byte, err error) {
	took := time.Since(c.meant)
	counts := &c.warm
	if measured {
		counts = &c.counts
	}
	answer := c.answer[:c.n]
	c.n = 0
	switch {
	case err != nil:
		counts.Lost++
		c.hangUp()
		return
	case code/100 == 2:
		if bytes.Contains(body, duplicate) {
			counts.Duplicate++
		} else {
			counts.New++
		}
		if measured {
			c.accepted = append(c.accepted, took)
		}
	case code == 503 && bytes.Contains(answer, retryAfter):
		counts.Refused++
		if measured {
			c.refused = append(c.refused, took)
		}
	default:
		counts.Failed++
		c.run.failed(string(answer))
	}
	if bytes.Contains(answer, closing) {
		c.hangUp()
	}
}

// hangUp closes the connection, of either engine.
func (c *conn) hangUp() {
	c.broken = true
	c.closeFD()
	if nc := c.net.Load(); nc != nil {
		nc.Close()
	}
}

var (
	duplicate     = []byte(`"duplicate"`)
	retryAfter    = []byte("\r\nRetry-After: ")
	closing       = []byte("\r\nConnection: close\r\n")
	contentLength = []byte("\r\nContent-Length: ")
	endOfHead     = []byte("\r\n\r\n")

	errAnswer = errors.New("answer is not understood")
)

// read takes in one answer.
func (c *conn) read() (code int, body []byte, err error) {
	if c.broken {
		return 0, nil, io.ErrClosedPipe
	}
	for {
		m, err := c.net.Load().Read(c.answer[c.n:])
		if err != nil {
			return 0, nil, err
		}
		c.n += m
		code, body, whole, err := parse(c.answer[:c.n])
		if whole || err != nil {
			return code, body, err
		}
		if c.n == len(c.answer) {
			return code, body, errAnswer
		}
	}
}

// parse understands one answer, whose body has a length. It is not whole if
// more is to come.
func parse(answer []byte) (code int, body []byte, whole bool, err error) {
	end := bytes.Index(answer, endOfHead)
	if end < 0 {
		return 0, nil, false, nil
	}
	if code, err = strconv.Atoi(string(answer[9:12])); err != nil {
		return 0, nil, false, errAnswer
	}
	body = answer[end+len(endOfHead):]
	if code == 204 {
		return code, nil, true, nil
	}
	length, err := lengthIn(answer[:end+2])
	return code, body, err == nil && len(body) >= length, err
}

func lengthIn(head []byte) (int, error) {
	_, rest, found := bytes.Cut(head, contentLength)
	if !found {
		return 0, errAnswer
	}
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return strconv.Atoi(string(value))
}
