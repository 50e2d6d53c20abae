package config_test

import (
	"regexp"
	"strings"
	"testing"
)

// Each case spoils one line of a valid file. The line of the error is that of
// the new text, unless its last line is meant.
func TestRefusal(t *testing.T) {
	const valid = `sources:
  shop:
    verify:
      scheme: hmac
      header: X-Signature
      signed: "{timestamp}.{body}"
      timestamp_header: X-Time
    secrets: ["${SHOP_SECRET}"]
    id: {json: /data/id}
    type: {json: /type}
    max_body: 2MiB
    max_retry: 8
    timeout: 10s
    concurrency: 16
    retention: 10m
    ack_status: 200
    headers: [X-A]
    handlers:
      - match: "payment.*"
        handler: payments
        amount: {json: /amount}
  hub:
    provider: github
    secrets: ["${GITHUB_SECRET}"]
  open:
    verify: none
    id: {header: X-Id}
    type: {header: X-Type}
`
	if _, err := parse(valid); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		old, new string
		want     string
	}{
		{"max_retry: 8", "max_retrys: 8", `:12: source shop: unknown key "max_retrys": want any of provider, verify, tolerance,`},
		{"max_retry: 8", "max_retry: 8\n    max_retry: 9", `:13: source shop: key "max_retry": is there already, in line 12`},
		{"max_retry: 8", "max_retry: -1", `:12: source shop: max_retry: want a whole number from 0 to 1000`},
		{"max_retry: 8", "max_retry: 1001", `:12: source shop: max_retry: want a whole number from 0 to 1000`},
		{"max_retry: 8", "max_retry: 8.0", `:12: source shop: max_retry: want a whole number`},
		{"max_retry: 8", "max_retry: 0x8", `:12: source shop: max_retry: want a whole number`},
		{"max_retry: 8", "max_retry: 010", `:12: source shop: max_retry: want a whole number`},
		{"max_retry: 8", "max_retry: 1_0", `:12: source shop: max_retry: want a whole number`},
		{"max_retry: 8", "max_retry: 99999999999999999999", `:12: source shop: max_retry: want a whole number`},
		{"max_retry: 8", `max_retry: "8"`, `:12: source shop: max_retry: want a whole number from 0 to 1000, without quotes`},
		{"max_retry: 8", "max_retry:", `:12: source shop: max_retry: want a whole number`},
		{"max_retry: 8", "max_retry: true", `:12: source shop: max_retry: want a whole number`},
		{"max_retry: 8", "max_retry: [8]", `:12: source shop: max_retry: want a whole number`},
		{"max_retry: 8", "max_retry: &eight 8", `:12: source shop: max_retry: anchors, aliases and tags are not supported: write a whole number`},
		{"max_retry: 8", "max_retry: ${NOT_SET}", `:12: source shop: max_retry: the environment variable NOT_SET is not set: set it, or write ${NOT_SET:-} if it may be missing`},
		{"max_retry: 8", "max_retry: ${}", `:12: source shop: max_retry: ${ that is not a variable: want ${NAME} or ${NAME:-text}`},
		{"max_retry: 8", "max_retry: ${EIGHT", `:12: source shop: max_retry: ${ that is not a variable`},
		{"max_retry: 8", "max_retry: ${SHOP_SECRET}", `:12: source shop: max_retry: want a whole number`},
		{"max_retry: 8", "<<: {max_retry: 8}", `:12: source shop: anchors, aliases and tags are not supported: write plain text as the key`},
		{"max_body: 2MiB", "max_body: 0", `:11: source shop: max_body: want bytes, or such as 512KiB, 2MiB or 1MB, up to 64MiB`},
		{"max_body: 2MiB", "max_body: 65MiB", `:11: source shop: max_body: want bytes`},
		{"max_body: 2MiB", "max_body: 2mib", `:11: source shop: max_body: want bytes`},
		{"max_body: 2MiB", "max_body: 1.5MiB", `:11: source shop: max_body: want bytes`},
		{"max_body: 2MiB", "max_body: 999999999999999999999", `:11: source shop: max_body: want bytes`},
		{"timeout: 10s", "timeout: 10", `:13: source shop: timeout: want a duration from 1s to 15m, such as 10s`},
		{"timeout: 10s", "timeout: 999ms", `:13: source shop: timeout: want a duration`},
		{"timeout: 10s", "timeout: 15m1s", `:13: source shop: timeout: want a duration`},
		{"concurrency: 16", "concurrency: 0", `:14: source shop: concurrency: want a whole number from 1 to 1000`},
		{"retention: 10m", "retention: 1500ms", `:15: source shop: retention: want whole seconds from 0 to 24h, such as 10m`},
		{"retention: 10m", "retention: 25h", `:15: source shop: retention: want whole seconds`},
		{"ack_status: 200", "ack_status: 201", `:16: source shop: ack_status: want one of 200, 202, 204`},
		{"headers: [X-A]", "headers: X-A", `:17: source shop: headers: want a list of the headers to keep`},
		{"headers: [X-A]", "headers: [X-A, X B]", `:17: source shop: headers: entry 2: is not the name of a header`},
		{"headers: [X-A]", `headers: [""]`, `:17: source shop: headers: entry 1: must not be empty`},
		{"headers: [X-A]", `headers: [7]`, `:17: source shop: headers: entry 1: want a text (put quotes around a number)`},
		{`match: "payment.*"`, `match: ""`, `:19: source shop: handlers: entry 1: match: must not be empty`},
		{`match: "payment.*"`, `handlr: x`, `:19: source shop: handlers: entry 1: match: missing: say which types of event`},
		{"handler: payments", "handler: forward", `:20: source shop: handlers: entry 1: handler: want one of payments`},
		{"amount: {json: /amount}", "amount: /amount", `:21: source shop: handlers: entry 1: amount: want {json: /pointer}`},
		{"amount: {json: /amount}", "amount: {}", `:21: source shop: handlers: entry 1: amount: want {json: /pointer}`},
		{"amount: {json: /amount}", "amount: {json: amount}", `:21: source shop: handlers: entry 1: amount: json: is not a JSON pointer: want such as /data/id`},
		{"id: {json: /data/id}", "id: {json: /a, header: X}", `:9: source shop: id: want {json: /pointer}, {header: X-Name} or {form: field}, one of them`},
		{"id: {json: /data/id}", "id: {}", `:9: source shop: id: want {json: /pointer}, {header: X-Name} or {form: field}, one of them`},
		{"id: {json: /data/id}", "id: /data/id", `:9: source shop: id: want {json: /pointer}, {header: X-Name} or {form: field}, or a list of them`},
		{"id: {json: /data/id}", `id: {json: ""}`, `:9: source shop: id: json: must not be empty`},
		{"id: {json: /data/id}", "id: {jsn: /a}", `:9: source shop: id: unknown key "jsn": want any of json, header`},
		{"id: {json: /data/id}", "# no id", `:2: source shop: id: missing: say where the id of an event is`},
		{"type: {json: /type}", "# no type", `:2: source shop: type: missing: say where the type of an event is`},
		{`secrets: ["${SHOP_SECRET}"]`, "# no secrets", `:2: source shop: secrets: missing: write secrets: ["${SHOP_SECRET}"] and set the environment variable SHOP_SECRET`},
		{`["${SHOP_SECRET}"]`, "[]", `:8: source shop: secrets: no secret is left`},
		{`["${SHOP_SECRET}"]`, "", `:8: source shop: secrets: want a list of texts`},
		{`["${SHOP_SECRET}"]`, `["${EMPTY:-}", "${NONE:-}"]`, `:8: source shop: secrets: no secret is left: set one of the environment variables`},
		{`["${SHOP_SECRET}"]`, `["${EMPTY}"]`, `:8: source shop: secrets: entry 1: empty, because an environment variable is: set it, or write ${NAME:-}`},
		{`["${SHOP_SECRET}"]`, `[""]`, `:8: source shop: secrets: entry 1: empty`},
		{`["${SHOP_SECRET}"]`, `["x", " y"]`, `:8: source shop: secrets: entry 2: white space before or after it`},
		{`["${SHOP_SECRET}"]`, `["  "]`, `:8: source shop: secrets: entry 1: blank`},
		{`["${SHOP_SECRET}"]`, `["${SHOP_SECRT}"]`, `:8: source shop: secrets: entry 1: the environment variable SHOP_SECRT is not set`},
		{`["${SHOP_SECRET}"]`, "\n      - x\n      - 12345", `:10: source shop: secrets: entry 2: want a text (put quotes around a number)`},
		{`["${SHOP_SECRET}"]`, `{a: "${SHOP_SECRET}"}`, `:8: source shop: secrets: unknown key "a": want any of file`},
		{"scheme: hmac", "scheme: rot13", `:4: source shop: verify: scheme: want one of hmac, hash, token, basic, ed25519, ecdsa, rsa,`},
		{"scheme: hmac", "tolerance: 1m", `:3: source shop: verify: scheme: missing: want one of hmac`},
		{"scheme: hmac", "scheme: stripe", `:5: source shop: verify: header: the scheme stripe says this itself: leave it out`},
		{"header: X-Signature", "header: X Signature", `:5: source shop: verify: header: is not the name of a header`},
		{"header: X-Signature", "# no header", `:3: source shop: verify: header: missing: say which header has the signature`},
		{"header: X-Signature", "header: X-Signature\n      algorithm: md5", `:6: source shop: verify: algorithm: want sha1, sha256 or sha512`},
		{"header: X-Signature", "header: X-Signature\n      algorithm: ${SHOP_SECRET}", `:6: source shop: verify: algorithm: want sha1`},
		{"header: X-Signature", "header: X-Signature\n      key_encoding: base32", `:6: source shop: verify: key encoding: want hex, base64, whsec or none`},
		{"header: X-Signature", "header: X-Signature\n      key_encoding: hex", `:9: source shop: secrets: entry 1: cannot be decoded as hex`},
		{"header: X-Signature", "header: X-Signature\n      prefix_optional: yes", `:6: source shop: verify: prefix_optional: want true or false`},
		{"header: X-Signature", "header: X-Signature\n      tolerance: 1ms", `:6: source shop: verify: tolerance: want whole seconds from 0 (no check) on`},
		{"{timestamp}.{body}", "{timestamp}", `:6: source shop: verify: signed: without {body} anybody could change the body`},
		{"{timestamp}.{body}", "{body}", `:6: source shop: verify: signed: the timestamp is read, but {timestamp} is not signed`},
		{"{timestamp}.{body}", "{${SHOP_SECRET}}{body}", `:6: source shop: verify: signed: is nothing that can be signed: want {body}, {id}`},
		{"provider: github", "provider: girhub", `:23: source hub: provider: no provider is called that: did you mean github?`},
		{"provider: github", "provider: github\n    verify: none", `:24: source hub: verify: the provider already says how deliveries are signed`},
		{"provider: github", "# no provider", `:22: source hub: neither provider nor verify: say verify: none if nobody signs`},
		{"verify: none", "verify: none\n    secrets: x", `:27: source open: secrets: would be ignored because of verify: none`},
		{"verify: none", "verify: hmac", `:26: source open: verify: want none, or a mapping such as {scheme: hmac, header: X-Signature}`},
		{"verify: none", "verify:", `:26: source open: verify: want none, or a mapping`},
		{"  hub:", "  Hub:", `:22: source: want a name of a-z, 0-9, _ and -, at most 64 bytes: [a-z0-9_-]{1,64}`},
		{"  hub:", "  shop:", `:22: sources: key "shop": is there already, in line 2`},
		{"  hub:", "  ? [hub]\n  :", `:23: is not YAML: found an invalid key for this map`},
		{"  hub:", "  nul:\n  hub:", `:22: source nul: want a mapping`},
		{"  hub:", "\thub:", `:22: is not YAML: found character`},
		{"  hub:", "  hub: x", `:22: is not YAML: `},
		{"  hub:", "  h\x00b:", `:22: has a control character`},
		{"  hub:", "  h\xffb:", `:22: is not UTF-8`},
		{"sources:", "version: 1\nsources:", `:1: unknown key "version": want any of sources`},
		{"  open:", "---\nsources:\n  open:", `a second document: want one`},
		{`["${SHOP_SECRET}"]`, "[${SHOP_SECRET}]", `put quotes around it: "${VAR}"`},
		{`["${SHOP_SECRET}"]`, `["` + canary, `: is not YAML`},
		{`["${SHOP_SECRET}"]`, `|` + canary, `:8: is not YAML: invalid header option`},
	}
	for _, tt := range tests {
		if strings.Count(valid, tt.old) < 1 {
			t.Fatalf("%q is not in the file", tt.old)
		}
		_, err := parse(strings.Replace(valid, tt.old, tt.new, 1))
		if err == nil {
			t.Errorf("%q: no error, want %q", tt.new, tt.want)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "hookonce.yaml:") {
			t.Errorf("%q: got\n%v\nwant %q", tt.new, err, tt.want)
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("%q: %v: has a secret", tt.new, err)
		}
	}
}

