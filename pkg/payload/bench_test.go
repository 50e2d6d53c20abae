package payload_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/payload"
)

// body4kB looks like an event of a payment provider.
func body4kB() []byte {
	var b strings.Builder
	b.WriteString(`{"id":"evt_1","object":"event","created":1700000000,"livemode":true,"data":{"object":{"items":[`)
	for i := 0; b.Len() < 3900; i++ {
		fmt.Fprintf(&b, `{"id":"li_%d","amount":%d,"currency":"eur","description":"Größe L \"blau\"","paid":false,"tax":null,"tags":{"a":[1,2]}},`, i, 100*i)
	}
	b.WriteString(`{}]}},"type":"invoice.paid"}`)
	return []byte(b.String())
}

func BenchmarkScan(b *testing.B) {
	body, pointers := body4kB(), at(b, "/id", "/type")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if found, err := payload.Scan(body, pointers...); err != nil || !found[1].Found() {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkScanDeep(b *testing.B) {
	body, pointers := body4kB(), at(b, "/id", "/type", "/data/object/items/20/id")
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if found, err := payload.Scan(body, pointers...); err != nil || !found[2].Found() {
			b.Fatal(found, err)
		}
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	body := body4kB()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var v struct{ ID, Type string }
		if err := json.Unmarshal(body, &v); err != nil || v.Type == "" {
			b.Fatal(v, err)
		}
	}
}

func BenchmarkValid(b *testing.B) {
	body := body4kB()
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if !json.Valid(body) {
			b.Fatal("not valid")
		}
	}
}
