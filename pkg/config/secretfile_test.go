package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/config"
)

// secretFile writes a file and returns its path.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// A59: a secret that came with a newline is cut, and that is said; it is the
// same key in each form.
func TestSecretFile(t *testing.T) {
	want, err := parse(one("a", "provider: github", "secrets: "+canary))
	if err != nil {
		t.Fatal(err)
	}
	signed := sign(t, want[0].Verifier, "", "{}", time.Now())
	file := func(text string) string { return "{file: " + secretFile(t, text) + "}" }
	tests := []struct {
		name, secrets, variable string
		warns                   bool
	}{
		{"plain", file(canary), "", false},
		{"newline", file(canary + "\n"), "", true},
		{"carriage return", file(canary + "\r\n"), "", true},
		{"space before", file(" " + canary), "", true},
		{"in a list", "[" + file(canary) + "]", "", false},
		{"beside another", "[other, " + file(canary+"\n") + "]", "", true},
		{"by a variable", "[{file: \"${FROM}\"}]", secretFile(t, canary), false},
		{"variable", "[\"${FROM}\"]", canary, false},
		{"variable with a newline", "[\"${FROM}\"]", canary + "\n", true},
		{"variable with a space before", "${FROM}", "\t" + canary, true},
		{"variable that may be missing", "[\"${FROM:-}\"]", canary + "\n", true},
	}
	for _, tt := range tests {
		inFolder(t, map[string]string{"hookonce.yaml": one("a", "provider: github", "secrets: "+tt.secrets)})
		got, err := config.ReadIngest([]string{redisURL, "FROM=" + tt.variable})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if err := got.Sources[0].Verifier.Verify(signed, time.Now()); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if (len(got.Warnings) == 1) != tt.warns {
			t.Errorf("%s: warnings %q", tt.name, got.Warnings)
		}
		for _, w := range got.Warnings {
			if !strings.HasPrefix(w, "hookonce.yaml:4: source a: secrets: ") || !strings.Contains(w, "was cut off") || strings.Contains(w, canary) {
				t.Errorf("%s: warning %q", tt.name, w)
			}
		}
	}
}

// The token of a handshake is a secret too: it comes from where secrets do, and
// is in nothing that is printed.
func TestVerifyTokenIsASecret(t *testing.T) {
	t.Parallel()
	for _, token := range []string{canary, "{file: " + secretFile(t, canary+"\n") + "}"} {
		got, err := parse(one("a", "verify: none", "id: {json: /id}", "type: {json: /type}", "handshake: meta", "verify_token: "+token))
		if err != nil {
			t.Errorf("%s: %v", strings.ReplaceAll(token, canary, "…"), err)
			continue
		}
		if got[0].VerifyToken != canary {
			t.Error("another token")
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			if text := fmt.Sprintf(verb, got[0]); strings.Contains(text, canary) {
				t.Errorf("%s prints the token", verb)
			}
		}
	}
}

func TestSecretFileRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	none, empty, blank, large := filepath.Join(folder, "none"), secretFile(t, ""), secretFile(t, " \n"), secretFile(t, strings.Repeat("x", 64<<10+1))
	tests := []struct{ secrets, want string }{
		{"{file: " + none + "}", "file: " + none + " cannot be read: no such file or directory"},
		{"{file: " + folder + "}", "file: " + folder + " cannot be read: is not a file"},
		{"{file: " + pipe + "}", "file: " + pipe + " cannot be read: is not a file"},
		{"{file: " + empty + "}", "file: " + empty + " is empty: write the secret into it"},
		{"{file: " + blank + "}", "file: " + blank + " is empty: write the secret into it"},
		{"{file: " + large + "}", "file: " + large + " cannot be read: is larger than 64 KiB"},
		{"{file: " + canary + "}", "file: want an absolute path, such as /run/secrets/name"},
		{"{file: \"\"}", "file: must not be empty"},
		{"{}", "file: missing: want {file: /run/secrets/name}"},
		{"[{file: " + none + "}]", "entry 1: file: " + none + " cannot be read: no such file or directory"},
		{"[[x]]", "entry 1: want a text (put quotes around a number), or {file: /run/secrets/name}"},
	}
	for _, tt := range tests {
		_, err := parse(one("a", "provider: github", "secrets: "+tt.secrets))
		if want := "hookonce.yaml:4: source a: secrets: " + tt.want; fmt.Sprint(err) != want {
			t.Errorf("%s: got %v, want %s", tt.secrets, err, want)
		}
	}
}

// An address is no signature, and unsigned is said.
func TestUnsignedWarns(t *testing.T) {
	for lines, want := range map[string]string{
		"":                          "source a: nobody signs its deliveries: whoever knows its address can send them",
		"allow_ips: [192.0.2.0/24]": "source a: nobody signs its deliveries: allow_ips alone does not prove who sent them",
	} {
		inFolder(t, map[string]string{"hookonce.yaml": one("a", append(unsigned, lines)...)})
		got, err := config.ReadIngest([]string{redisURL})
		if err != nil || len(got.Warnings) != 1 || got.Warnings[0] != want {
			t.Errorf("%q: warnings %q, %v, want %q", lines, got.Warnings, err, want)
		}
	}
}