func TestNoSources(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "hookonce.yaml:1: no sources: want sources: with the name of one under it",
		"# nothing\n":         "hookonce.yaml:1: no sources: want sources: with the name of one under it",
		"{}":                  "hookonce.yaml:1: no sources: want sources: with the name of one under it",
		"\nsources: {}\n":     "hookonce.yaml:2: sources: no sources: want sources: with the name of one under it",
		"sources:\n":          "hookonce.yaml:1: sources: want a mapping of the sources by their names",
		"- sources\n":         "hookonce.yaml:1: want a mapping with the key sources",
		canary:                "hookonce.yaml:1: want a mapping with the key sources",
		canary + ": 1\n":      "hookonce.yaml:1: unknown key (not shown): want any of sources\nhookonce.yaml:1: no sources: want sources: with the name of one under it",
		"sources: &a {}\n":    "hookonce.yaml:1: sources: anchors, aliases and tags are not supported: write a mapping of the sources by their names",
		"sources: {1: {}}\n":  "hookonce.yaml:1: source 1: neither provider nor verify: say verify: none if nobody signs",
		"sources: {? [a]}\n":  "hookonce.yaml:1: is not YAML: unexpected scalar value type",
		"sources: {a: {b}}\n": "",
	} {
		_, err := parse(text)
		if err == nil || want != "" && err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// All mistakes are said at once, by line, and none for two reasons.
func TestAllAtOnce(t *testing.T) {
	_, err := parse(`sources:
  github:
    provider: githb
    secrets: ["${NOPE}", "${PADDED}"]
    max_body: huge
  shop:
    timeout: 1h
    verify: {scheme: hmac, header: X-Sig, algorithm: md5, encoding: base32}
    colour: red
  Third: {verify: none, id: {json: id}, type: {header: ""}, secrets: x}
`)
	want := strings.TrimSpace(`
hookonce.yaml:3: source github: provider: no provider is called that: did you mean github? PROVIDERS.md lists all
hookonce.yaml:4: source github: secrets: entry 1: the environment variable NOPE is not set: set it, or write ${NOPE:-} if it may be missing
hookonce.yaml:5: source github: max_body: want bytes, or such as 512KiB, 2MiB or 1MB, up to 64MiB
hookonce.yaml:6: source shop: id: missing: say where the id of an event is, such as id: {json: /id}, or {header: X-Event-Id}, or id: content
hookonce.yaml:6: source shop: type: missing: say where the type of an event is, such as type: {json: /type}, or {header: X-Event-Type}
hookonce.yaml:6: source shop: secrets: missing: write secrets: ["${SHOP_SECRET}"] and set the environment variable SHOP_SECRET
hookonce.yaml:7: source shop: timeout: want a duration from 1s to 15m, such as 10s
hookonce.yaml:8: source shop: verify: algorithm: want sha1, sha256 or sha512
hookonce.yaml:8: source shop: verify: encoding: want hex or base64
hookonce.yaml:9: source shop: unknown key "colour": want any of (the keys)
hookonce.yaml:10: source: want a name of a-z, 0-9, _ and -, at most 64 bytes: [a-z0-9_-]{1,64}
hookonce.yaml:10: source: type: header: must not be empty
hookonce.yaml:10: source: id: json: is not a JSON pointer: want such as /data/id, with ~1 for a / in a key and ~0 for a ~
hookonce.yaml:10: source: secrets: would be ignored because of verify: none: leave one of the two out`)
	if err == nil {
		t.Fatal("no error")
	}
	// The list that grows with the program is not repeated here.
	got := regexp.MustCompile(`want any of provider, .*`).ReplaceAllString(err.Error(), "want any of (the keys)")
	if got != want {
		t.Errorf("got\n%v\nwant\n%s", got, want)
	}
}

// Whatever one character breaks, and wherever a secret is put, no error says it.
func TestCanary(t *testing.T) {
	const file = "sources:\n  a:\n    provider: github\n    secrets: \"" + canary + "\"\n" +
		"  b:\n    verify: {scheme: hmac, header: X, signed: \"{body}\"}\n    secrets:\n    - \"${SHOP_SECRET}\"\n    - " + canary + "\n" +
		"    id: {json: /id}\n    type: {json: /type}\n    handlers:\n    - {match: \"*\", handler: payments}\n"
	if _, err := parse(file); err != nil {
		t.Fatal(err)
	}
	check := func(text string) {
		t.Helper()
		if _, err := parse(text); err != nil && strings.Contains(err.Error(), canary) {
			t.Fatalf("%v: has a secret, of\n%s", err, text)
		}
	}
	for i := range len(file) {
		check(file[:i])
		check(file[:i] + file[i+1:])
		for _, c := range "\"'{[:,#&!|\\ \n$" {
			check(file[:i] + string(c) + file[i:])
		}
	}
	for _, word := range []string{
		"github", "hmac", "X", "{body}", "/id", "/type", "payments", "*", canary,
		"provider", "verify", "secrets", "scheme", "signed", "match", "handler", "a:", "b:", "sources",
	} {
		for _, to := range []string{canary, "${SHOP_SECRET}", "${PADDED}", `"${PADDED}"`, "|" + canary, "!" + canary, "&" + canary, "*" + canary} {
			check(strings.ReplaceAll(file, word, to))
			check(strings.Replace(file, word, to, 1))
		}
	}
}

func FuzzParseSources(f *testing.F) {
	f.Add([]byte(design))
	f.Add([]byte("a: [{b: c}, &d e, *d, !!str f, \"g\\x41\", 'h', |\n  i\n]"))
	f.Add([]byte("? a\n: - - b\n  - >-\n   c\n<<: {d: 0x1}\n---\n..."))
	f.Add([]byte("sources:\r\n  a: {verify: none, timeout: ${B:-1s}}\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sources, err := parse(string(data))
		if (err == nil) != (len(sources) > 0) {
			t.Errorf("%d sources and %v", len(sources), err)
		}
		if err != nil && strings.Contains(err.Error(), canary) && !strings.Contains(string(data), canary) {
			t.Errorf("%v: has a secret", err)
		}
	})
}
