package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/hookonce/hookonce/pkg/signature"
)

// newPrivateKey makes a key for a provider that has public keys, so that its
// source can be tried without the provider. It never overwrites a file.
func (c *console) newPrivateKey(s sending) error {
	if s.provider == "" {
		return errors.New("--new-private-key: say for which --provider")
	}
	p, err := findPreset(s.provider)
	if err != nil {
		return err
	}
	private, public, err := newKey(p.Scheme)
	if err != nil {
		return fmt.Errorf("%s: %w", s.provider, err)
	}
	f, err := os.OpenFile(s.newKey, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, writeErr := f.WriteString(private)
	if err := errors.Join(writeErr, f.Close()); err != nil {
		return err
	}
	c.printf("secrets: [%q]\n", public)
	return nil
}

// newKey returns the private half for a file, and the public half for secrets.
func newKey(s signature.Scheme) (private, public string, err error) {
	if s.PublicPrefix != "" {
		key, secret, err := ed25519.GenerateKey(rand.Reader)
		return "whsk_" + base64.StdEncoding.EncodeToString(secret) + "\n", "whpk_" + base64.StdEncoding.EncodeToString(key), err
	}
	var key crypto.Signer
	switch s.Kind {
	case signature.Ed25519:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case signature.ECDSA:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case signature.RSA:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	default:
		err = errors.New("signs with a shared secret: any text will do, see --secret-env")
	}
	if err != nil {
		return "", "", err
	}
	der, privateErr := x509.MarshalPKCS8PrivateKey(key)
	spki, publicErr := x509.MarshalPKIXPublicKey(key.Public())
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return string(text), base64.StdEncoding.EncodeToString(spki), errors.Join(privateErr, publicErr)
}
