package source

import (
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/hookonce/hookonce/pkg/payload"
)

// A view is what the locators of a source look into: one event, and the whole
// delivery around it. What was found in the JSON is asked for in the order of
// paths, each value once.
type view struct {
	header      http.Header
	body        []byte // of the event
	form        string // "": the body is none
	each, whole []payload.Value
	split       bool // the two differ
}

// next returns the next value that was found.
func (v *view) next(envelope bool) payload.Value {
	from := &v.each
	if envelope && v.split {
		from = &v.whole
	}
	value := (*from)[0]
	*from = (*from)[1:]
	return value
}

// part is the text at l as a part of an id: it is not all zeros. there is
// whether anything is.
func (v *view) part(l *Locator) (s string, there bool, err error) {
	s, there, err = v.text(l)
	if err == nil && allZero(s) {
		return "", there, l.invalid("is all zeros")
	}
	return s, there, err
}

// text is the usable text at l, or at the first place that l may look at
// instead at which there is anything. It is never trimmed or cut: two ids that
// differ are two events.
func (v *view) text(l *Locator) (s string, there bool, err error) {
	found := v.next(l.Envelope) // always: the next locator has the next one
	s, there, err = v.raw(l, found)
	if reason := ""; err == nil {
		if reason = unusable(s); reason != "" {
			s, err = "", l.invalid(reason)
		}
	} else {
		err = l.invalid(err.Error())
	}
	for i := range l.Or {
		other, otherThere, otherErr := v.text(&l.Or[i])
		if !there && otherThere {
			s, there, err = other, true, otherErr
		}
	}
	return s, there, err
}

// raw is what stands at l, whatever it is.
func (v *view) raw(l *Locator, found payload.Value) (s string, there bool, err error) {
	switch {
	case l.Header != "":
		values := v.header.Values(l.Header)
		switch {
		case len(values) == 0 || len(values) == 1 && values[0] == "" && l.Optional:
			return "", false, errMissing
		case len(values) == 1:
			return values[0], true, nil
		}
		return "", true, errTwice
	case l.Form != "":
		s, err = field(v.form, l.Form)
		if s == "" && err == nil && l.Optional {
			err = errMissing
		}
		return s, !errors.Is(err, errMissing), err
	case l.Text != "":
		return l.Text, true, nil
	case l.Content:
		return contentID(v.body), true, nil
	case l.Delivery:
		return rand.Text(), true, nil
	}
	there = found.Found() && (!l.Optional || found.Kind != payload.Null && string(found.Raw) != `""`)
	if found.Kind == payload.Number && l.Number {
		s, err = found.Number()
	} else {
		s, err = found.Text()
	}
	return s, there, err
}
