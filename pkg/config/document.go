package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// A document is one sources file, and what has been found wrong with it.
type document struct {
	file     string
	getenv   func(string) (string, bool)
	handlers []string // that a rule may name; none: any
	problems []problem
	warnings []string // what is not wrong, and should be known
}

type problem struct {
	line int
	text string
}

func (d *document) report(line int, format string, args ...any) {
	d.problems = append(d.problems, problem{line, fmt.Sprintf(format, args...)})
}

func (d *document) warn(line int, format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf("%s:%d: %s", d.file, line, fmt.Sprintf(format, args...)))
}

// err returns all that was reported, in the order of the lines, or nil.
func (d *document) err() error {
	slices.SortStableFunc(d.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(d.problems))
	for i, p := range d.problems {
		errs[i] = fmt.Errorf("%s:%d: %s", d.file, p.line, p.text)
	}
	return errors.Join(errs...)
}

// parse returns the value of the whole file, or reports why there is none.
//
// The parser turns broken UTF-8 into other text, and loses count of the lines at
// a CR, so it never sees either.
func (d *document) parse(data []byte) (value, bool) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	if !d.checkText(data) {
		return value{}, false
	}
	// That keys are unique is for us to say, so that it is said with the rest.
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err, data)
		return value{}, false
	}
	root := value{doc: d, line: 1}
	for _, part := range f.Docs {
		switch {
		case part.Body == nil:
		case root.node == nil:
			root.node = part.Body
		default:
			d.report(lineOf(part.Body, 1), "a second document: want one, without --- between")
			return root, false
		}
	}
	return root, true
}

func (d *document) checkText(data []byte) bool {
	ok := true
	line := 0
	for text := range bytes.SplitSeq(data, []byte("\n")) {
		line++
		switch {
		case !utf8.Valid(text):
			d.report(line, "is not UTF-8")
			ok = false
		case bytes.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }):
			d.report(line, "has a control character")
			ok = false
		}
	}
	return ok
}

// syntax reports an error of the parser. Its own text would show the lines
// around, and what it quotes could be a secret.
func (d *document) syntax(err error, data []byte) {
	line, message := 1, "is not YAML"
	if e, ok := errors.AsType[yaml.Error](err); ok {
		message += ": " + unquote(e.GetMessage())
		if t := e.GetToken(); t != nil && t.Position != nil {
			line = t.Position.Line
		}
	}
	lines := bytes.Split(data, []byte("\n"))
	if line <= len(lines) && line > 0 && bytes.Contains(lines[line-1], []byte("${")) {
		message += ` (inside of [] and {}, put quotes around it: "${VAR}")`
	}
	d.report(line, "%s", message)
}

var quoted = regexp.MustCompile(`(?s) ?"(?:[^"\\]|\\.)*"`)

// unquote takes out of a message what it quotes.
func unquote(message string) string { return quoted.ReplaceAllString(message, "") }

// lineOf returns where n begins, or line if the parser does not know.
func lineOf(n ast.Node, line int) int {
	if t := n.GetToken(); t != nil && t.Position != nil && t.Position.Line > 0 {
		return t.Position.Line
	}
	return line
}

var reference = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(?:(:-)([^}]*))?\}`)

// expand puts the variables into s, which is the text of v. It does so after
// parsing, so that a variable is never more than text. optional is whether one
// of them could be left out.
func (v value) expand(s string) (text string, optional, ok bool) {
	if strings.Contains(reference.ReplaceAllString(s, "."), "${") {
		v.wrong("${ that is not a variable: want ${NAME} or ${NAME:-text}")
		return "", false, false
	}
	ok = true
	text = reference.ReplaceAllStringFunc(s, func(ref string) string {
		part := reference.FindStringSubmatch(ref)
		name, fallback := part[1], part[3]
		set, found := v.doc.getenv(name)
		switch {
		case part[2] != "":
			optional = true
			return cmp.Or(set, fallback)
		case !found:
			v.wrong("the environment variable %s is not set: set it, or write ${%s:-} if it may be missing", name, name)
			ok = false
		}
		return set
	})
	return text, optional, ok
}
