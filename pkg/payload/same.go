package payload

import (
	"bytes"
	"cmp"
	"slices"
)

// Same reports whether two documents have the same bytes but for the values at
// some places. It is false of what [Scan] refuses, and where only one has such
// a place.
func Same(a, b []byte, but ...Pointer) bool {
	restA, okA := without(a, but)
	restB, okB := without(b, but)
	return okA && okB && slices.EqualFunc(restA, restB, bytes.Equal)
}

// without returns what is left of body around the values at some places.
func without(body []byte, at []Pointer) ([][]byte, bool) {
	if checkText(body) != nil {
		return nil, false
	}
	s := scanners.Get().(*scanner)
	defer s.release()
	s.start(body, at)
	s.spans = make([]span, len(at))
	if s.document() != nil {
		return nil, false
	}
	spans := s.spans
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var rest [][]byte
	end := 0
	for _, cut := range spans {
		if cut.from < end || cut.to == 0 { // inside of another, or none
			continue
		}
		rest = append(rest, body[end:cut.from])
		end = cut.to
	}
	return append(rest, body[end:]), true
}
