package stacktest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres returns the URL of a new schema, which is dropped after the test.
// It is empty: nothing is migrated.
func Postgres(tb testing.TB) string {
	tb.Helper()
	server := sharedStack(tb).DatabaseURL
	schema := "test_" + strings.ToLower(rand.Text())
	private, err := inSchema(server, schema)
	if err != nil {
		tb.Fatal(err)
	}
	if err := execute(server, "CREATE SCHEMA "+schema); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := execute(server, "DROP SCHEMA "+schema+" CASCADE"); err != nil {
			tb.Errorf("a connection of the test may still be open: %v", err)
		}
	})
	return private
}

// execute runs one statement that waits ten seconds at most, for example for
// the locks of a transaction that a test left open.
func execute(server, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// inSchema returns the server's URL with all names looked up in schema only.
func inSchema(server, schema string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", err
	}
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	return u.String(), nil
}
