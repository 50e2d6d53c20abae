package config

import (
	"slices"
	"strings"

	"github.com/hookonce/hookonce/pkg/source"
)

// provider reads the name of a preset. There are too many to list them all.
func (v value) provider(to *string) bool {
	name, ok := v.scalar("the name of a provider, such as github")
	if !ok {
		return false
	}
	names := source.Providers()
	if slices.Contains(names, name) {
		*to = name
		return true
	}
	if near := nearest(name, names); near != "" {
		v.wrong("no provider is called that: did you mean %s? PROVIDERS.md lists all", near)
	} else {
		v.wrong("no provider is called that: PROVIDERS.md lists all; describe another one under verify")
	}
	return false
}

// nearest is the name that name probably means, or "".
func nearest(name string, names []string) string {
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '-' || r == '_' || r == '.' || r == ' ' {
				return -1
			}
			return r
		}, strings.ToLower(s))
	}
	best, least := "", 3
	for _, candidate := range names {
		if d := distance(plain(name), plain(candidate)); d < least && d < len(plain(candidate))/2 {
			best, least = candidate, d
		}
	}
	return best
}

// distance is how many characters have to be put in, left out or changed to make
// one text of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
