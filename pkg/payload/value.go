package payload

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A Kind is what a JSON value is.
type Kind string

// The kinds. The zero Kind is that of a value that is not there.
const (
	Null   Kind = "null"
	Bool   Kind = "bool"
	Number Kind = "number"
	String Kind = "string"
	Array  Kind = "array"
	Object Kind = "object"
)

var kinds = map[jsontext.Kind]Kind{
	'n': Null, 't': Bool, 'f': Bool, '0': Number, '"': String, '[': Array, '{': Object,
}

// A Value is what [Scan] found at a pointer. The errors of its methods say what
// is wrong without naming the place, which the caller knows: "is missing".
type Value struct {
	Raw  []byte // its text, without the white space around it; part of the body
	Kind Kind
}

// Found reports whether the value is there at all. A null is.
func (v Value) Found() bool { return v.Kind != "" }

// Text returns a JSON string, decoded. It refuses one with a lone surrogate,
// which no Go string and no database text can hold: replaced, it would make two
// different texts the same.
func (v Value) Text() (string, error) {
	if v.Kind != String {
		return "", v.Want("a string")
	}
	inner := v.Raw[1 : len(v.Raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner), nil
	}
	text, err := jsontext.AppendUnquote(nil, v.Raw)
	if err != nil {
		return "", errors.New("holds half of a surrogate pair")
	}
	return string(text), nil
}

// Integer returns a number that is written as an integer: without a fraction or
// an exponent, and not as -0. It is exact, or refused as out of range.
func (v Value) Integer() (int64, error) {
	digits, err := v.Number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, errors.New("is out of range")
	}
	return n, nil
}

// Number is Digits with the reason for which there are none.
func (v Value) Number() (string, error) {
	if v.Kind != Number {
		return "", v.Want("an integer")
	}
	digits, ok := v.Digits()
	if !ok {
		return "", fmt.Errorf("%s is not an integer literal", clip(string(v.Raw)))
	}
	return digits, nil
}

// Digits returns a number that is written as an integer, exactly as it is
// written and however long: a minus sign, if any, and digits. It reports false
// for everything else.
func (v Value) Digits() (string, bool) {
	if v.Kind != Number || bytes.ContainsAny(v.Raw, ".eE") || string(v.Raw) == "-0" {
		return "", false
	}
	return string(v.Raw), true
}

// Want says that v is something else than what was wanted.
func (v Value) Want(what string) error {
	switch v.Kind {
	case "":
		return errors.New("is missing")
	case Null:
		return fmt.Errorf("is null, want %s", what)
	case Array, Object:
		return fmt.Errorf("is an %s, want %s", v.Kind, what)
	}
	return fmt.Errorf("is a %s, want %s", v.Kind, what)
}
