package ingest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// The rows of our catalogue of bad inputs, and of the reports from the field
// that are about what comes in. Each has a test by its number: as the first word
// of the name of a case, or in a comment in front of a test.
var (
	catalogue = []int{
		1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 20, 21, 23, 24, 25, 27, 28, 29, 31, 32, 33, 35, 36, 37, 39, 40, 41, 43, 44,
		45, 47, 48, 49, 51, 52, 53, 55, 56, 57, 59, 60, 61, 63, 64, 65, 67, 68, 69, 71, 72, 73, 75, 76, 77, 79, 80, 81, 83, 84, 85, 87, 88, 89,
	}
	reports = []int{20, 26, 51, 53, 54, 55, 56, 57, 61, 63, 65, 66, 67, 68, 69, 70, 71, 79, 80, 81, 82, 85}
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	name := regexp.MustCompile("(?m)(?:\"|^\\s*// |// Field report |^// )((?:A?[0-9]{1,2}(?:,| and|:)? )+|A?[0-9]{1,2}:)")
	inside := regexp.MustCompile(`A?[0-9]{1,2}`)
	for _, folder := range []string{".", "../source"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(folder, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, match := range name.FindAllSubmatch(text, -1) {
				for _, number := range inside.FindAll(match[1], -1) {
					seen[string(number)] = true
				}
			}
		}
	}
	for _, n := range catalogue {
		if !seen[fmt.Sprint(n)] {
			t.Errorf("row %d of the catalogue has no test", n)
		}
	}
	for _, n := range reports {
		if !seen[fmt.Sprintf("A%d", n)] {
			t.Errorf("field report A%d has no test", n)
		}
	}
}
