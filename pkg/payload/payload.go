// Package payload answers what the rest of the program may ask of a JSON body:
// is it one value that we accept, and what stands at a few places in it.
//
// Nothing else in this project parses payloads. This package alone imports
// jsontext, and from this module it imports only the shared words in webhook.
//
// It refuses what two readers could read differently: duplicate keys, invalid
// UTF-8, data after the value. The body itself is never changed or re-encoded.
package payload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// maxDepth is how many arrays and objects may stand inside each other. Real
// payloads stay below 20; readers that recurse fail at very different depths.
const maxDepth = 128

// Limits on what a refusal repeats of the input, in bytes.
const (
	maxEcho  = 40  // of one key or literal
	maxField = 120 // of a JSON pointer
)

// Scan checks the whole body and returns the value at each pointer, in the same
// order; where nothing stands, that is the zero Value. The values alias body.
//
// A refusal is a [*webhook.InvalidError]. Keys are compared as Go decodes them:
// escapes make no difference, and all lone surrogates are alike. Where a pointer
// names a key of an object, the object may not also hold that key in other case,
// because many readers, encoding/json among them, take one for the other.
func Scan(body []byte, at ...Pointer) ([]Value, error) {
	if err := checkText(body); err != nil {
		return nil, err
	}
	s := scanners.Get().(*scanner)
	defer s.release()
	s.start(body, at)
	if err := s.document(); err != nil {
		return nil, err
	}
	return s.found, nil
}

// checkText refuses a body for what can be seen before parsing.
func checkText(body []byte) error {
	switch {
	case len(body) == 0:
		return &webhook.InvalidError{Reason: "empty body"}
	case !utf8.Valid(body):
		return &webhook.InvalidError{Reason: "invalid UTF-8"}
	case bytes.HasPrefix(body, []byte("\uFEFF")):
		return &webhook.InvalidError{Reason: "starts with a byte order mark"}
	}
	return nil
}

// refusal is the one place where an error of jsontext becomes ours.
func refusal(err error) error {
	if errors.Is(err, io.EOF) { // white space only
		return &webhook.InvalidError{Reason: "empty body"}
	}
	se, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok {
		return err
	}
	invalid := &webhook.InvalidError{Field: field(se.JSONPointer)}
	if errors.Is(se, jsontext.ErrDuplicateName) {
		invalid.Reason = "duplicate key " + quote(se.JSONPointer.LastToken())
	} else {
		invalid.Reason = fmt.Sprintf("broken JSON at byte %d: %v", se.ByteOffset, se.Err)
	}
	return invalid
}

// field returns p, or the nearest parent of it that is short and printable: p
// holds keys from the input, and ends up in answers and logs.
func field(p jsontext.Pointer) string {
	end := 0
	for part := range strings.SplitSeq(strings.TrimPrefix(string(p), "/"), "/") {
		next := end + len("/") + len(part)
		if p == "" || len(part) > maxEcho || next > maxField || strings.ContainsFunc(part, unprintable) {
			break
		}
		end = next
	}
	return string(p[:end])
}

func unprintable(r rune) bool { return !strconv.IsPrint(r) }

// quote returns s as a Go string literal, cut if it is long.
func quote(s string) string { return strconv.Quote(clip(s)) }

// clip cuts s to maxEcho bytes, between two runes.
func clip(s string) string {
	if len(s) <= maxEcho {
		return s
	}
	end := maxEcho
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
