package signature

import (
	"crypto"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// A key is a secret, ready for use: bytes that are shared, or a public key.
type key struct {
	shared  []byte // of Token and Basic: a hash of it, so that all have one length
	public  crypto.PublicKey
	private crypto.Signer // only of a signer
}

// keys decodes the secrets. Its errors number the secrets from 1 and quote
// nothing of them; so they wrap no error of a decoder, which would.
func (s Scheme) keys(secrets []string, signer bool) ([]key, error) {
	var errs []error
	if len(secrets) == 0 {
		errs = append(errs, errors.New("no secret"))
	}
	keys := make([]key, 0, len(secrets))
	for i, secret := range secrets {
		key, err := s.key(secret, signer)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %d: %w", i+1, err))
		}
		keys = append(keys, key)
	}
	return keys, errors.Join(errs...)
}

// CheckSecret says what is wrong with a secret of the scheme. The error quotes
// nothing of it.
func (s Scheme) CheckSecret(secret string) error {
	if _, err := s.key(secret, false); err != nil {
		return err
	}
	for _, other := range s.Or {
		if err := other.CheckSecret(secret); err != nil {
			return err
		}
	}
	return nil
}

func (s Scheme) key(secret string, signer bool) (key, error) {
	if isPEM(secret) {
		secret = strings.TrimSpace(secret)
	}
	switch strings.TrimSpace(secret) {
	case secret:
	case "":
		return key{}, errors.New("blank")
	default:
		return key{}, errors.New("white space before or after it, which would never match: was it pasted with a newline?")
	}
	if secret == "" {
		return key{}, errors.New("empty")
	}
	switch s.Kind {
	case Ed25519, ECDSA, RSA:
		return s.publicKey(secret, signer)
	case Basic:
		if user, _, ok := strings.Cut(secret, ":"); !ok || user == "" {
			return key{}, errors.New("want user:password")
		}
		fallthrough
	case Token:
		sum := sha256.Sum256([]byte(secret))
		return key{shared: sum[:]}, nil
	}
	if s.PublicPrefix != "" && (strings.HasPrefix(secret, "whpk_") || strings.HasPrefix(secret, "whsk_")) {
		return standardKey(secret, signer)
	}
	return s.sharedKey(secret)
}

func (s Scheme) sharedKey(secret string) (key, error) {
	shared, ok := []byte(secret), true
	switch s.KeyEncoding {
	case "hex":
		shared, ok = decodeHex(secret)
	case "base64":
		shared, ok = decodeBase64(secret)
	case "whsec":
		shared, ok = decodeBase64(strings.TrimPrefix(secret, "whsec_"))
	}
	switch {
	case !ok:
		if s.KeyEncoding == "whsec" {
			return key{}, errors.New("cannot be decoded as whsec: want whsec_ and base64, as openssl rand -base64 24 makes it")
		}
		return key{}, fmt.Errorf("cannot be decoded as %s", s.KeyEncoding)
	case len(shared) == 0:
		return key{}, errors.New("decodes to an empty key")
	}
	return key{shared: shared}, nil
}

// standardKey reads an Ed25519 key as Standard Webhooks writes it.
func standardKey(secret string, signer bool) (key, error) {
	text, isPublic := strings.CutPrefix(secret, "whpk_")
	if isPublic {
		raw, ok := decodeBase64(text)
		switch {
		case !ok || len(raw) != ed25519.PublicKeySize:
			return key{}, errors.New("cannot be decoded as whpk: want whpk_ and 32 bytes in base64")
		case signer:
			return key{}, errPublicOnly
		}
		return key{public: ed25519.PublicKey(raw)}, nil
	}
	if !signer {
		return key{}, errPrivate
	}
	raw, ok := decodeBase64(strings.TrimPrefix(secret, "whsk_"))
	if !ok || len(raw) != ed25519.SeedSize && len(raw) != ed25519.PrivateKeySize {
		return key{}, errors.New("cannot be decoded as whsk: want whsk_ and 64 bytes in base64")
	}
	return private(ed25519.NewKeyFromSeed(raw[:ed25519.SeedSize])), nil
}

func decodeHex(s string) ([]byte, bool) {
	b, err := hex.DecodeString(s)
	return b, err == nil
}

// decodeBase64 is as lenient about the last bits as the providers' own
// libraries are, but not about newlines inside.
func decodeBase64(s string) ([]byte, bool) {
	b, err := base64.StdEncoding.DecodeString(s)
	return b, err == nil && !strings.ContainsAny(s, "\r\n")
}
