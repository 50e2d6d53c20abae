package signature

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// keys decodes the secrets. Its errors number the secrets from 1 and quote
// nothing of them; so they wrap no error of a decoder, which would.
func (s Scheme) keys(secrets []string) ([][]byte, error) {
	var errs []error
	switch s.KeyEncoding {
	case "", "hex", "base64", "whsec":
	default:
		errs = append(errs, fmt.Errorf("key encoding %q: want hex, base64, whsec or none", s.KeyEncoding))
	}
	if len(secrets) == 0 {
		errs = append(errs, errors.New("no secret"))
	}
	keys := make([][]byte, 0, len(secrets))
	for i, secret := range secrets {
		key, err := s.key(secret)
		if err != nil {
			errs = append(errs, fmt.Errorf("secret %d: %w", i+1, err))
		}
		keys = append(keys, key)
	}
	return keys, errors.Join(errs...)
}

func (s Scheme) key(secret string) ([]byte, error) {
	switch strings.TrimSpace(secret) {
	case secret:
	case "":
		return nil, errors.New("blank")
	default:
		return nil, errors.New("white space before or after it, which would never match: was it pasted with a newline?")
	}
	if secret == "" {
		return nil, errors.New("empty")
	}
	key, ok := []byte(secret), true
	switch s.KeyEncoding {
	case "hex":
		key, ok = decodeHex(secret)
	case "base64":
		key, ok = decodeBase64(secret)
	case "whsec":
		key, ok = decodeBase64(strings.TrimPrefix(secret, "whsec_"))
	}
	switch {
	case !ok:
		if s.KeyEncoding == "whsec" {
			return nil, errors.New("cannot be decoded as whsec: want whsec_ and base64, as openssl rand -base64 24 makes it")
		}
		return nil, fmt.Errorf("cannot be decoded as %s", s.KeyEncoding)
	case len(key) == 0:
		return nil, errors.New("decodes to an empty key")
	}
	return key, nil
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
