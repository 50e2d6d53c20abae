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
	answer  []byte
	meant   time.Time // when the delivery on its way was to be sent

	warm, counts      Counts
	accepted, refused Latencies
}

type wire struct{ net.Conn }

func newConn(r *run, nc net.Conn, path string) *conn {
	c := &conn{run: r, request: r.Maker.request(path), answer: make([]byte, 8<<10)}
	c.net.Store(&wire{nc})
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
	n, code, body, err := c.read()
	took := time.Since(c.meant)
	counts := &c.warm
	if measured {
		counts = &c.counts
	}
	switch {
	case err != nil:
		counts.Lost++
		c.broken = true
		c.net.Load().Close()
	case code/100 == 2:
		if bytes.Contains(body, duplicate) {
			counts.Duplicate++
		} else {
			counts.New++
		}
		if measured {
			c.accepted = append(c.accepted, took)
		}
	case code == 503 && bytes.Contains(c.answer[:n], retryAfter):
		counts.Refused++
		if measured {
			c.refused = append(c.refused, took)
		}
	default:
		counts.Failed++
		c.run.failed(string(c.answer[:n]))
	}
	if err == nil && bytes.Contains(c.answer[:n], closing) {
		c.broken = true
		c.net.Load().Close()
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

// read takes in one answer, whose body has a length. n is all of it.
func (c *conn) read() (n, code int, body []byte, err error) {
	if c.broken {
		return 0, 0, nil, io.ErrClosedPipe
	}
	nc, end := c.net.Load(), -1
	for end < 0 {
		m, err := nc.Read(c.answer[n:])
		if err != nil {
			return n, 0, nil, err
		}
		n += m
		end = bytes.Index(c.answer[:n], endOfHead)
	}
	code, err = strconv.Atoi(string(c.answer[9:12]))
	if err != nil {
		return n, 0, nil, errAnswer
	}
	want := end + len(endOfHead)
	if code != 204 {
		length, err := lengthIn(c.answer[:end+2])
		if err != nil || want+length > len(c.answer) {
			return n, code, nil, errAnswer
		}
		want += length
	}
	for n < want {
		m, err := nc.Read(c.answer[n:])
		if err != nil {
			return n, code, nil, err
		}
		n += m
	}
	return n, code, c.answer[end+len(endOfHead) : want], nil
}

func lengthIn(head []byte) (int, error) {
	_, rest, found := bytes.Cut(head, contentLength)
	if !found {
		return 0, errAnswer
	}
	value, _, _ := bytes.Cut(rest, []byte("\r\n"))
	return strconv.Atoi(string(value))
}
