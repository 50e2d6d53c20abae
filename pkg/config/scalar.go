package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/hookonce/hookonce/pkg/signature"
)

// raw returns the text of a string before the variables are put in.
func (v value) raw() (string, bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// scalar returns the text of a string, or of a whole number.
func (v value) scalar(what string) (string, bool) {
	if n, ok := v.node.(*ast.IntegerNode); ok {
		return n.GetToken().Value, true
	}
	s, ok := v.raw()
	if !ok {
		v.wantType(what)
		return "", false
	}
	text, _, ok := v.expand(s)
	return text, ok
}

const aText = "a text (put quotes around a number)"

// anyText reads a text, which may be empty.
func (v value) anyText(to *string) bool {
	if !v.given() {
		return false
	}
	s, ok := v.raw()
	if !ok {
		v.wantType(aText)
		return false
	}
	s, _, ok = v.expand(s)
	if ok {
		*to = s
	}
	return ok
}

// text reads a text.
func (v value) text(to *string) bool {
	var s string
	switch {
	case !v.anyText(&s):
		return false
	case strings.TrimSpace(s) == "":
		v.wrong("must not be empty")
		return false
	}
	*to = s
	return true
}

// choice reads one of a few words.
func (v value) choice(to *string, words ...string) bool {
	if !v.given() {
		return false
	}
	what := "one of " + strings.Join(words, ", ")
	s, ok := v.scalar(what)
	if ok && !slices.Contains(words, s) {
		v.wrong("want %s", what)
		ok = false
	}
	if ok {
		*to = s
	}
	return ok
}

// flag reads a truth.
func (v value) flag(to *bool) {
	if !v.given() {
		return
	}
	n, ok := v.node.(*ast.BoolNode)
	if !ok {
		v.wantType("true or false")
		return
	}
	*to = n.Value
}

// number reads a whole number. In quotes it is one only if it is a variable,
// which may need them.
func (v value) number(to *int, least, most int) {
	if !v.given() {
		return
	}
	what := fmt.Sprintf("a whole number from %d to %d", least, most)
	s, ok := v.scalar(what)
	if !ok {
		return
	}
	n, err := strconv.Atoi(s)
	raw, isText := v.raw()
	switch {
	case err != nil || strconv.Itoa(n) != s || n < least || n > most:
		v.wrong("want %s", what)
	case isText && !reference.MatchString(raw):
		v.wrong("want %s, without quotes", what)
	default:
		*to = n
	}
}

// duration reads a duration in Go's notation.
func (v value) duration(to *time.Duration, least, most, unit time.Duration, what string) {
	if !v.given() {
		return
	}
	s, ok := v.scalar(what)
	if !ok {
		return
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < least || d > most || d%unit != 0 {
		v.wrong("want %s", what)
		return
	}
	*to = d
}

// size reads a number of bytes, of at least 1.
func (v value) size(to *int64, most int64) {
	if !v.given() {
		return
	}
	what := fmt.Sprintf("bytes, or such as 512KiB, 2MiB or 1MB, up to %dMiB", most>>20)
	s, ok := v.scalar(what)
	if !ok {
		return
	}
	n, ok := parseSize(s)
	if !ok || n < 1 || n > most {
		v.wrong("want %s", what)
		return
	}
	*to = n
}

// header reads the name of a header.
func (v value) header(to *string) bool {
	var s string
	if !v.text(&s) {
		return false
	}
	if !signature.IsHeaderName(s) {
		v.wrong("is not the name of a header")
		return false
	}
	*to = s
	return true
}
