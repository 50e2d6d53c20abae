package ingest_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A bench op is one signed delivery, from parsed headers to its answer.
func BenchmarkHandler(b *testing.B) {
	for _, size := range []int{512, 4 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("%.1fkB", float64(size)/1024), func(b *testing.B) {
			r := newRig(b, func(o *ingest.Options) {
				o.Queue, o.Observe = nothing{}, func(ingest.Report) {}
				o.Log = slog.New(slog.NewJSONHandler(io.Discard, nil))
			})
			d := toStripe(b, payload(size), noon)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				r.ServeHTTP(w, d.request())
				if w.Code != 200 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}

// payload looks like an event of a payment provider, and is of size bytes.
func payload(size int) string {
	var text strings.Builder
	text.WriteString(`{"id":"evt_1","object":"event","livemode":true,"data":{"lines":[`)
	for i := 0; text.Len() < size-200; i++ {
		fmt.Fprintf(&text, `{"id":"li_%d","amount":%d,"currency":"eur","description":"Größe L \"blau\"","tax":null},`, i, 100*i)
	}
	const end = `{}]},"type":"invoice.paid"}`
	text.WriteString(end)
	return text.String() + strings.Repeat(" ", size-text.Len())
}

// nothing is a queue that holds nothing and says that it did.
type nothing struct{}

func (nothing) Enqueue(context.Context, webhook.Event) (webhook.Receipt, error) {
	return webhook.Receipt{Outcome: webhook.Accepted}, nil
}
