package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// aSecret is what a secret can be.
const aSecret = "a text (put quotes around a number), or {file: /run/secrets/name}"

// maxSecret is how large the file of a secret can be: a key in PEM fits.
const maxSecret = 64 << 10

// secretText returns the text of one secret. Around one from the environment or
// a file white space is cut, since it got there by mistake, and would make
// every signature fail. There is none if it was left out by ${NAME:-}.
func (v value) secretText() (text string, ok bool) {
	if _, ok := v.isMapping(); ok {
		return v.secretFile()
	}
	raw, ok := v.raw()
	if !ok {
		v.wantType(aSecret)
		return "", false
	}
	s, optional, ok := v.expand(raw)
	if !ok || s == "" && optional {
		return "", false
	}
	if s == raw {
		return s, true
	}
	if s = v.trimmed(s, "an environment variable"); s == "" {
		v.wrong("empty, because an environment variable is: set it, or write ${NAME:-} if it may be missing")
		return "", false
	}
	return s, true
}

// secretFile reads {file: /path}.
func (v value) secretFile() (text string, ok bool) {
	m, ok := v.record(aSecret, "file")
	if !ok {
		return "", false
	}
	at := m.key("file")
	if !at.given() {
		at.wrong("missing: want {file: /run/secrets/name}")
		return "", false
	}
	var name string
	if !at.text(&name) {
		return "", false
	}
	if !filepath.IsAbs(name) { // and so no secret in a wrong place, which must not be repeated
		at.wrong("want an absolute path, such as /run/secrets/name")
		return "", false
	}
	data, err := readSecret(name)
	if err != nil {
		at.wrong("%s cannot be read: %s", name, err)
		return "", false
	}
	if text = at.trimmed(data, name); text == "" {
		at.wrong("%s is empty: write the secret into it", name)
		return "", false
	}
	return text, true
}

// readSecret reads a file of which nothing is ever said but its name. What is
// no file, such as a pipe, could keep the start waiting.
func readSecret(name string) (string, error) {
	if info, err := os.Stat(name); err != nil {
		return "", reason(err)
	} else if !info.Mode().IsRegular() {
		return "", errors.New("is not a file")
	}
	f, err := os.Open(name)
	if err != nil {
		return "", reason(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", reason(err)
	}
	if len(data) > maxSecret {
		return "", errors.New("is larger than 64 KiB")
	}
	return string(data), nil
}

// reason is an error without the path, which is named before.
func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// trimmed cuts white space around a secret, and says so.
func (v value) trimmed(s, where string) string {
	cut := strings.TrimSpace(s)
	if cut != s && cut != "" {
		v.doc.warn(v.line, "%swhite space around the secret in %s was cut off: was it written with a newline?", v.name, where)
	}
	return cut
}
