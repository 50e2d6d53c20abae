package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// A sender signs for a source.
type sender struct {
	source source.Source
	with   []*signature.Verifier // the first that can; none: nobody signs
}

func (s sender) sign(r signature.Request, id string) (signature.Request, error) {
	signed, err := r, error(nil)
	for _, v := range s.with {
		if signed, err = v.Sign(r, id, time.Now()); err == nil {
			break
		}
	}
	return signed, err
}

func (c *console) sender(s sending) (sender, error) {
	if s.provider != "" {
		return c.senderOf(s)
	}
	src, err := c.findSource(s.source)
	if err != nil || src.Verifier == nil {
		return sender{source: src}, err
	}
	return sender{source: src, with: []*signature.Verifier{src.Verifier}}, nil
}

// findPreset returns what is known of a provider.
func findPreset(provider string) (source.Preset, error) {
	p, ok := source.FindPreset(provider)
	if !ok {
		return source.Preset{}, fmt.Errorf("no provider is called %s: PROVIDERS.md lists all", provider)
	}
	return p, nil
}

// senderOf signs as a provider that no sources file need know.
func (c *console) senderOf(s sending) (sender, error) {
	p, err := findPreset(s.provider)
	if err != nil {
		return sender{}, err
	}
	secret, from, err := c.secretOf(s, p.Scheme)
	if err != nil {
		return sender{}, err
	}
	out := sender{source: p.Source(s.source)}
	p.Scheme.WebhookID = s.webhookID
	for _, scheme := range append([]signature.Scheme{p.Scheme}, p.Scheme.Or...) {
		scheme.Or = nil
		signer, err := scheme.Signer(secret)
		if err != nil {
			return sender{}, fmt.Errorf("%s: %s", from, strings.TrimPrefix(err.Error(), "secret 1: "))
		}
		out.with = append(out.with, signer)
	}
	return out, nil
}

// secretOf is what the provider signs with, and where that comes from.
func (c *console) secretOf(s sending, scheme signature.Scheme) (secret, from string, err error) {
	if s.privateKey != "" {
		text, err := os.ReadFile(s.privateKey)
		return strings.TrimSpace(string(text)), s.privateKey, err
	}
	if isPublic(scheme) {
		return "", "", fmt.Errorf("%s signs with a private key: name its file with --private-key, or make one with --new-private-key", s.provider)
	}
	name := cmp.Or(s.secretEnv, strings.ToUpper(strings.ReplaceAll(s.provider, "-", "_"))+"_SECRET")
	if secret = c.getenv(name); secret == "" {
		return "", "", fmt.Errorf("%s is not set: set it to a secret of the source, or name another variable with --secret-env", name)
	}
	return secret, name, nil
}

// isPublic reports whether a source of the scheme has public keys for secrets.
func isPublic(s signature.Scheme) bool {
	return s.Kind == signature.Ed25519 || s.Kind == signature.ECDSA || s.Kind == signature.RSA
}

// findSource reads the source as ingest does, so what it signs is what ingest
// checks.
func (c *console) findSource(name string) (source.Source, error) {
	environ := c.environ
	if file, err := c.setting("HOOKONCE_CONFIG"); err == nil {
		environ = with(environ, map[string]string{"HOOKONCE_CONFIG": file})
	}
	sources, err := config.ReadSources(environ)
	if err != nil {
		return source.Source{}, err
	}
	var names []string
	for _, src := range sources {
		if src.Name == name {
			return src, nil
		}
		names = append(names, src.Name)
	}
	return source.Source{}, fmt.Errorf("no source %s in the sources file: it has %s", name, strings.Join(names, ", "))
}
