// Package migrations holds the database schema as numbered SQL, embedded, and
// brings a database up to it. Migrations only expand; what a new version no
// longer needs is dropped one release later, so that old and new programs can
// run side by side.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// A Migration is one numbered step and whether the database has it.
type Migration struct {
	Name    string
	Applied bool
}

// Up applies what is missing and returns the names of what it applied. Several
// callers may run it at once: an advisory lock lets one work and the others
// wait for it, for a minute at most.
func Up(ctx context.Context, databaseURL string) ([]string, error) {
	p, db, err := open(databaseURL)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	results, err := p.Up(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate up: %w", err)
	}
	var names []string
	for _, r := range results {
		names = append(names, r.Source.Path)
	}
	return names, nil
}

// Status lists all migrations in order.
func Status(ctx context.Context, databaseURL string) ([]Migration, error) {
	p, db, err := open(databaseURL)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	all, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("migration status: %w", err)
	}
	var list []Migration
	for _, m := range all {
		list = append(list, Migration{Name: m.Source.Path, Applied: m.State == goose.StateApplied})
	}
	return list, nil
}

func open(databaseURL string) (*goose.Provider, *sql.DB, error) {
	cfg, err := pgxpool.ParseConfig(databaseURL) // knows the pool_ settings that a plain connection refuses
	if err != nil {
		return nil, nil, errors.New("DATABASE_URL: is not an address of Postgres") // err may hold the password
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, nil, fmt.Errorf("migration lock: %w", err)
	}
	db := stdlib.OpenDB(*cfg.ConnConfig)
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithSessionLocker(locker))
	if err != nil {
		db.Close()
		return nil, nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, db, nil
}
