package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// TestOpenHidesThePassword opens what cannot be opened. Each URL differs in
// where the password is and in why it cannot be parsed.
func TestOpenHidesThePassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://u:s3cret@host:port/db",
		"postgres://u:s3cret@host/db?sslmode=never",
		"postgres://u:s3c@s3cret@host:port/db",
		"postgres://u:a:s3cret@host:port/db",
		"postgres://u:%zzs3cret@host/db",
		"postgres://u:a/s3cret@host/db",
		"postgres://u:s3cret/a@host/db",
		"postgres://u:a`s3cret@host:port/db",
		"postgres://u:a`: s3cret@host:port/db",
		"postgres://u:a?s3cret=%zz@host/db",
		"postgres://u:a#s3cret@host:port/db",
		"postgres://u:a?s3cret@host:port/db",
		"postgres://u:a s3cret@host:port/db",
		"postgres://host:port/db?password=s3cret",
		"postgres://host/db?sslmode=never&password=s3cret",
		"postgres://u:s3cret@host/db?pool_max_conns=many",
		"postgresql://u:s3cret@[host/db",
		"postgress://u:s3cret@host/db",
		"postgress://u:a@s3cret@host/db",
		"u:s3cret@host/db",
		"host=h password=s3cret port=port",
		"host=h password='a s3cret' port=port",
		`host=h password='a\' s3cret' port=port`,
		`host=h password = s3cret port=port`,
		"host=h password=a\\ s3cret port=port",
	} {
		_, err := postgres.Open(t.Context(), url, 1)
		if err == nil {
			t.Fatalf("Open(%q) = nil, want an error", url)
		}
		if strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "DATABASE_URL") {
			t.Errorf("Open(%q) = %v, want DATABASE_URL named and the password hidden", url, err)
		}
	}
	err := openStore(t, nowhere(t), 1).Ping(t.Context())
	if !errors.Is(err, webhook.ErrUnavailable) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("Ping = %v, want %v with the password hidden", err, webhook.ErrUnavailable)
	}
}

func TestPing(t *testing.T) {
	t.Parallel()
	if err := newStore(t).Ping(t.Context()); err != nil {
		t.Errorf("Ping = %v", err)
	}
	empty := openStore(t, stacktest.Postgres(t), 1)
	if err := empty.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "migrate up") || errors.Is(err, webhook.ErrUnavailable) {
		t.Errorf("Ping of a database without tables = %v, want to be told what to do", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := empty.Ping(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, webhook.ErrUnavailable) {
		t.Errorf("Ping called off = %v, want %v", err, context.Canceled)
	}
}
