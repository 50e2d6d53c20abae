package signature

import (
	"strconv"
	"time"
)

const (
	maxDigits = 12 // of a timestamp in seconds: enough for 30,000 years
	maxTime   = 40 // bytes of a timestamp in RFC 3339
)

// parseTime returns a timestamp of the scheme's unit in Unix seconds. One that
// is a thousand times off has too many or too few digits for its unit.
func (s *Scheme) parseTime(text string) (int64, bool) {
	switch s.TimestampUnit {
	case "ms":
		n, ok := parseDigits(text, maxDigits, maxDigits+2)
		return n / 1000, ok
	case "rfc3339":
		if len(text) > maxTime {
			return 0, false
		}
		t, err := time.Parse(time.RFC3339, text)
		return t.Unix(), err == nil
	}
	return parseDigits(text, 1, maxDigits)
}

// formatTime writes a timestamp in the scheme's unit.
func (s *Scheme) formatTime(t time.Time) string {
	switch s.TimestampUnit {
	case "ms":
		return strconv.FormatInt(t.UnixMilli(), 10)
	case "rfc3339":
		return t.UTC().Format(time.RFC3339)
	}
	return strconv.FormatInt(t.Unix(), 10)
}

// parseDigits takes digits only: a sign, a fraction or a space is not what the
// providers write, and what is signed is the text.
func parseDigits(s string, least, most int) (int64, bool) {
	if len(s) < least || len(s) > most {
		return 0, false
	}
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// fresh compares in whole seconds, since most providers tell us no more; a
// fraction must not decide at the boundary.
func (v *Verifier) fresh(sentAt int64, now time.Time) error {
	allowed := int64(v.scheme.Tolerance / time.Second)
	switch age := now.Unix() - sentAt; {
	case allowed == 0:
		return nil
	case age > allowed:
		return &Error{TooOld, v.timestampPlace()}
	case -age > allowed:
		return &Error{InFuture, v.timestampPlace()}
	}
	return nil
}

// timestampPlace names the header that the timestamp is in, or its place in the body.
func (v *Verifier) timestampPlace() string {
	switch s := &v.scheme; {
	case s.TimestampAt != "":
		return s.TimestampAt
	case s.TimestampHeader != "":
		return s.TimestampHeader
	}
	return v.scheme.place()
}
