package source

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Handshake is how a provider tries an address: by a request that is answered
// at once, without a store, and of which nothing is kept.
type Handshake string

// The handshakes. A POST is answered only if its signature is right.
const (
	HandshakeNone    Handshake = ""
	HandshakeProbe   Handshake = "probe"   // GET and HEAD: 200 without a body
	HandshakeSlack   Handshake = "slack"   // POST {"type":"url_verification","challenge":…}: the challenge as text
	HandshakeMeta    Handshake = "meta"    // GET ?hub.mode=subscribe&hub.verify_token=…&hub.challenge=…: the challenge as text, if the token is VerifyToken
	HandshakeZoom    Handshake = "zoom"    // POST {"event":"endpoint.url_validation","payload":{"plainToken":…}}: the token and its HMAC
	HandshakeDiscord Handshake = "discord" // POST {"type":1}: {"type":1}
	HandshakeXero    Handshake = "xero"    // POST without events, with a good or a bad signature; no answer has a body
	HandshakeDropbox Handshake = "dropbox" // GET ?challenge=…: the challenge as text
	HandshakeSNS     Handshake = "sns"     // POST with a SubscribeURL: logged for a person to open, never fetched
)

// A Greeting is the answer to a request that only tries the address.
type Greeting struct {
	Code int
	Type string // the media type of Body
	Body string // "": none

	// Subscribe is an address that a person has to open, or "". Nothing of ours
	// fetches what came from outside.
	Subscribe string
}

func plain(text string) Greeting {
	return Greeting{http.StatusOK, "text/plain; charset=utf-8", text, ""}
}
func object(text string) Greeting { return Greeting{http.StatusOK, "application/json", text, ""} }

// A Token is a secret: it is in nothing that is printed.
type Token string

// String is the same for all tokens.
func (Token) String() string { return "(secret)" }

// GoString is String, for %#v.
func (t Token) GoString() string { return t.String() }

// A TokenError means that who asked did not know the VerifyToken.
type TokenError struct{ Reason string }

func (e *TokenError) Error() string { return e.Reason }

// GreetGet answers a GET or HEAD that tries the address. It reports false if
// the source has no such handshake, or the request is none.
func (s *Source) GreetGet(method string, query url.Values) (Greeting, bool, error) {
	switch {
	case s.Handshake == HandshakeProbe:
		return Greeting{Code: http.StatusOK}, true, nil
	case method != http.MethodGet:
		return Greeting{}, false, nil
	case s.Handshake == HandshakeDropbox && query.Has("challenge"):
		return echo("challenge", query.Get("challenge"))
	case s.Handshake == HandshakeMeta && query.Get("hub.mode") == "subscribe":
		if s.VerifyToken == "" {
			return Greeting{}, true, &TokenError{"the source has no verify_token"}
		}
		want, got := sha256.Sum256([]byte(s.VerifyToken)), sha256.Sum256([]byte(query.Get("hub.verify_token")))
		if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			return Greeting{}, true, &TokenError{"wrong hub.verify_token"}
		}
		return echo("hub.challenge", query.Get("hub.challenge"))
	}
	return Greeting{}, false, nil
}

// challenges are what is given back: printable, short, and no markup.
var challenges = regexp.MustCompile(`^[ !#$%()*+,\-./0-9:;=?@A-Z\[\\\]^_` + "`" + `a-z{|}~]{1,256}$`)

func echo(name, challenge string) (Greeting, bool, error) {
	if err := checkChallenge(name, challenge); err != nil {
		return Greeting{}, true, err
	}
	return plain(challenge), true, nil
}

func checkChallenge(name, challenge string) error {
	if !challenges.MatchString(challenge) {
		return &webhook.InvalidError{Field: name, Reason: "is not a printable text of 1 to 256 bytes without markup"}
	}
	return nil
}

