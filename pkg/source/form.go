package source

import (
	"errors"
	"net/url"
	"strings"
)

var (
	errMissing = errors.New("is missing")
	errTwice   = errors.New("is there more than once")
	errEscape  = errors.New("has a % without two hexadecimal digits after it")
)

// field returns the value of a field of a form. It makes nothing of the fields
// that nobody asked for.
func field(form, name string) (string, error) {
	value, found := "", false
	for pair := range strings.SplitSeq(form, "&") {
		key, rest, _ := strings.Cut(pair, "=")
		if key != name { // written otherwise, it may be the same
			if !strings.ContainsAny(key, "%+") {
				continue
			}
			if unescaped, err := url.QueryUnescape(key); err != nil || unescaped != name {
				continue
			}
		}
		if found {
			return "", errTwice
		}
		unescaped, err := url.QueryUnescape(rest)
		if err != nil {
			return "", errEscape
		}
		value, found = unescaped, true
	}
	if !found {
		return "", errMissing
	}
	return value, nil
}
