package postgres

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// A statement is one that runs for each event: its @names are made $numbers
// once, which pgx would do anew with each call.
type statement struct {
	sql   string
	names []string
}

var parameter = regexp.MustCompile(`@[a-z_0-9]+`)

func named(sql string) statement {
	var s statement
	s.sql = parameter.ReplaceAllStringFunc(sql, func(at string) string {
		n := slices.Index(s.names, at[1:])
		if n < 0 {
			n = len(s.names)
			s.names = append(s.names, at[1:])
		}
		return "$" + strconv.Itoa(n+1)
	})
	return s
}

// args puts values into the order of the numbers.
func (s statement) args(values pgx.NamedArgs) []any {
	args := make([]any, len(s.names))
	for i, name := range s.names {
		args[i] = values[name]
	}
	return args
}