// GreetPost answers a POST that tries the address, which must have been
// verified: secret is the index of the one that it was signed with. It reports
// false for a delivery of events.
func (s *Source) GreetPost(secret int, body []byte) (Greeting, bool, error) {
	switch s.Handshake {
	case HandshakeSlack:
		if ask, ok := scanIf(body, "url_verification", "/type", "/challenge"); ok && ask[0] == "url_verification" {
			return echo("challenge", ask[1])
		}
	case HandshakeZoom:
		if ask, ok := scanIf(body, "endpoint.url_validation", "/event", "/payload/plainToken"); ok && ask[0] == "endpoint.url_validation" {
			return s.zoom(secret, ask[1])
		}
	case HandshakeDiscord:
		return discord(body)
	case HandshakeSNS:
		if ask, ok := scanIf(body, "Confirmation", "/Type", "/SubscribeURL"); ok && (ask[0] == "SubscriptionConfirmation" || ask[0] == "UnsubscribeConfirmation") {
			return sns(ask[1])
		}
	}
	return Greeting{}, false, nil
}

// scanIf returns the texts at some places of a JSON document that has word in
// it; for what is no text, "". It spares a second reading of nearly all bodies.
func scanIf(body []byte, word string, pointers ...string) ([]string, bool) {
	if !bytes.Contains(body, []byte(word)) {
		return nil, false
	}
	at := make([]payload.Pointer, len(pointers))
	for i, p := range pointers {
		at[i] = Pointer(p)
	}
	found, err := payload.Scan(body, at...)
	if err != nil {
		return nil, false // which the reading of the events will say
	}
	texts := make([]string, len(found))
	for i, v := range found {
		texts[i], _ = v.Text()
	}
	return texts, true
}

var zoomTokens = regexp.MustCompile(`^[A-Za-z0-9_=+/-]{1,256}$`)

// zoom proves that we know the secret by the HMAC of a token. It signs nothing
// that could be a delivery, which has colons in it.
func (s *Source) zoom(secret int, token string) (Greeting, bool, error) {
	if !zoomTokens.MatchString(token) {
		return Greeting{}, true, &webhook.InvalidError{Field: "plainToken", Reason: "is not a token of 1 to 256 letters and digits"}
	}
	if secret < 0 || secret >= len(s.Challengers) {
		return Greeting{}, true, webhook.ErrUnverified
	}
	signed, err := s.Challengers[secret].Sign(signature.Request{Body: []byte(token)}, "", time.Time{})
	if err != nil {
		return Greeting{}, true, err
	}
	text, err := json.Marshal(map[string]string{"plainToken": token, "encryptedToken": signed.Header.Get(challengeHeader)})
	return object(string(text)), true, err
}

const challengeHeader = "Signature"

// ChallengeScheme is the scheme of Challengers.
func ChallengeScheme() signature.Scheme {
	return signature.Scheme{Header: challengeHeader, Algorithm: "sha256", Encoding: "hex"}
}

// discord answers the PING of interactions, {"type":1}, and that of webhook
// events, {"type":0}, whose events are of type 1 with an event.
func discord(body []byte) (Greeting, bool, error) {
	if len(body) > maxPing {
		return Greeting{}, false, nil
	}
	found, err := payload.Scan(body, Pointer("/type"), Pointer("/event"))
	if err != nil {
		return Greeting{}, false, nil
	}
	switch n, err := found[0].Integer(); {
	case err != nil:
	case n == 1 && !found[1].Found():
		return object(`{"type":1}`), true, nil
	case n == 0:
		return Greeting{Code: http.StatusNoContent, Type: "application/json"}, true, nil
	}
	return Greeting{}, false, nil
}

// maxPing is larger than any PING of Discord.
const maxPing = 16 << 10

var snsHosts = regexp.MustCompile(`^sns\.[a-z0-9-]+\.amazonaws\.com(\.cn)?$`)

// sns hands on the address that confirms a subscription, if it is one of AWS.
func sns(address string) (Greeting, bool, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Port() != "" || !snsHosts.MatchString(u.Hostname()) || len(address) > 2048 {
		return Greeting{}, true, webhook.ErrUnverified
	}
	return Greeting{Code: http.StatusOK, Subscribe: u.String()}, true, nil
}
