package source_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

const payment = `{"event_id":"evt_1","event_type":"payment.captured","amount":1099,"timestamp":1700000000}`

// header makes headers of names and values in turn.
func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// of returns a source of a preset, without a secret.
func of(tb testing.TB, provider string) source.Source {
	tb.Helper()
	p, ok := source.FindPreset(provider)
	if !ok {
		tb.Fatalf("no preset %s", provider)
	}
	return p.Source(provider)
}

// readOne reads a delivery of one event.
func readOne(s source.Source, h http.Header, body []byte) (id, typ string, err error) {
	items, err := s.Read(h, body)
	if len(items) == 0 {
		return "", "", err
	}
	return items[0].ID, items[0].Type, err
}

func TestRead(t *testing.T) {
	t.Parallel()
	github := []string{"X-GitHub-Delivery", "d-1", "X-GitHub-Event", "issues"}
	with := func(more ...string) http.Header { return header(append(github[:4:4], more...)...) }
	deep := source.New("deep")
	deep.ID = []source.Locator{{JSON: source.Pointer("/data/0/a~1b")}}
	deep.Type = []source.Locator{{JSON: source.Pointer("/kind")}, {Header: "X-Sub"}, {JSON: source.Pointer("/data/0/sub")}}
	def := source.Default()
	tests := []struct {
		name   string
		source source.Source
		header http.Header
		body   string
		id     string
		typ    string
		err    string
	}{
		{"default", def, nil, payment, "evt_1", "payment.captured", ""},
		{"default, amount 0", def, nil, strings.Replace(payment, "1099", "0", 1), "evt_1", "payment.captured", ""},
		{"default, largest amount", def, nil, strings.Replace(payment, "1099", "9223372036854775807", 1), "evt_1", "payment.captured", ""},
		{"default, amount too large", def, nil, strings.Replace(payment, "1099", "9223372036854775808", 1), "evt_1", "payment.captured", "amount: is out of range"},
		{"default, amount negative", def, nil, strings.Replace(payment, "1099", "-1", 1), "evt_1", "payment.captured", "amount: is negative"},
		{"default, timestamp 1", def, nil, strings.Replace(payment, "1700000000", "1", 1), "evt_1", "payment.captured", ""},
		{"default, timestamp 0", def, nil, strings.Replace(payment, "1700000000", "0", 1), "evt_1", "payment.captured", "timestamp: is not positive"},
		{"default, both wrong", def, nil, `{"event_id":"e","event_type":"t","amount":"1"}`, "e", "t", "amount: is a string, want an integer"},
		{"default, no id", def, nil, `{"event_type":"t","amount":1,"timestamp":1}`, "", "", "event_id: is missing"},
		{"default, no type", def, nil, `{"event_id":"e","amount":1,"timestamp":1}`, "e", "", "event_type: is missing"},
		{"default, id in a header only", def, header("Event_id", "evt_1"), `{}`, "", "", "event_id: is missing"},
		{"default, no JSON", def, nil, ``, "", "", "empty body"},
		{"default, no object", def, nil, `[]`, "", "", "is not a JSON object"},

		{"github with action", of(t, "github"), with(), `{"action":"pinned"}`, "d-1", "issues.pinned", ""},
		{"github without action", of(t, "github"), with(), `{}`, "d-1", "issues", ""},
		{"github, id in another spelling", of(t, "github"), header("x-github-delivery", "d-1", "X-GITHUB-EVENT", "push"), `{}`, "d-1", "push", ""},
		{"github, action null", of(t, "github"), with(), `{"action":null}`, "d-1", "", "action: is null, want a string"},
		{"github, action empty", of(t, "github"), with(), `{"action":""}`, "d-1", "", "action: is empty"},
		{"github, action and Action", of(t, "github"), with(), `{"action":"a","Action":"b"}`, "", "", `/action: keys "action" and "Action" differ only in case`},
		{"github, no id", of(t, "github"), header(github[2:]...), `{}`, "", "", "X-GitHub-Delivery: is missing"},
		{"github, id empty", of(t, "github"), header("X-GitHub-Delivery", "", "X-GitHub-Event", "push"), `{}`, "", "", "X-GitHub-Delivery: is empty"},
		{"github, id twice", of(t, "github"), with("X-GitHub-Delivery", "d-1"), `{}`, "", "", "X-GitHub-Delivery: is there more than once"},
		{"github, no type", of(t, "github"), header(github[:2]...), `{}`, "d-1", "", "X-GitHub-Event: is missing"},
		{"github, type twice", of(t, "github"), with("X-GitHub-Event", "push"), `{}`, "d-1", "", "X-GitHub-Event: is there more than once"},
		{"github, longest type", of(t, "github"), with(), `{"action":"` + strings.Repeat("x", 248) + `"}`, "d-1", "issues." + strings.Repeat("x", 248), ""},
		{"github, type too long together", of(t, "github"), with(), `{"action":"` + strings.Repeat("x", 249) + `"}`, "d-1", "", "X-GitHub-Event: is longer than 255 bytes"},

		{"stripe", of(t, "stripe"), nil, `{"id":"evt_1","type":"plan.created"}`, "evt_1", "plan.created", ""},
		{"stripe, id of another object", of(t, "stripe"), nil, `{"data":{"id":"x"},"type":"plan.created"}`, "", "", "id: is missing"},
		{"stripe, id a number", of(t, "stripe"), nil, `{"id":10002318,"type":"x"}`, "", "", "id: is a number, want a string"},

		{"standard-webhooks", of(t, "standard-webhooks"), header("Webhook-Id", "msg_1"), `{"type":"user.created","id":"x"}`, "msg_1", "user.created", ""},
		{"standard-webhooks, no id", of(t, "standard-webhooks"), nil, `{"type":"user.created"}`, "", "", "Webhook-Id: is missing"},

		{"deep inside", deep, header("X-Sub", "s"), `{"kind":"k","data":[{"a/b":"e","sub":"t"}]}`, "e", "k.s.t", ""},
		{"deep inside, last part missing", deep, header("X-Sub", "s"), `{"kind":"k","data":[{"a/b":"e"}]}`, "e", "k.s", ""},
		{"deep inside, header of the type missing", deep, nil, `{"kind":"k","data":[{"a/b":"e","sub":"t"}]}`, "e", "k.t", ""},
		{"deep inside, header of the type twice", deep, header("X-Sub", "s", "X-Sub", "s"), `{"kind":"k","data":[{"a/b":"e"}]}`, "e", "", "X-Sub: is there more than once"},
		{"deep inside, first part missing", deep, header("X-Sub", "s"), `{"data":[{"a/b":"e","sub":"t"}]}`, "e", "", "kind: is missing"},
		{"deep inside, not there", deep, header("X-Sub", "s"), `{"kind":"k","data":[]}`, "", "", "/data/0/a~1b: is missing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id, typ, err := readOne(tt.source, tt.header, []byte(tt.body))
			if id != tt.id || typ != tt.typ || err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
				t.Errorf("Read(%q, %.60s) = %q, %q, %v, want %q, %q, %s", tt.header, tt.body, id, typ, err, tt.id, tt.typ, tt.err)
			}
			if _, ok := errors.AsType[*webhook.InvalidError](err); err != nil && !ok {
				t.Errorf("%T is not an InvalidError", err)
			}
		})
	}
}

