package load

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"fmt"
	"hash"
	mathrand "math/rand/v2"
	"strings"
	"sync/atomic"
	"time"
)

// A Maker makes events as a payment provider would, signed as Stripe does. Each
// has an id of its own, but for a share of copies.
type Maker struct {
	Copies float64 // the share of deliveries that repeat an event
	Only   int     // if set, only so many different events are made, over and over

	secret []byte
	prefix string // of the ids
	before string // the body, up to the id
	next   atomic.Int64
}

const (
	digits = 12
	after  = `"}`
)

// NewMaker makes events whose bodies are of size bytes, or the least possible.
func NewMaker(secret string, size int) *Maker {
	m := &Maker{secret: []byte(secret), prefix: "evt_" + rand.Text()[:10]}
	var b strings.Builder
	fmt.Fprintf(&b, `{"object":"event","type":"payment.succeeded","created":%d,"livemode":true,`, time.Now().Unix())
	b.WriteString(`"data":{"object":{"id":"pi_3MtwBwLkdIwHu7ix28a3tqPa","amount":4200,"currency":"eur","lines":[`)
	const end = `{}]}},"id":"`
	room := size - len(end) - len(m.prefix) - digits - len(after)
	rng := mathrand.New(mathrand.NewPCG(7, uint64(size)))
	for b.Len() < room {
		line := fmt.Sprintf(`{"id":"li_%016x","amount":%d,"tax":null,"note":"Größe %016x"},`, rng.Uint64(), rng.IntN(1e6), rng.Uint64())
		if rest := room - b.Len(); len(line) > rest {
			line = `"` + strings.Repeat("x", max(rest-3, 0)) + `",`
		}
		b.WriteString(line)
	}
	b.WriteString(end)
	m.before = b.String() + m.prefix
	return m
}

// Made is how many different events there are.
func (m *Maker) Made() int {
	n := int(m.next.Load())
	if m.Only > 0 {
		n = min(n, m.Only)
	}
	return n
}

// Prefix is what all its ids begin with.
func (m *Maker) Prefix() string { return m.prefix }

// ID is the id of the nth event, from 0.
func (m *Maker) ID(n int) string { return fmt.Sprintf("%s%0*d", m.prefix, digits, n) }

// Again lets the maker make the same events once more.
func (m *Maker) Again() *Maker {
	return &Maker{Only: m.Made(), secret: m.secret, prefix: m.prefix, before: m.before}
}

// A request is one that is sent again and again, but for the id and the
// signature, which are replaced in place. What is signed before the id is
// hashed once, so that a long body costs the generator nothing.
type request struct {
	maker     *Maker
	bytes     []byte
	signature []byte // parts of bytes
	id        []byte
	tail      []byte

	inner, outer hash.Hash
	// Their states after what does not change.
	innerState, outerState []byte
	sum                    []byte
}

func (m *Maker) request(path string) *request {
	timestamp := fmt.Sprint(time.Now().Unix())
	length := len(m.before) + digits + len(after)
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\nStripe-Signature: t=%s,v1=", path, length, timestamp)
	const hexes = 2 * sha256.Size
	text := head + strings.Repeat("0", hexes) + "\r\n\r\n" + m.before + strings.Repeat("0", digits) + after
	r := &request{maker: m, bytes: []byte(text), inner: sha256.New(), outer: sha256.New()}
	r.signature = r.bytes[len(head) : len(head)+hexes]
	r.tail = r.bytes[len(r.bytes)-digits-len(after):]
	r.id = r.tail[:digits]
	ipad, opad := pad(m.secret, 0x36), pad(m.secret, 0x5c)
	r.inner.Write(ipad)
	r.inner.Write([]byte(timestamp + "." + m.before))
	r.outer.Write(opad)
	r.innerState, r.outerState = state(r.inner), state(r.outer)
	return r
}

// pad is the key as HMAC takes it, RFC 2104.
func pad(key []byte, with byte) []byte {
	if len(key) > sha256.BlockSize {
		sum := sha256.Sum256(key)
		key = sum[:]
	}
	block := make([]byte, sha256.BlockSize)
	copy(block, key)
	for i := range block {
		block[i] ^= with
	}
	return block
}

func state(h hash.Hash) []byte {
	b, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		panic(err) // crypto/sha256 promises that it can
	}
	return b
}

func resume(h hash.Hash, state []byte) {
	if err := h.(encoding.BinaryUnmarshaler).UnmarshalBinary(state); err != nil {
		panic(err)
	}
}

// next is the next delivery, until the one after it.
func (r *request) next() []byte {
	n := r.maker.draw()
	for i := digits - 1; i >= 0; i-- {
		r.id[i] = byte('0' + n%10)
		n /= 10
	}
	resume(r.inner, r.innerState)
	r.inner.Write(r.tail)
	r.sum = r.inner.Sum(r.sum[:0])
	resume(r.outer, r.outerState)
	r.outer.Write(r.sum)
	r.sum = r.outer.Sum(r.sum[:0])
	hex.Encode(r.signature, r.sum)
	return r.bytes
}

// draw chooses the event of the next delivery.
func (m *Maker) draw() int64 {
	if m.Copies > 0 && mathrand.Float64() < m.Copies {
		if made := m.next.Load(); made > 0 {
			return max(made-1-mathrand.Int64N(1000), 0)
		}
	}
	n := m.next.Add(1) - 1
	if m.Only > 0 {
		n %= int64(m.Only)
	}
	return n
}
