package source_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func greeter(tb testing.TB, kind source.Handshake) source.Source {
	tb.Helper()
	s := source.New("x")
	s.Handshake, s.VerifyToken = kind, "t0ken"
	for _, secret := range []string{"first", "ziz5Ulo2RsmjFvDUqcjqcg"} {
		v, err := source.ChallengeScheme().Verifier([]string{secret})
		if err != nil {
			tb.Fatal(err)
		}
		s.Challengers = append(s.Challengers, v)
	}
	return s
}

// tell writes an answer as one line.
func tell(g source.Greeting, ok bool, err error) string {
	if err != nil || !ok {
		return fmt.Sprintf("%t %v", ok, err)
	}
	return fmt.Sprintf("%d %s %s %s", g.Code, g.Type, g.Body, g.Subscribe)
}

const (
	text     = "text/plain; charset=utf-8"
	noGood   = "is not a printable text of 1 to 256 bytes without markup"
	notThere = "false <nil>"
)

func TestGreetGet(t *testing.T) {
	t.Parallel()
	meta := "hub.mode=subscribe&hub.verify_token=t0ken&hub.challenge="
	tests := []struct {
		name   string
		kind   source.Handshake
		method string
		query  string
		want   string
	}{
		{"no handshake", source.HandshakeNone, "GET", "challenge=a", notThere},
		{"4 probe", source.HandshakeProbe, "HEAD", "", "200   "},
		{"A80 probe by GET", source.HandshakeProbe, "GET", "a=b", "200   "},
		{"Dropbox", source.HandshakeDropbox, "GET", "challenge=abc-1_2", "200 " + text + " abc-1_2 "},
		{"Dropbox by HEAD", source.HandshakeDropbox, "HEAD", "challenge=abc", notThere},
		{"Dropbox, none", source.HandshakeDropbox, "GET", "", notThere},
		{"81 Dropbox, empty", source.HandshakeDropbox, "GET", "challenge=", "true challenge: " + noGood},
		{"81 Dropbox, 256 bytes", source.HandshakeDropbox, "GET", "challenge=" + strings.Repeat("x", 256), "200 " + text + " " + strings.Repeat("x", 256) + " "},
		{"81 Dropbox, 257 bytes", source.HandshakeDropbox, "GET", "challenge=" + strings.Repeat("x", 257), "true challenge: " + noGood},
		{"81 Dropbox, HTML", source.HandshakeDropbox, "GET", "challenge=%3Cscript%3E", "true challenge: " + noGood},
		{"81 Dropbox, a line", source.HandshakeDropbox, "GET", "challenge=a%0D%0Ab", "true challenge: " + noGood},
		{"Meta", source.HandshakeMeta, "GET", meta + "1158201444", "200 " + text + " 1158201444 "},
		{"80 Meta, wrong token", source.HandshakeMeta, "GET", strings.Replace(meta, "t0ken", "token", 1) + "1", "true wrong hub.verify_token"},
		{"80 Meta, no token", source.HandshakeMeta, "GET", "hub.mode=subscribe&hub.challenge=1", "true wrong hub.verify_token"},
		{"80 Meta, another mode", source.HandshakeMeta, "GET", strings.Replace(meta, "subscribe", "unsubscribe", 1) + "1", notThere},
		{"81 Meta, no challenge", source.HandshakeMeta, "GET", strings.TrimSuffix(meta, "&hub.challenge="), "true hub.challenge: " + noGood},
		{"81 Meta, HTML", source.HandshakeMeta, "GET", meta + "%3Cb%3E", "true hub.challenge: " + noGood},
		{"Slack asks by POST", source.HandshakeSlack, "GET", "challenge=a", notThere},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := greeter(t, tt.kind)
			query, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			if got := tell(s.GreetGet(tt.method, query)); got != tt.want {
				t.Errorf("GreetGet(%s, %.80s) = %s, want %s", tt.method, tt.query, got, tt.want)
			}
		})
	}
	s := greeter(t, source.HandshakeMeta)
	s.VerifyToken = ""
	query, _ := url.ParseQuery("hub.mode=subscribe&hub.verify_token=&hub.challenge=1")
	if _, ok, err := s.GreetGet("GET", query); !ok || err == nil {
		t.Error("a source without a token takes the empty one")
	}
}

