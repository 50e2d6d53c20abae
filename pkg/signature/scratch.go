package signature

import (
	"crypto/hmac"
	"encoding/hex"
	"hash"
	"strings"
)

// A scratch is the memory of one verification, used again and again: nothing is
// allocated for a delivery that verifies, and a key is prepared only once.
type scratch struct {
	macs       []hash.Hash // one for each secret
	sums       [][]byte    // what each of them makes of the delivery
	signatures [][]byte    // the decoded entries that have the right length
	id         []byte
	timestamp  []byte

	size    int    // of a signature
	decoded []byte // room for the longest entry
	kept    []byte // what signatures points into
}

func newScratch(newHash func() hash.Hash, keys [][]byte) *scratch {
	m := &scratch{
		size:       newHash().Size(),
		signatures: make([][]byte, 0, maxEntries),
		decoded:    make([]byte, maxValue),
	}
	m.kept = make([]byte, 0, maxEntries*m.size)
	for _, key := range keys {
		m.macs = append(m.macs, hmac.New(newHash, key))
		m.sums = append(m.sums, make([]byte, 0, m.size))
	}
	return m
}

// decode reports whether encoded is well formed, and keeps it if it could be
// one of ours; another length is simply no match.
func (m *scratch) decode(encoding, encoded string) bool {
	n, err := 0, error(nil)
	if encoding == "hex" {
		n, err = hex.Decode(m.decoded, []byte(encoded))
	} else if !strings.ContainsAny(encoded, "\r\n") { // which the decoder passes over
		n, err = strict.Decode(m.decoded, []byte(encoded))
	}
	if err != nil || n == 0 {
		return false
	}
	if n == m.size {
		from := len(m.kept)
		m.kept = append(m.kept, m.decoded[:n]...)
		m.signatures = append(m.signatures, m.kept[from:])
	}
	return true
}

// sum computes for each secret what the signature has to be.
func (m *scratch) sum(signed []segment, body []byte) {
	for i, mac := range m.macs {
		mac.Reset()
		for _, s := range signed {
			switch s.part {
			case literalPart:
				mac.Write(s.literal)
			case idPart:
				mac.Write(m.id)
			case timestampPart:
				mac.Write(m.timestamp)
			case bodyPart:
				mac.Write(body)
			}
		}
		m.sums[i] = mac.Sum(m.sums[i][:0])
	}
}

// match returns the index of the first secret that made one of the signatures,
// or -1. It compares all with all, so its time says nothing of where.
func (m *scratch) match() int {
	found := -1
	for i, sum := range m.sums {
		for _, signature := range m.signatures {
			if hmac.Equal(sum, signature) && found < 0 {
				found = i
			}
		}
	}
	return found
}
