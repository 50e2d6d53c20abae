package signature

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/hookonce/hookonce/pkg/payload"
)

// steps splits a JSON Pointer, which was checked.
func steps(pointer string) []string {
	p, _ := payload.ParsePointer(pointer)
	return p.Keys()
}

// fieldName is how a form names what a JSON Pointer is to: by its last part.
func fieldName(pointer string) string {
	path := steps(pointer)
	return path[len(path)-1]
}

// get returns the bytes of the value at the end of the path, or nil.
func get(doc []byte, path []string) []byte {
	for _, key := range path {
		start, end, _ := child(doc, key)
		if end == 0 {
			return nil
		}
		doc = doc[start:end]
	}
	return doc
}

// set returns doc with another value at the end of the path, and all the rest as
// it was. What is not there on the way is made. ok is whether there was a place.
func set(doc []byte, path []string, value []byte) (_ []byte, ok bool) {
	if len(path) == 0 {
		return value, true
	}
	start, end, first := child(doc, path[0])
	switch {
	case end > 0:
		inner, ok := set(doc[start:end], path[1:], value)
		return bytes.Join([][]byte{doc[:start], inner, doc[end:]}, nil), ok
	case first == 0:
		return nil, false
	}
	for i := len(path) - 1; i >= 0; i-- {
		key, err := json.Marshal(path[i])
		if err != nil {
			return nil, false
		}
		value = bytes.Join([][]byte{key, []byte(":"), value}, nil)
		if i > 0 {
			value = bytes.Join([][]byte{[]byte("{"), value, []byte("}")}, nil)
		}
	}
	if bytes.TrimLeft(doc[first:], " \t\r\n")[0] != '}' {
		value = append(value, ',')
	}
	return bytes.Join([][]byte{doc[:first], value, doc[first:]}, nil), true
}

// child returns where the value of a key, or the element of an array, begins
// and ends; end is 0 if there is none. first is where an object's first key
// begins, or 0 if doc is not an object.
func child(doc []byte, key string) (start, end, first int) {
	dec := json.NewDecoder(bytes.NewReader(doc))
	open, err := dec.Token()
	if err != nil || open != json.Delim('{') && open != json.Delim('[') {
		return 0, 0, 0
	}
	isObject := open == json.Delim('{')
	if isObject {
		first = int(dec.InputOffset())
	}
	for i := 0; dec.More(); i++ {
		name := json.Token(strconv.Itoa(i))
		if isObject {
			if name, err = dec.Token(); err != nil {
				return 0, 0, 0
			}
		}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return 0, 0, 0
		}
		if name == key {
			end = int(dec.InputOffset())
			return end - len(raw), end, first
		}
	}
	if _, err := dec.Token(); err != nil { // not closed
		return 0, 0, 0
	}
	return 0, 0, first
}
