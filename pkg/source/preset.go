package source

import (
	"maps"
	"slices"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/signature"
)

// presets is the table of providers. It says the same as their documentation,
// which each entry names.
func presets() map[string]Preset {
	all := map[string]Preset{}
	for _, part := range []map[string]Preset{hosts(), cashiers(), mailers(), talkers(), offices(), trackers(), standards()} {
		maps.Copy(all, part)
	}
	for name, of := range aliases() {
		all[name] = all[of]
	}
	return all
}

// aliases are other names of providers, which people look for.
func aliases() map[string]string {
	return map[string]string{
		"coinbase":      "coinbase-commerce",
		"paddlebilling": "paddle",
	}
}

// AliasOf returns the name of which name is another one, or "".
func AliasOf(name string) string { return aliases()[name] }

// FindPreset returns what is known of a provider.
func FindPreset(provider string) (Preset, bool) {
	p, ok := presets()[provider]
	return p, ok
}

// Providers lists the names of all presets, sorted.
func Providers() []string { return slices.Sorted(maps.Keys(presets())) }

// Proven reports whether the scheme was tried with something that is not ours.
func (p Preset) Proven() bool { return p.Proof != "" }

func inHeader(name string) Locator  { return Locator{Header: name} }
func inBody(pointer string) Locator { return Locator{JSON: Pointer(pointer)} }
func inForm(field string) Locator   { return Locator{Form: field} }

// list is where the events of a delivery are; "" for the whole document.
func list(pointer string) *Locator { return &Locator{JSON: Pointer(pointer)} }

// envelope is in the document around the events.
func envelope(pointer string) Locator { return Locator{JSON: Pointer(pointer), Envelope: true} }

func optional(l Locator) Locator { l.Optional = true; return l }
func number(l Locator) Locator   { l.Number = true; return l }

// either is the first of several places at which there is anything.
func either(first Locator, others ...Locator) Locator {
	first.Optional, first.Or = true, append(first.Or, others...)
	return first
}

// content is the hash of the event's own bytes.
func content() Locator { return Locator{Content: true} }

func pointers(texts ...string) []payload.Pointer {
	var all []payload.Pointer
	for _, text := range texts {
		all = append(all, Pointer(text))
	}
	return all
}

// hmacHex is the scheme of those that sign the body alone with HMAC-SHA256, and
// write it in hex after a prefix.
func hmacHex(header, prefix string) signature.Scheme {
	return signature.Scheme{Header: header, Algorithm: "sha256", Encoding: "hex", Prefix: prefix}
}

// hmac64 is the same in base64.
func hmac64(header string) signature.Scheme {
	return signature.Scheme{Header: header, Algorithm: "sha256", Encoding: "base64"}
}

// tokenIn is the scheme of those that send the secret itself.
func tokenIn(header string) signature.Scheme {
	return signature.Scheme{Kind: signature.Token, Header: header}
}

// basic is the scheme of those that send name and password.
func basic() signature.Scheme {
	return signature.Scheme{Kind: signature.Basic, Header: "Authorization"}
}