func TestGreetPost(t *testing.T) {
	t.Parallel()
	const plain = "qgg8vlvZRS6UYooatFL8Aw"
	tests := []struct {
		name   string
		kind   source.Handshake
		secret int
		body   string
		want   string
	}{
		{"no handshake", source.HandshakeNone, 0, `{"type":"url_verification","challenge":"a"}`, notThere},
		{"Slack", source.HandshakeSlack, 0, `{"token":"x","challenge":"3eZbrw1aBm2r","type":"url_verification"}`, "200 " + text + " 3eZbrw1aBm2r "},
		{"Slack, an event", source.HandshakeSlack, 0, `{"type":"event_callback","event":{"text":"url_verification"}}`, notThere},
		{"Slack, broken", source.HandshakeSlack, 0, `{"type":"url_verification"`, notThere},
		{"81 Slack, no challenge", source.HandshakeSlack, 0, `{"type":"url_verification"}`, "true challenge: " + noGood},
		{"81 Slack, a number", source.HandshakeSlack, 0, `{"type":"url_verification","challenge":1}`, "true challenge: " + noGood},
		{"81 Slack, 1 MB", source.HandshakeSlack, 0, `{"type":"url_verification","challenge":"` + strings.Repeat("x", 1<<20) + `"}`, "true challenge: " + noGood},
		{"81 Slack, HTML", source.HandshakeSlack, 0, `{"type":"url_verification","challenge":"<b>"}`, "true challenge: " + noGood},
		// HMAC-SHA256 of the token, under the secret that signed the request.
		{"A81 Zoom", source.HandshakeZoom, 1, `{"event":"endpoint.url_validation","payload":{"plainToken":"` + plain + `"}}`,
			`200 application/json {"encryptedToken":"c7fd4d521fdcdd297a4c233691b63df28860bf0206b68fbd76e61b41349d59d0","plainToken":"` + plain + `"} `},
		{"A81 Zoom, the first secret", source.HandshakeZoom, 0, `{"event":"endpoint.url_validation","payload":{"plainToken":"` + plain + `"}}`,
			`200 application/json {"encryptedToken":"` + mac(t, "first", plain) + `","plainToken":"` + plain + `"} `},
		{"A81 Zoom, nobody signed", source.HandshakeZoom, -1, `{"event":"endpoint.url_validation","payload":{"plainToken":"a"}}`, "true " + webhook.ErrUnverified.Error()},
		{"A81 Zoom, what could be a delivery", source.HandshakeZoom, 1, `{"event":"endpoint.url_validation","payload":{"plainToken":"v0:1654503849:{}"}}`, "true plainToken: is not a token of 1 to 256 letters and digits"},
		{"A81 Zoom, 257 bytes", source.HandshakeZoom, 1, `{"event":"endpoint.url_validation","payload":{"plainToken":"` + strings.Repeat("x", 257) + `"}}`, "true plainToken: is not a token of 1 to 256 letters and digits"},
		{"Zoom, an event", source.HandshakeZoom, 1, `{"event":"meeting.started","payload":{"plainToken":"a"}}`, notThere},
		{"Discord", source.HandshakeDiscord, 0, `{"id":"1","type":1,"token":"x","version":1}`, `200 application/json {"type":1} `},
		{"Discord, PING of events", source.HandshakeDiscord, 0, `{"version":1,"application_id":"1","type":0}`, "204 application/json  "},
		{"Discord, an event", source.HandshakeDiscord, 0, `{"version":1,"type":1,"event":{"type":"X"}}`, notThere},
		{"Discord, an interaction", source.HandshakeDiscord, 0, `{"type":2,"data":{}}`, notThere},
		{"Discord, a text", source.HandshakeDiscord, 0, `{"type":"1"}`, notThere},
		{"Xero", source.HandshakeXero, 0, `{"events":[]}`, notThere},
		{"SNS", source.HandshakeSNS, 0, `{"Type":"SubscriptionConfirmation","SubscribeURL":"https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336"}`,
			"200   https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336"},
		{"SNS, a notification", source.HandshakeSNS, 0, `{"Type":"Notification","Message":"SubscriptionConfirmation"}`, notThere},
		{"47 SNS, a foreign host", source.HandshakeSNS, 0, `{"Type":"SubscriptionConfirmation","SubscribeURL":"https://sns.eu-west-1.amazonaws.com.evil.example/"}`, "true " + webhook.ErrUnverified.Error()},
		{"47 SNS, a foreign user", source.HandshakeSNS, 0, `{"Type":"SubscriptionConfirmation","SubscribeURL":"https://sns.eu-west-1.amazonaws.com@evil.example/"}`, "true " + webhook.ErrUnverified.Error()},
		{"47 SNS, no TLS", source.HandshakeSNS, 0, `{"Type":"SubscriptionConfirmation","SubscribeURL":"http://sns.eu-west-1.amazonaws.com/"}`, "true " + webhook.ErrUnverified.Error()},
		{"47 SNS, inside", source.HandshakeSNS, 0, `{"Type":"SubscriptionConfirmation","SubscribeURL":"https://169.254.169.254/latest"}`, "true " + webhook.ErrUnverified.Error()},
		{"47 SNS, none", source.HandshakeSNS, 0, `{"Type":"SubscriptionConfirmation"}`, "true " + webhook.ErrUnverified.Error()},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := greeter(t, tt.kind)
			if got := tell(s.GreetPost(tt.secret, []byte(tt.body))); got != tt.want {
				t.Errorf("GreetPost(%.80s) = %s, want %s", tt.body, got, tt.want)
			}
		})
	}
}

