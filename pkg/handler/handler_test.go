package handler_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/handler"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestRouter(t *testing.T) {
	t.Parallel()
	answer := func(name string) handler.Handler {
		return handler.Func(func(_ context.Context, _ pgx.Tx, ev webhook.Event) error {
			return errors.New(name + " got " + ev.ID)
		})
	}
	router := handler.Router{
		"shop":  {{"payment.failed", answer("exact")}, {"payment.*", answer("prefix")}, {"*.failed", answer("suffix")}},
		"empty": nil,
	}
	tests := []struct{ source, kind, want string }{
		{"shop", "payment.failed", "exact got e-1"},
		{"shop", "payment.succeeded", "prefix got e-1"},
		{"shop", "order.failed", "suffix got e-1"},
		{"shop", "order.created", ""},
		{"empty", "payment.failed", ""},
		{"unknown", "payment.failed", ""},
	}
	for _, tt := range tests {
		got := ""
		if err := router.Handle(t.Context(), nil, webhook.Event{Source: tt.source, Type: tt.kind, ID: "e-1"}); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("Handle(%s of %s) = %q, want %q", tt.kind, tt.source, got, tt.want)
		}
	}
}
