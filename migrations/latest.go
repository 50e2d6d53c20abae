package migrations

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// Latest is the number of the last migration, which a database that was brought
// up to this version has.
func Latest() (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, errors.Join(errors.New("no migrations are embedded"), err)
	}
	last := names[len(names)-1] // they are sorted
	n, err := goose.NumericComponent(last)
	if err != nil {
		return 0, fmt.Errorf("migration %s: %w", last, err)
	}
	return n, nil
}
