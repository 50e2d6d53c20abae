package ingest

import (
	"errors"
	"io"
	"sync/atomic"
)

// Bodies bounds the bytes of all bodies that a process has in hand, from the
// first that is read to the answer. It may be used from many goroutines.
type Bodies struct {
	limit int64
	used  atomic.Int64
}

// NewBodies returns a bound of so many bytes.
func NewBodies(limit int64) *Bodies { return &Bodies{limit: limit} }

// InUse returns how many bytes are taken.
func (b *Bodies) InUse() int64 { return b.used.Load() }

// errNoRoom means that all bytes are taken.
var errNoRoom = errors.New("too many bytes of bodies in hand")

// A room is what one delivery has taken. Its bodies may be nil: no bound.
type room struct {
	bodies *Bodies
	taken  int64
}

func (r *room) take(n int64) error {
	if r.bodies == nil {
		return nil
	}
	if r.bodies.used.Add(n) > r.bodies.limit {
		r.bodies.used.Add(-n)
		return errNoRoom
	}
	r.taken += n
	return nil
}

func (r *room) giveBack(n int64) {
	if r.bodies != nil {
		r.bodies.used.Add(-n)
		r.taken -= n
	}
}

func (r *room) leave() { r.giveBack(r.taken) }

const (
	// firstTaken is what a body with a length takes before a byte has come: all
	// of it would let senders take the room of others with a header alone.
	firstTaken = 64 << 10
	// firstRead is what one without a length takes.
	firstRead = 4 << 10
)

// readAll reads to the end, in room that is taken as it is needed. size is how
// much there will be, or -1; limit is how much there can be.
func (r *room) readAll(from io.Reader, size, limit int64) ([]byte, error) {
	next := int64(firstRead)
	if size >= 0 {
		next = min(size, firstTaken) + 1 // and a byte to meet the end with
	}
	if err := r.take(next); err != nil {
		return nil, err
	}
	buf := make([]byte, 0, next)
	for {
		n, err := from.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, err
		case len(buf) < cap(buf):
			continue
		}
		if buf, err = r.grow(buf, size, limit); err != nil {
			return buf, err
		}
	}
}

// grow moves to a larger buffer. Until it has, both are taken.
func (r *room) grow(buf []byte, size, limit int64) ([]byte, error) {
	old := int64(cap(buf))
	next := 2 * old
	if size >= old {
		next = size + 1
	} else if old <= limit {
		next = min(next, limit+1)
	}
	if err := r.take(next); err != nil {
		return buf, err
	}
	larger := make([]byte, len(buf), next)
	copy(larger, buf)
	r.giveBack(old)
	return larger, nil
}
