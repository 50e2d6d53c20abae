package source_test

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hookonce/hookonce/pkg/signature"
)

// schemes says how a provider signs.
func schemes(s signature.Scheme) string {
	text := scheme(s)
	if len(s.Or) > 3 {
		return text + fmt.Sprintf("; or in one of %d ways with another hash or encoding, and without the time", len(s.Or))
	}
	for _, other := range s.Or {
		text += "; or " + scheme(other)
	}
	return text
}

func scheme(s signature.Scheme) string {
	at := "`" + s.Header + ": " + s.Prefix + "…`"
	if s.SignatureAt != "" {
		at = "in the body at `" + s.Items + s.SignatureAt + "`"
	}
	if len(s.MoreHeaders) > 0 {
		at += " up to `" + s.MoreHeaders[len(s.MoreHeaders)-1] + "`"
	}
	switch s.Kind {
	case signature.Token:
		return "nothing: the secret itself is sent, " + at
	case signature.Basic:
		return "nothing: name and password are sent, `Authorization: Basic …`"
	}
	key := ""
	if s.KeyEncoding != "" {
		key = ", the key is in " + strings.Replace(s.KeyEncoding, "whsec", "base64 after whsec_", 1)
	}
	text := family(s) + ", " + at + ", over `" + strings.ReplaceAll(cmp.Or(s.Signed, "{body}"), "\n", `\n`) + "`" + key
	if s.Tolerance > 0 {
		text += ", " + short(s.Tolerance) + " early or late at most"
	}
	return text
}

func family(s signature.Scheme) string {
	hash := strings.ToUpper(strings.Replace(s.Algorithm, "sha", "sha-", 1))
	names := map[signature.Kind]string{
		signature.HMAC: "HMAC with " + hash, signature.Hash: hash + " with the secret in it", signature.Ed25519: "Ed25519",
		signature.ECDSA: "ECDSA with " + hash, signature.RSA: "RSA (PKCS #1 v1.5) with " + hash,
	}
	return names[s.Kind] + " in " + s.Encoding
}
