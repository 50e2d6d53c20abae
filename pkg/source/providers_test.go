package source_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/source"
)

var update = flag.Bool("update", false, "write PROVIDERS.md")

// PROVIDERS.md says what the table of presets says.
func TestProvidersPage(t *testing.T) {
	t.Parallel()
	want := providersPage()
	file := filepath.Join("..", "..", "PROVIDERS.md")
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("PROVIDERS.md is stale (%v): go test ./pkg/source -run Providers -update", err)
	}
}

const intro = `# Providers

Made from the table in pkg/source by ` + "`go test ./pkg/source -run Providers -update`" + `. Three lines each in the sources file:

` + "```yaml" + `
sources:
  github:                              # the address is https://YOUR-HOST/webhooks/github
    provider: github                   # a name from this page
    secrets: ["${GITHUB_SECRET}"]      # what the provider signs with, or its public key
` + "```" + `

**Proven** schemes were tried with vectors or libraries that are not ours; the others follow the provider's documentation
and say so in the log when ingest starts. ` + "`hookonce send --provider NAME`" + ` posts an event as the provider would. **Id** is what two
copies of one event have in common. Where the signature does not cover it, somebody who recorded a delivery can send it
under another id: the same signed bytes are then recognised for the time under *replays*, as far as Redis remembers.
"–" means that the provider does not publish it, or that we do not know.

`

func providersPage() []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	b.WriteString("| name | proven | id | id signed | waits | tries again | to be asked for what was lost |\n|---|---|---|---|---|---|---|\n")
	var names []string
	for _, name := range source.Providers() {
		if source.AliasOf(name) != "" {
			continue
		}
		p, _ := source.FindPreset(name)
		names = append(names, name)
		fmt.Fprintf(&b, "| [%[1]s](#%[1]s) | %[2]s | %[3]s | %[4]s | %[5]s | %[6]s | %[7]s |\n", name, yes(p.Proven()), places(p), yes(p.IDSigned()),
			cmp.Or(p.Timeout, "–"), cmp.Or(p.Retries, "–"), yes(p.Redeliver != ""))
	}
	for _, name := range names {
		writeProvider(&b, name)
	}
	b.WriteString(leftOut)
	return b.Bytes()
}