func TestValidName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a": true, "github": true, "a-b_c-9": true, "-": true, "default": true, strings.Repeat("x", 64): true,
		"": false, strings.Repeat("x", 65): false, "GitHub": false, "a b": false, "a/b": false, "a:b": false, "a{b}": false,
		"..": false, "é": false, "a\n": false, "a\nb": false, "\x00": false, "%61": false,
	} {
		if got := source.ValidName(name); got != want {
			t.Errorf("ValidName(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	open := source.Default()
	if err := open.Verify(signature.Request{}, noon); err != nil {
		t.Errorf("Verify without a verifier = %v", err)
	}
	closed := of(t, "github")
	p, _ := source.FindPreset("github")
	v, err := p.Scheme.Verifier([]string{"s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	closed.Verifier = v
	signed, err := v.Sign(signature.Request{Body: []byte("{}")}, "", noon)
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Verify(signed, noon); err != nil {
		t.Errorf("Verify = %v", err)
	}
	signed.Header = http.Header{}
	if err := closed.Verify(signed, noon); !errors.Is(err, webhook.ErrUnverified) {
		t.Errorf("Verify without headers = %v, want %v", err, webhook.ErrUnverified)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for _, s := range []source.Source{source.New("x"), source.Default()} {
		if s.AckStatus != 200 || s.MaxBody != 1<<20 || s.MaxRetry != 24 || s.Timeout != 15*time.Second || s.Concurrency != 16 || s.Retention <= 0 || s.Verifier != nil {
			t.Errorf("%s has the limits %+v", s.Name, s)
		}
		if !source.ValidName(s.Name) {
			t.Errorf("the name %q is not valid", s.Name)
		}
	}
	if name := source.Default().Name; name != "default" || source.DefaultName != "default" {
		t.Errorf("the default is called %q", name)
	}
}

func TestPointerPanics(t *testing.T) {
	t.Parallel()
	if got := source.Pointer("/a~1b/0").String(); got != "/a~1b/0" {
		t.Errorf("Pointer = %q", got)
	}
	defer func() {
		if recover() == nil {
			t.Error(`Pointer("a") did not panic`)
		}
	}()
	source.Pointer("a")
}
