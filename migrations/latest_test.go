package migrations_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/migrations"
)

func TestLatest(t *testing.T) {
	t.Parallel()
	names, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".sql") {
			last = n.Name()
		}
	}
	if got, err := migrations.Latest(); err != nil || !strings.HasPrefix(last, fmt.Sprintf("%04d_", got)) {
		t.Errorf("Latest = %d, %v, want the number of %s", got, err, last)
	}
}
