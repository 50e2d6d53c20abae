package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
)

// A Size is a number of bytes, as 268435456 or 256MiB.
type Size int64

// UnmarshalText reads a size.
func (s *Size) UnmarshalText(text []byte) error {
	n, ok := parseSize(string(text))
	if !ok || n < 1 {
		return errors.New("is not a number of bytes")
	}
	*s = Size(n)
	return nil
}

var (
	sizes = regexp.MustCompile(`^([0-9]{1,10}) ?([A-Za-z]*)$`)
	units = map[string]int64{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "KiB": 1 << 10, "MB": 1e6, "MiB": 1 << 20, "GiB": 1 << 30}
)

// parseSize reads a number of bytes with or without a unit.
func parseSize(s string) (int64, bool) {
	parts := sizes.FindStringSubmatch(s)
	if parts == nil {
		return 0, false
	}
	unit, known := units[parts[2]]
	digits, err := strconv.ParseInt(parts[1], 10, 64)
	return digits * unit, known && err == nil
}

// checkRoom reports a bound that the largest body of a source would never get
// past: while the buffer of what is inflated grows, there are three of them.
func (c *Ingest) checkRoom(m *mistakes) {
	for _, s := range c.Sources {
		m.when(int64(c.MaxBodyBytes)/3 < s.MaxBody, "MAX_BODY_BYTES",
			fmt.Sprintf("want at least three times the max_body of source %s, which is %d bytes", s.Name, s.MaxBody))
	}
}