func writeProvider(b *bytes.Buffer, name string) {
	p, _ := source.FindPreset(name)
	fmt.Fprintf(b, "\n## %s\n\n[%s](%s)", name, p.Title, p.Page)
	for _, alias := range source.Providers() {
		if source.AliasOf(alias) == name {
			fmt.Fprintf(b, ", also called %s", alias)
		}
	}
	line := func(what, text string) {
		if text != "" {
			fmt.Fprintf(b, "- **%s:** %s\n", what, text)
		}
	}
	b.WriteString("\n\n")
	line("set up", p.Setup)
	line("signed", schemes(p.Scheme))
	line("id", identity(p))
	line("type", typePlaces(p))
	line("body", body(p))
	line("handshake", handshakes[p.Handshake])
	line("wants", cmp.Or(p.Wants, "2xx")+", within "+cmp.Or(p.Timeout, "a time that it does not publish"))
	line("tries again", cmp.Or(p.Retries, "–"))
	line("what was lost", p.Redeliver)
	line("replays", replays(p))
	line("proven by", cmp.Or(p.Proof, "nothing yet: **unproven**"))
	line("note", p.Notes)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func places(p source.Preset) string {
	var parts []string
	for _, l := range p.ID {
		parts = append(parts, place(l))
	}
	return strings.Join(parts, " + ")
}

func place(l source.Locator) string {
	var s string
	switch {
	case l.Header != "":
		s = "`" + l.Header + "`"
	case l.Form != "":
		s = "field `" + l.Form + "`"
	case l.Text != "":
		s = "always `" + l.Text + "`"
	case l.Content:
		s = "SHA-256 of the event"
	case l.Delivery:
		s = "a new one for each delivery"
	default:
		s = "`" + l.JSON.String() + "`"
	}
	if s == "``" {
		s = "the whole body"
	}
	for _, other := range l.Or {
		s += ", or " + place(other)
	}
	return s
}

func identity(p source.Preset) string {
	s := places(p)
	if p.IDSigned() {
		s += ", signed"
	} else {
		s += ", not signed"
	}
	if len(p.IgnoreFields) > 0 {
		var names []string
		for _, f := range p.IgnoreFields {
			names = append(names, "`"+f.String()+"`")
		}
		s += "; copies may differ in " + strings.Join(names, ", ")
	}
	return s
}

func typePlaces(p source.Preset) string {
	var parts []string
	for i, l := range p.Type {
		s := place(l)
		if i > 0 && l.Optional {
			s += " if it is there"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", then ")
}

func body(p source.Preset) string {
	names := map[source.Kind]string{source.JSON: "JSON", source.Form: "form", source.Opaque: "anything"}
	kinds := []string{}
	for _, k := range p.Content {
		kinds = append(kinds, names[k])
	}
	s := cmp.Or(strings.Join(kinds, " or "), "JSON")
	if p.PayloadField != "" {
		s += ", with JSON in its field `" + p.PayloadField + "`"
	}
	if len(p.MediaTypes) > 0 {
		s += ", also as " + strings.Join(p.MediaTypes, ", ")
	}
	if p.Items != nil {
		s += "; a batch, each element of " + place(*p.Items) + " is an event"
	}
	return s
}

var handshakes = map[source.Handshake]string{
	source.HandshakeSlack:   "`url_verification`: its challenge is sent back",
	source.HandshakeMeta:    "GET with `hub.challenge`: sent back if its token is `verify_token` of the source",
	source.HandshakeZoom:    "`endpoint.url_validation`: its token is signed and sent back",
	source.HandshakeDiscord: "PING: answered",
	source.HandshakeXero:    "intent to receive: 200 to a good signature, 401 to a bad one",
	source.HandshakeDropbox: "GET with `challenge`: sent back",
	source.HandshakeSNS:     "`SubscriptionConfirmation`: the address to open is in the log, and never opened by us",
	source.HandshakeProbe:   "GET and HEAD: 200",
}

func replays(p source.Preset) string {
	switch {
	case p.IDSigned():
		return "are duplicates for ever: the id is signed"
	case len(p.ID) > 0 && p.ID[0].Delivery:
		return "run again: there is no id"
	case p.Scheme.Tolerance > 0:
		return "under another id are new events for " + short(p.Scheme.Tolerance) + ", then refused as too old"
	case p.Replay > 0:
		return "under another id are recognised for " + short(p.Replay)
	}
	return "under another id are new events"
}

func short(d time.Duration) string {
	if d%time.Hour == 0 {
		return strings.TrimSuffix(d.String(), "0m0s")
	}
	return strings.TrimSuffix(d.String(), "0s")
}

const leftOut = `
## Left out

| provider | why, and what to do |
|---|---|
| AWS SNS, and Amazon SES through it | its messages are signed with a certificate that has to be fetched from an address in the message |
| Mollie, classic webhooks | a form with the id of a payment, unsigned, the same at each change of it: ` + "`verify: none`, `content: [form]`, `id: delivery`, `type: {text: payment}`" + `, and a handler that asks Mollie what became of it |
| Plaid, eBay, Kinde | signed with a key that has to be fetched from the provider first |
| Monday, Netlify, Vonage, MessageBird, Wix, Jira Connect | signed as a JSON Web Token |
| Paddle Classic | a PHP serialisation of the form is signed with RSA |
| Brevo, Pipedrive, Mailjet, Azure DevOps, Chargebee, Auth0, Datadog, Okta | no signature, but a header or a password of your own choice: ` + "`verify: {scheme: token, …}` or `{scheme: basic}`" + ` |
| Docker Hub, Supabase database webhooks, Deepgram, BigCommerce | no signature: ` + "`verify: none`" + `, better behind a header of your own choice |
| Attio, Close, Commerce Layer, ElevenLabs, Mailersend, Mailtrap, Postal, Recall.ai, Retell, Unisender Go, Vapi | no source for every detail yet: describe them under ` + "`verify`" + ` |
`
