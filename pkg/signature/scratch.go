package signature

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"hash/crc32"
	"strconv"
	"strings"
)

// A scratch is the memory of one verification, used again and again: nothing is
// allocated for a delivery that an HMAC verifies, and a key is prepared only once.
type scratch struct {
	keys           []key
	shared, public bool        // there are keys of that kind
	macs           []hash.Hash // one for each shared key, else nil
	sums           [][]byte    // what each of them makes of the delivery

	signatures []entry // the decoded entries that could be ours
	id         []byte
	timestamp  []byte
	url        []byte   // the one that is tried now
	urls       []string // all that are to be tried
	form       []byte
	otherBody  bool     // the URL has the hash of another body
	values     []string // of the body
	headers    map[string][]string

	text    bytes.Buffer // what a public key verifies
	size    int          // of a signature by a shared key
	decoded []byte       // room for the longest entry
	kept    []byte       // what signatures points into
	room    []byte       // for a piece of the text
}

// An entry is one signature of the header.
type entry struct {
	bytes  []byte
	public bool // made with a private key
}

func newScratch(s *Scheme, keys []key) *scratch {
	m := &scratch{
		keys:       keys,
		signatures: make([]entry, 0, maxEntries),
		decoded:    make([]byte, maxValue),
		macs:       make([]hash.Hash, len(keys)),
		sums:       make([][]byte, len(keys)),
	}
	if s.Kind == HMAC || s.Kind == Hash {
		m.size = hashes[s.Algorithm].Size()
	}
	m.kept = make([]byte, 0, maxEntries*max(m.size, 64))
	for i, key := range keys {
		switch {
		case key.public != nil:
			m.public = true
			continue
		case s.Kind == HMAC:
			m.macs[i] = hmac.New(hashes[s.Algorithm].New, key.shared)
		case s.Kind == Hash:
			m.macs[i] = hashes[s.Algorithm].New()
		}
		m.shared = true
		m.sums[i] = make([]byte, 0, m.size)
	}
	return m
}

// reset forgets the delivery before.
func (m *scratch) reset() {
	m.signatures, m.kept, m.urls = m.signatures[:0], m.kept[:0], m.urls[:0]
	m.id, m.timestamp, m.url, m.form = m.id[:0], m.timestamp[:0], m.url[:0], m.form[:0]
	m.values, m.headers, m.otherBody = nil, nil, false
}

// decode reports whether encoded is well formed, and keeps it if it could be
// one of ours; another length is simply no match.
func (m *scratch) decode(encoding, encoded string, public bool) bool {
	n, err := 0, error(nil)
	if encoding == "hex" {
		n, err = hex.Decode(m.decoded, []byte(encoded))
	} else if !strings.ContainsAny(encoded, "\r\n") { // which the decoder passes over
		n, err = strict.Decode(m.decoded, []byte(encoded))
	}
	if err != nil || n == 0 {
		return false
	}
	if n == m.size || public {
		from := len(m.kept)
		m.kept = append(m.kept, m.decoded[:n]...)
		m.signatures = append(m.signatures, entry{m.kept[from:], public})
	}
	return true
}

// sum computes for each shared key what the signature has to be.
func (m *scratch) sum(signed *template, r Request) {
	for i, mac := range m.macs {
		if mac == nil {
			continue
		}
		mac.Reset()
		for j := range signed.segments {
			mac.Write(m.piece(&signed.segments[j], &r, m.keys[i].shared))
		}
		m.sums[i] = mac.Sum(m.sums[i][:0])
	}
}

// piece returns a piece of the signed text, which is good until the next one.
func (m *scratch) piece(s *segment, r *Request, secret []byte) []byte {
	switch s.part {
	case idPart:
		return m.id
	case timestampPart:
		return m.timestamp
	case bodyPart:
		return r.Body
	case urlPart:
		return m.url
	case formPart:
		return m.form
	case secretPart:
		return secret
	case methodPart:
		m.room = append(m.room[:0], r.Method...)
	case sha256Part:
		sum := sha256.Sum256(r.Body)
		m.room = hex.AppendEncode(m.room[:0], sum[:])
	case crc32Part:
		m.room = strconv.AppendUint(m.room[:0], uint64(crc32.ChecksumIEEE(r.Body)), 10)
	case headerPart:
		m.room = append(m.room[:0], m.headers[s.header][0]...)
	case valuePart:
		m.room = append(m.room[:0], m.values[s.value]...)
	default:
		return s.literal
	}
	return m.room
}

// compose returns the signed text, which is good until the next one.
func (m *scratch) compose(signed *template, r Request) []byte {
	m.text.Reset()
	for i := range signed.segments {
		m.text.Write(m.piece(&signed.segments[i], &r, nil))
	}
	return m.text.Bytes()
}

// match returns the index of the first shared key that made one of the
// signatures, or -1. It compares all with all, so its time says nothing of where.
func (m *scratch) match() int {
	found := -1
	for i, sum := range m.sums {
		for _, s := range m.signatures {
			if hmac.Equal(sum, s.bytes) && found < 0 && !s.public {
				found = i
			}
		}
	}
	return found
}
