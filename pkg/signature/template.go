package signature

import (
	"errors"
	"slices"
	"strings"
)

// A segment is a piece of the signed text: a part of the delivery or, if part
// is literalPart, always the same bytes.
type segment struct {
	part    part
	literal []byte
}

type part int

const (
	literalPart part = iota
	idPart
	timestampPart
	bodyPart
)

var placeholders = map[string]part{"id": idPart, "timestamp": timestampPart, "body": bodyPart}

// compile splits a template into segments, so that nothing is searched for
// braces while a delivery waits. With an error it returns what it understood.
func compile(template string) ([]segment, error) {
	if template == "" {
		template = "{body}"
	}
	var (
		segments []segment
		p        problems
	)
	for rest := template; rest != ""; {
		literal, after, found := strings.Cut(rest, "{")
		p.when(strings.Contains(literal, "}"), "signed %q: } without {", template)
		if literal != "" {
			segments = append(segments, segment{literal: []byte(literal)})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(after, "}")
		part, known := placeholders[name]
		p.when(!closed, "signed %q: { without }", template)
		p.when(closed && !known, "signed %q: {%s} is not one of {id}, {timestamp}, {body}", template, name)
		segments = append(segments, segment{part: part})
		rest = after
	}
	p.when(!uses(segments, bodyPart), "signed %q: without {body} anybody could change the body", template)
	return segments, errors.Join(p...)
}

func uses(segments []segment, p part) bool {
	return slices.ContainsFunc(segments, func(s segment) bool { return s.part == p })
}
