package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// A value is a node of the file, with what to call it in an error. Its readers
// set what they are given, or report why they cannot; a value that is not there
// sets nothing. None repeats the value: it could be a secret in a wrong place.
type value struct {
	doc  *document
	name string // with a colon and a space after each part: "source shop: id: "
	line int    // of its key
	node ast.Node
}

func (v value) given() bool { return v.node != nil }

func (v value) wrong(format string, args ...any) {
	v.doc.report(v.line, "%s%s", v.name, fmt.Sprintf(format, args...))
}

// wantType reports a node of another kind than what was wanted.
func (v value) wantType(what string) {
	switch v.node.(type) {
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		v.wrong("anchors, aliases and tags are not supported: write %s", what)
	default:
		v.wrong("want %s", what)
	}
}

// A mapping is a value that is one, by key.
type mapping struct {
	value
	keys   []string // in the order of the file
	fields map[string]value
}

// key returns the value of a key. If it is not there, errors about it are
// errors about the mapping.
func (m mapping) key(name string) value {
	if v, ok := m.fields[name]; ok {
		return v
	}
	return value{doc: m.doc, name: m.name + name + ": ", line: m.line}
}

// mapping reads a mapping in which each key is there once.
func (v value) mapping(what string) (mapping, bool) {
	m := mapping{value: v, fields: map[string]value{}}
	node, ok := v.node.(ast.MapNode)
	if !ok {
		v.wantType(what)
		return m, false
	}
	for i := node.MapRange(); i.Next(); {
		at := value{doc: v.doc, name: v.name, line: lineOf(i.Key(), v.line), node: i.Key()}
		key, ok := at.plainKey()
		if !ok {
			continue
		}
		if first, twice := m.fields[key]; twice {
			at.wrong("key %s: is there already, in line %d", printable(key), first.line)
			continue
		}
		m.keys = append(m.keys, key)
		m.fields[key] = value{doc: v.doc, name: v.name + key + ": ", line: at.line, node: i.Value()}
	}
	return m, true
}

// plainKey returns the text of a key, which no variables go into.
func (v value) plainKey() (string, bool) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return n.GetToken().Value, true
	}
	v.wantType("plain text as the key")
	return "", false
}

// record reads a mapping that has no other keys than these.
func (v value) record(what string, known ...string) (mapping, bool) {
	m, ok := v.mapping(what)
	for _, key := range m.keys {
		if !slices.Contains(known, key) {
			at := m.fields[key]
			at.name = v.name
			at.wrong("unknown key %s: want any of %s", printable(key), strings.Join(known, ", "))
		}
	}
	return m, ok
}

var likeKey = regexp.MustCompile(`^[a-z_-]{1,32}$`)

// printable returns a key as it can be shown. One that does not look like a key
// may be something else that got there.
func printable(key string) string {
	if likeKey.MatchString(key) {
		return strconv.Quote(key)
	}
	return "(not shown)"
}

// isMapping returns v as a mapping, if it is one.
func (v value) isMapping() (ast.MapNode, bool) {
	node, ok := v.node.(ast.MapNode)
	return node, ok
}

// list reads a list.
func (v value) list(what string) ([]value, bool) {
	node, ok := v.node.(*ast.SequenceNode)
	if !ok {
		v.wantType(what)
		return nil, false
	}
	var all []value
	for i, n := range node.Values {
		name := fmt.Sprintf("%sentry %d: ", v.name, i+1)
		all = append(all, value{doc: v.doc, name: name, line: lineOf(n, v.line), node: n})
	}
	return all, true
}
