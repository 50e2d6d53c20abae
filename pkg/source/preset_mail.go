package source

import (
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// mailers send mail and tell what became of it.
func mailers() map[string]Preset {
	return map[string]Preset{
		"sendgrid": {
			Scheme: signature.Scheme{
				Kind: signature.ECDSA, Header: "X-Twilio-Email-Event-Webhook-Signature", Algorithm: "sha256", Encoding: "base64",
				TimestampHeader: "X-Twilio-Email-Event-Webhook-Timestamp", Signed: "{timestamp}{body}",
			},
			Items: list(""),
			ID:    []Locator{inBody("/sg_event_id")},
			Type:  []Locator{inBody("/event")},
			About: About{
				Title:   "SendGrid, event webhook",
				Page:    "https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event",
				Setup:   "Settings → Mail Settings → Event Webhook: the address, Signed Event Webhook on; put the verification key into secrets",
				Retries: "for 24 hours",
				Proof:   "vectors sendgrid: sendgrid/sendgrid-go",
			},
		},
		// The signature is over a time and a token, nothing else.
		"mailgun": {
			Scheme: signature.Scheme{
				SignatureAt: "/signature/signature", TimestampAt: "/signature/timestamp", Algorithm: "sha256", Encoding: "hex",
				Signed: "{timestamp}{/signature/token}", BodyUnsigned: true, Tolerance: 5 * time.Minute,
			},
			ID:      []Locator{either(inBody("/event-data/id"), content())},
			Type:    []Locator{either(inBody("/event-data/event"), inForm("event"))},
			Content: []Kind{JSON, Form},
			About: About{
				Title:   "Mailgun",
				Page:    "https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/",
				Setup:   "Sending → Webhooks → Add webhook: the address; the secret is the HTTP webhook signing key",
				Wants:   "200; 406 makes it give up",
				Retries: "after 5, 10 and 15 min, 1, 2 and 4 h",
				Proof:   "vectors mailgun: rails/rails (Action Mailbox)",
				Notes:   "The event itself is not signed: who has one signature of the last minutes can send any event with it. Use https all the way.",
			},
		},
		// _id is the message's. The mail's state is in the whole item.
		"mandrill": {
			Scheme:  signature.Scheme{Header: "X-Mandrill-Signature", Algorithm: "sha1", Encoding: "base64", Signed: "{url}{form}"},
			Content: []Kind{Form},
			Items:   &Locator{Form: "mandrill_events"},
			ID:      []Locator{content()},
			Type:    []Locator{inBody("/event")},
			About: About{
				Title: "Mandrill (Mailchimp Transactional)",
				Page:  "https://mailchimp.com/developer/transactional/docs/webhooks/",
				Setup: "Settings → Webhooks → Add a webhook: the address, also as public_url; the secret is its key",
				Notes: "The address is signed: public_url must be what is written at Mandrill, to the letter.",
			},
		},
		"sparkpost": {
			Scheme: basic(),
			Items:  list(""),
			ID:     []Locator{either(msys("event_id"), content())},
			Type:   []Locator{msys("type")},
			About: About{
				Title:   "SparkPost",
				Page:    "https://developers.sparkpost.com/api/webhooks/",
				Setup:   "Webhooks → Create webhook: the address, authentication Basic; the secret is name:password",
				Retries: "for 8 hours",
				Notes:   "A password covers no body: use https all the way.",
			},
		},
		// MessageID is the message's, which may be opened many times.
		"postmark": {
			Scheme: basic(),
			ID:     []Locator{content()},
			Type:   []Locator{optional(inBody("/RecordType"))},
			About: About{
				Title:   "Postmark",
				Page:    "https://postmarkapp.com/developer/webhooks/webhooks-overview",
				Setup:   "Message stream → Webhooks → Add webhook: the address with basic auth; the secret is name:password",
				Wants:   "200; 403 makes it give up",
				Retries: "10 in 10.5 hours for inbound mail and bounces; fewer for opens and clicks",
				Notes:   "A password covers no body: use https all the way.",
			},
		},
	}
}

// msys is a field of an event of SparkPost, which stands under the event's class.
func msys(field string) Locator {
	var places []Locator
	for _, class := range []string{"message_event", "track_event", "gen_event", "unsubscribe_event", "relay_event", "relay_message"} {
		places = append(places, inBody("/msys/"+class+"/"+field))
	}
	return either(places[0], places[1:]...)
}
