package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

var (
	errPrivate    = errors.New("is a private key, which only the sender should have: want the public one")
	errPublicOnly = errors.New("is a public key, which cannot sign: want the private one")
)

func isPEM(secret string) bool { return strings.HasPrefix(strings.TrimSpace(secret), "-----BEGIN ") }

// publicKey reads a key of the scheme's kind.
func (s Scheme) publicKey(secret string, signer bool) (key, error) {
	parsed, ok := parseKey(secret, s.Kind == Ed25519, signer)
	if !ok {
		return key{}, fmt.Errorf("cannot be decoded as a key: want PEM, or the base64 between its first and last line%s",
			map[bool]string{true: ", or 32 bytes in hex or base64"}[s.Kind == Ed25519])
	}
	if p, isPrivate := parsed.(crypto.Signer); isPrivate {
		if !signer {
			return key{}, errPrivate
		}
		return private(p), s.checkKind(p.Public())
	}
	if signer {
		return key{}, errPublicOnly
	}
	return key{public: parsed}, s.checkKind(parsed)
}

func private(p crypto.Signer) key { return key{public: p.Public(), private: p} }

func (s Scheme) checkKind(public crypto.PublicKey) error {
	var is Kind
	switch public.(type) {
	case ed25519.PublicKey:
		is = Ed25519
	case *ecdsa.PublicKey:
		is = ECDSA
	case *rsa.PublicKey:
		is = RSA
	}
	if is != s.Kind {
		return fmt.Errorf("is a key of another kind: want one of %s", s.Kind)
	}
	return nil
}

// parseKey reads a key in any of the forms in which providers show one. raw is
// whether 32 bytes are a key of Ed25519, of which seed says which half.
func parseKey(secret string, raw, seed bool) (any, bool) {
	if isPEM(secret) {
		// An environment variable often has \n in the place of newlines.
		block, rest := pem.Decode([]byte(strings.ReplaceAll(secret, `\n`, "\n")))
		if block == nil || strings.TrimSpace(string(rest)) != "" && block.Type != "CERTIFICATE" {
			return nil, false
		}
		return parseDER(block.Bytes)
	}
	der, ok := decodeHex(secret)
	if !ok || !raw {
		if der, ok = decodeBase64(secret); !ok {
			return nil, false
		}
	}
	switch {
	case raw && len(der) == ed25519.SeedSize && seed:
		return ed25519.NewKeyFromSeed(der), true
	case raw && len(der) == ed25519.PublicKeySize:
		return ed25519.PublicKey(der), true
	}
	return parseDER(der)
}

func parseDER(der []byte) (any, bool) {
	if k, err := x509.ParsePKIXPublicKey(der); err == nil {
		return k, true
	}
	if k, err := x509.ParsePKCS1PublicKey(der); err == nil {
		return k, true
	}
	if c, err := x509.ParseCertificate(der); err == nil {
		return c.PublicKey, true
	}
	if k, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return k, true
	}
	if k, err := x509.ParseECPrivateKey(der); err == nil {
		return k, true
	}
	if k, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return k, true
	}
	return nil, false
}

// good reports whether the holder of the key signed text.
func (s *Scheme) good(public crypto.PublicKey, text, signature []byte) bool {
	switch k := public.(type) {
	case ed25519.PublicKey:
		return ed25519.Verify(k, text, signature)
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(k, s.digest(text), signature)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(k, hashes[s.Algorithm], s.digest(text), signature) == nil
	}
	return false
}

func (s *Scheme) digest(text []byte) []byte {
	h := hashes[s.Algorithm].New()
	h.Write(text)
	return h.Sum(nil)
}

// signText is the other half of good.
func (s *Scheme) signText(k crypto.Signer, text []byte) ([]byte, error) {
	if _, ok := k.(ed25519.PrivateKey); ok {
		return k.Sign(rand.Reader, text, crypto.Hash(0))
	}
	return k.Sign(rand.Reader, s.digest(text), hashes[s.Algorithm])
}
