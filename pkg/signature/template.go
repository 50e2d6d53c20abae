package signature

import (
	"errors"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/pkg/payload"
)

// A segment is a piece of the signed text: a part of the delivery or, if part
// is literalPart, always the same bytes.
type segment struct {
	part    part
	literal []byte
	header  string // of headerPart
	value   int    // of valuePart: which of the pointers
}

type part int

const (
	literalPart part = iota
	idPart
	timestampPart
	bodyPart
	urlPart
	methodPart
	formPart
	sha256Part
	crc32Part
	secretPart
	headerPart
	valuePart
)

var placeholders = map[string]part{
	"id": idPart, "timestamp": timestampPart, "body": bodyPart, "url": urlPart, "method": methodPart, "form": formPart,
	"sha256": sha256Part, "crc32": crc32Part, "secret": secretPart, "webhook_id": literalPart,
}

// A template is what a scheme signs, split so that nothing is searched for
// braces while a delivery waits.
type template struct {
	segments []segment
	pointers []payload.Pointer // of the values in the body
	has      [valuePart + 1]bool
}

func (t *template) add(s segment) {
	t.segments = append(t.segments, s)
	t.has[s.part] = true
}

func (t *template) uses(p part) bool { return t.has[p] }

// coversBody reports whether no byte of the body can change.
func (t *template) coversBody() bool {
	return t.has[bodyPart] || t.has[formPart] || t.has[sha256Part] || t.has[crc32Part]
}

// compile splits Signed. With an error it returns what it understood.
func (s Scheme) compile() (template, error) {
	text := s.Signed
	if text == "" {
		text = "{body}"
	}
	var (
		t template
		p problems
	)
	for rest := text; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		p.when(strings.Contains(literal, "}"), "signed %q: } without {", text)
		if literal != "" {
			t.add(segment{literal: []byte(literal)})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		p.when(!closed, "signed %q: { without }", text)
		segment, known := s.placeholder(&t, name)
		p.when(closed && !known, "signed %q: %q is nothing that can be signed: want {body}, {id}, {timestamp}, {url}, {method}, {form}, "+
			"{sha256}, {crc32}, {secret}, {webhook_id}, {header:Name} or {/json/pointer}", text, "{"+name+"}")
		t.add(segment)
		rest = after
	}
	return t, errors.Join(p...)
}

func (s Scheme) placeholder(t *template, name string) (segment, bool) {
	if header, ok := strings.CutPrefix(name, "header:"); ok {
		return segment{part: headerPart, header: http.CanonicalHeaderKey(header)}, IsHeaderName(header)
	}
	if strings.HasPrefix(name, "/") {
		p, err := payload.ParsePointer(name)
		t.pointers = append(t.pointers, p)
		return segment{part: valuePart, value: len(t.pointers) - 1}, err == nil
	}
	part, known := placeholders[name]
	if name == "webhook_id" {
		return segment{literal: []byte(s.WebhookID)}, true
	}
	return segment{part: part}, known
}