// mac is made by the same package as the answer; that it is an HMAC-SHA256 is
// that package's to prove.
func mac(t *testing.T, secret, text string) string {
	t.Helper()
	v, err := signature.Scheme{Header: "X", Algorithm: "sha256", Encoding: "hex"}.Verifier([]string{secret})
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Sign(signature.Request{Body: []byte(text)}, "", noon)
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Get("X")
}

// Nothing that comes in makes a greeting that is long, has markup, or is an
// error of another kind than those that the sender may see.
func FuzzGreet(f *testing.F) {
	for _, body := range []string{`{"type":"url_verification","challenge":"a"}`, `{"event":"endpoint.url_validation","payload":{"plainToken":"a"}}`,
		`{"type":1}`, `{"type":0}`, `{"Type":"SubscriptionConfirmation","SubscribeURL":"https://sns.x.amazonaws.com/"}`, `hub.mode=subscribe&hub.verify_token=t0ken&hub.challenge=1`, "challenge=1"} {
		for kind := range len(allKinds) {
			f.Add(kind, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, kind int, body []byte) {
		s := greeter(t, allKinds[max(0, kind)%len(allKinds)])
		query, _ := url.ParseQuery(string(body))
		for _, greet := range []func() (source.Greeting, bool, error){
			func() (source.Greeting, bool, error) { return s.GreetPost(0, body) },
			func() (source.Greeting, bool, error) { return s.GreetGet("GET", query) },
		} {
			g, ok, err := greet()
			_, invalid := errors.AsType[*webhook.InvalidError](err)
			_, token := errors.AsType[*source.TokenError](err)
			if err != nil && (!ok || !invalid && !token && !errors.Is(err, webhook.ErrUnverified)) {
				t.Fatalf("%s: %q is %t, %T %v", s.Handshake, body, ok, err, err)
			}
			if g.Type == text && (len(g.Body) > 256 || strings.ContainsAny(g.Body, "<>&\"'\r\n")) || len(g.Body) > 1000 {
				t.Errorf("%s: %q is answered %q", s.Handshake, body, g.Body)
			}
			if g.Subscribe != "" && !strings.HasPrefix(g.Subscribe, "https://sns.") {
				t.Errorf("%q asks a person to open %s", body, g.Subscribe)
			}
		}
	})
}

var allKinds = []source.Handshake{source.HandshakeNone, source.HandshakeProbe, source.HandshakeSlack, source.HandshakeMeta,
	source.HandshakeZoom, source.HandshakeDiscord, source.HandshakeXero, source.HandshakeDropbox, source.HandshakeSNS}
