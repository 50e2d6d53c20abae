package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	start := time.Now().Truncate(time.Millisecond)
	for i, status := range []webhook.Status{webhook.Failed, webhook.Dead, webhook.Processing, webhook.Failed} {
		ev := event(fmt.Sprint(i), `{}`)
		ev.ReceivedAt = start.Add(time.Duration(i) * time.Minute)
		if i == 3 {
			ev.Source, ev.Type = "bank", "transfer"
		}
		c := f.claim(t, ev, "me")
		if status == webhook.Processing {
			continue
		}
		if _, err := f.Settle(t.Context(), c, webhook.Verdict{Status: status, Kind: webhook.KindError, Reason: "boom", Delay: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		filter webhook.Filter
		want   string // the ids, in order
	}{
		{"all, newest first", webhook.Filter{Limit: 10}, "3 2 1 0"},
		{"limit", webhook.Filter{Limit: 2}, "3 2"},
		{"source", webhook.Filter{Source: "shop", Limit: 10}, "2 1 0"},
		{"status", webhook.Filter{Status: webhook.Failed, Limit: 10}, "3 0"},
		{"type", webhook.Filter{Type: "transfer", Limit: 10}, "3"},
		{"since, that moment included", webhook.Filter{Since: start.Add(time.Minute), Limit: 10}, "3 2 1"},
		{"all at once", webhook.Filter{Source: "shop", Status: webhook.Failed, Type: "payment.succeeded", Since: start, Limit: 10}, "0"},
		{"none", webhook.Filter{Source: "shop", Type: "transfer", Limit: 10}, ""},
		{"no pattern", webhook.Filter{Source: "sho%", Limit: 10}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := f.Records(t.Context(), tt.filter)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range list {
				ids = append(ids, r.EventID)
				if r.Payload != nil || r.Headers["X-Kept"] != "1" || r.PayloadSHA256 == "" {
					t.Errorf("record = %+v, want all but the payload", r)
				}
			}
			if got := strings.Join(ids, " "); got != tt.want {
				t.Errorf("Records(%+v) = %q, want %q", tt.filter, got, tt.want)
			}
		})
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	ev := event("e-1", "{\"n\": 9007199254740993}\n")
	c := f.claim(t, ev, "me")
	if _, err := f.Settle(t.Context(), c, webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindError, Reason: "boom"}); err != nil {
		t.Fatal(err)
	}
	other := event("e-1", `{"n":2}`)
	if err := f.KeepConflict(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	f.claim(t, ev, "you")

	r := f.record(t, ev)
	if r.Source != "shop" || r.EventID != "e-1" || r.EventType != ev.Type || r.Status != webhook.Processing || r.Attempt != 2 ||
		r.Delivery != ev.Delivery || r.Worker != "you" || r.ContentType != ev.ContentType || !r.ReceivedAt.Equal(ev.ReceivedAt) ||
		r.StartedAt == nil || r.LeaseUntil == nil || r.CompletedAt != nil || r.NextAttemptAt != nil ||
		len(r.Attempts) != 1 || len(r.Conflicts) != 1 || r.Conflicts[0] != fmt.Sprintf("%x", other.SHA256) {
		t.Errorf("record = %+v, want all that was stored", r)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back webhook.Record
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	for _, rec := range []*webhook.Record{&r, &back} { // the same moments, whatever their zone
		rec.ReceivedAt = rec.ReceivedAt.UTC()
		*rec.StartedAt, *rec.LeaseUntil = rec.StartedAt.UTC(), rec.LeaseUntil.UTC()
		rec.Attempts[0].EndedAt, *rec.Attempts[0].StartedAt = rec.Attempts[0].EndedAt.UTC(), rec.Attempts[0].StartedAt.UTC()
	}
	if !reflect.DeepEqual(r, back) || string(back.Payload) != string(ev.Body) {
		t.Errorf("record by JSON = %+v, want %+v", back, r)
	}

	for _, key := range [][2]string{{"shop", "e-2"}, {"bank", "e-1"}, {"", ""}} {
		if _, err := f.Record(t.Context(), key[0], key[1]); !errors.Is(err, webhook.ErrNotFound) || errors.Is(err, webhook.ErrUnavailable) {
			t.Errorf("Record(%q) = %v, want %v", key, err, webhook.ErrNotFound)
		}
	}
}
