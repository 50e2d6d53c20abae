// Package pkg_test holds the map of the program: which package may import which.
package pkg_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hookonce/hookonce/"

// mayImport lists, for each package, what it may import of this module. A new
// arrow is a decision, so it is made here, where a reviewer sees it. Arrows
// point at webhook; pkg/program and cmd introduce the parts to each other and
// may import all.
var mayImport = map[string][]string{
	"migrations":             nil,
	"pkg/bench":              {"migrations", "pkg/bench/load", "pkg/devstack", "pkg/queue", "pkg/source"},
	"pkg/bench/load":         nil,
	"pkg/config":             {"pkg/payload", "pkg/signature", "pkg/source"},
	"pkg/custody":            {"pkg/webhook"},
	"pkg/dashboard":          nil,
	"pkg/demo":               {"pkg/signature", "pkg/webhook"},
	"pkg/devstack":           nil,
	"pkg/devstack/stacktest": {"pkg/devstack"},
	"pkg/doctor":             nil,
	"pkg/handler":            {"pkg/webhook"},
	"pkg/handler/payments":   {"pkg/payload", "pkg/webhook"},
	"pkg/httpserve":          nil,
	"pkg/ingest":             {"pkg/signature", "pkg/source", "pkg/webhook"},
	"pkg/lock":               {"pkg/webhook"},
	"pkg/payload":            {"pkg/webhook"},
	"pkg/postgres":           {"pkg/webhook"},
	"pkg/queue":              {"pkg/webhook"},
	"pkg/rate":               nil,
	"pkg/replay":             nil,
	"pkg/signature":          {"pkg/payload", "pkg/webhook"},
	"pkg/source":             {"pkg/payload", "pkg/signature", "pkg/webhook"},
	"pkg/sweeper":            {"pkg/source", "pkg/webhook"},
	"pkg/telemetry":          nil,
	"pkg/webhook":            nil,
	"pkg/worker":             {"pkg/webhook"},
}

// owners lists who may import a library. pgx.Tx, as a type, belongs to the
// contract of a handler, so who wires handlers sees it too.
var owners = map[string][]string{
	"github.com/alicebob/miniredis":              {"pkg/devstack"},
	"github.com/caarlos0/env":                    {"pkg/config"},
	"github.com/fergusstrange/embedded-postgres": {"pkg/devstack"},
	"github.com/go-json-experiment/json":         {"pkg/payload"},
	"github.com/goccy/go-yaml":                   {"pkg/config"},
	"github.com/hibiken/asynq":                   {"pkg/queue"},
	"github.com/hibiken/asynqmon":                {"pkg/dashboard"},
	"github.com/jackc/pgx":                       {"migrations", "pkg/bench", "pkg/demo", "pkg/devstack", "pkg/devstack/stacktest", "pkg/handler", "pkg/handler/payments", "pkg/postgres", "pkg/program"},
	"github.com/labstack/echo":                   {"pkg/bench", "pkg/ingest"},
	"github.com/pressly/goose":                   {"migrations"},
	"github.com/prometheus/client_golang":        {"pkg/telemetry"},
	"github.com/redis/go-redis":                  {"pkg/bench", "pkg/devstack", "pkg/devstack/stacktest", "pkg/lock", "pkg/program", "pkg/queue", "pkg/rate", "pkg/replay"},
	"github.com/spf13/cobra":                     {"cmd/hookonce"},
	"golang.org/x/net/http/httpguts":             {"pkg/ingest"},
	"google.golang.org/protobuf":                 {"pkg/queue"},
}

// standard lists the packages of ours that need nothing but Go itself.
var standard = []string{"pkg/bench/load", "pkg/custody", "pkg/doctor", "pkg/signature", "pkg/source", "pkg/sweeper", "pkg/webhook", "pkg/worker"}

func TestImports(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, file := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
		seen[from] = true
		for _, spec := range f.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			check(t, from, path)
		}
	}
	for from := range mayImport {
		if !seen[from] {
			t.Errorf("mayImport lists %s, which is not there", from)
		}
	}
}

func check(t *testing.T, from, path string) {
	t.Helper()
	if to, ours := strings.CutPrefix(path, module); ours {
		allowed, listed := mayImport[from]
		introduces := from == "pkg/program" || strings.HasPrefix(from, "cmd/")
		if !introduces && (!listed || !slices.Contains(allowed, to)) {
			t.Errorf("%s imports %s, which mayImport does not allow", from, to)
		}
		return
	}
	if slices.Contains(standard, from) && strings.Contains(path, ".") {
		t.Errorf("%s imports %s: it needs nothing but the standard library", from, path)
	}
	if !strings.Contains(path, ".") {
		return
	}
	owned := false
	for lib, pkgs := range owners {
		if path == lib || strings.HasPrefix(path, lib+"/") {
			owned = true
			if !slices.Contains(pkgs, from) {
				t.Errorf("%s imports %s, which is for %v", from, path, pkgs)
			}
		}
	}
	if !owned {
		t.Errorf("%s imports %s, which has no owner", from, path)
	}
}

// sources returns the files of this module that are no tests.
func sources(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, top := range []string{"../cmd", "../migrations", "../pkg"} {
		err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 20 {
		t.Fatalf("found %d files: the walk is wrong", len(files))
	}
	return files
}
