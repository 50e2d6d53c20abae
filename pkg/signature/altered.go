package signature

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// maxAltered is the size of the largest body that is looked at again after its
// signature did not match: a stranger must not make us work for long.
const maxAltered = 64 << 10

// altered reports whether a secret made the signature over a body that reads
// like this one. It is asked only after nothing matched.
func (v *Verifier) altered(m *scratch, r Request) bool {
	if !m.shared || !v.signed.uses(bodyPart) || len(r.Body) > maxAltered {
		return false
	}
	found := false
	for _, other := range rewritten(r.Body) {
		r.Body = other.body
		found = v.prove(m, r) >= 0 || found
	}
	return found
}

// A variant is a body that reads like another one.
type variant struct {
	what string // "the body " what
	body []byte
}

// rewritten returns what usually becomes of a body on its way: what the
// provider may have signed if this is what came.
func rewritten(body []byte) []variant {
	var all []variant
	add := func(what string, other []byte) {
		if !bytes.Equal(other, body) {
			all = append(all, variant{what, other})
		}
	}
	add("without the newline at its end", bytes.TrimRight(body, "\r\n"))
	add("with a newline at its end", append(bytes.Clone(body), '\n'))
	add("with CR LF at its end", append(bytes.TrimRight(bytes.Clone(body), "\r\n"), "\r\n"...))
	add("without the white space around it", bytes.TrimSpace(body))
	add("with LF in the place of CR LF", bytes.ReplaceAll(body, []byte("\r\n"), []byte("\n")))
	add("without its byte order mark", bytes.TrimPrefix(body, []byte("\uFEFF")))
	var compact, indented, html bytes.Buffer
	if json.Compact(&compact, body) != nil {
		return all
	}
	add("with its JSON written without spaces", compact.Bytes())
	add("with its JSON written with a space after each comma and colon", rewrite(compact.Bytes(), true, false))
	add("with its JSON written without spaces and in ASCII", rewrite(compact.Bytes(), false, true))
	add("with its JSON written with spaces and in ASCII", rewrite(compact.Bytes(), true, true))
	for _, indent := range []string{"  ", "    "} {
		indented.Reset()
		if indentedSize(compact.Bytes(), len(indent)) > 4*maxAltered {
			continue
		}
		if json.Indent(&indented, compact.Bytes(), "", indent) == nil {
			add(fmt.Sprintf("with its JSON indented by %d", len(indent)), bytes.Clone(indented.Bytes()))
		}
	}
	json.HTMLEscape(&html, compact.Bytes())
	add("with <, > and & escaped in its JSON", html.Bytes())
	return all
}

// indentedSize is about how long compact JSON gets: what is nested deeply gets
// longer by the square of that.
func indentedSize(compact []byte, indent int) int {
	size, depth := len(compact), 0
	for _, c := range compact { // those inside of texts may count too
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
		default:
			continue
		}
		size += 1 + max(depth, 0)*indent
	}
	return size
}

// rewrite writes compact JSON with a space after each comma and colon, or in ASCII.
func rewrite(compact []byte, spaces, ascii bool) []byte {
	var out []byte
	inside := false
	for i := 0; i < len(compact); {
		c := compact[i]
		switch {
		case inside && c == '\\':
			out = append(out, c, compact[i+1])
			i += 2
			continue
		case c == '"':
			inside = !inside
		case ascii && c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(compact[i:])
			out = appendEscape(out, r)
			i += n
			continue
		}
		out = append(out, c)
		if spaces && !inside && (c == ',' || c == ':') {
			out = append(out, ' ')
		}
		i++
	}
	return out
}

func appendEscape(out []byte, r rune) []byte {
	if r > 0xFFFF {
		r -= 0x10000
		return fmt.Appendf(out, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
	}
	return fmt.Appendf(out, `\u%04x`, r)
}
