package source

import (
	"mime"
	"net/http"
	"slices"
	"strings"
)

// A Kind is how a body is read.
type Kind string

// The kinds of bodies.
const (
	JSON   Kind = "json"   // application/json, and all with the suffix +json
	Form   Kind = "form"   // application/x-www-form-urlencoded
	Opaque Kind = "opaque" // anything: bytes in which nothing is looked for
)

// What Gzip of a source may be.
const (
	GzipPlain      = "plain"
	GzipCompressed = "compressed"
)

// A MediaError says, in words that the sender may see, why a body of such a
// type or encoding is not taken.
type MediaError struct{ Reason string }

func (e *MediaError) Error() string { return e.Reason }

// Kind says how a body with these headers is read, or as a [*MediaError] why
// it is not: as it is, or never, since other encodings would be guesses at what
// was signed.
func (s *Source) Kind(h http.Header) (Kind, error) {
	types := h["Content-Type"]
	if len(types) == 1 && types[0] == "application/json" && len(s.Content) == 0 {
		return JSON, nil // which nearly all are
	}
	switch {
	case len(types) == 0 && slices.Contains(s.MediaTypes, ""):
		return s.kinds()[0], nil
	case len(types) == 0 && s.takes(Opaque):
		return Opaque, nil
	case len(types) != 1:
		return "", &MediaError{"Content-Type must be given once"}
	}
	return s.kind(types[0])
}

func (s *Source) kind(contentType string) (Kind, error) {
	media, params, err := mime.ParseMediaType(contentType)
	isJSON := media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
	kind := Opaque
	switch {
	case err == nil && isJSON && s.takes(JSON):
		kind = JSON
	case err == nil && media == "application/x-www-form-urlencoded" && s.takes(Form):
		return Form, nil
	case err == nil && slices.Contains(s.MediaTypes, media):
		kind = s.kinds()[0]
	case !s.takes(Opaque):
		return "", &MediaError{"Content-Type must be " + s.wanted()}
	}
	if charset, ok := params["charset"]; ok && kind == JSON && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return "", &MediaError{"charset must be utf-8"}
	}
	return kind, nil
}

// kinds are those of Content, or its default.
func (s *Source) kinds() []Kind {
	if len(s.Content) == 0 {
		return []Kind{JSON}
	}
	return s.Content
}

func (s *Source) takes(k Kind) bool { return slices.Contains(s.kinds(), k) }

// wanted names the media types that the source takes.
func (s *Source) wanted() string {
	var names []string
	if s.takes(JSON) {
		names = append(names, "application/json")
	}
	if s.takes(Form) {
		names = append(names, "application/x-www-form-urlencoded")
	}
	for _, name := range s.MediaTypes {
		if name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, " or ")
}
