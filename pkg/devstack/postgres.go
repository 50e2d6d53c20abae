package devstack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// findPostgres returns the folder that holds initdb and postgres, or "".
func findPostgres(ctx context.Context) string {
	for _, name := range []string{"initdb", "postgres"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err == nil && complete(filepath.Dir(path)) {
			return filepath.Dir(path)
		}
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		if dir := strings.TrimSpace(string(out)); complete(dir) {
			return dir
		}
	}
	return newestPostgres(
		"/usr/lib/postgresql/*/bin",
		"/opt/homebrew/opt/postgresql*/bin",
		"/usr/local/opt/postgresql*/bin",
	)
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return filepath.IsAbs(dir)
}

// newestPostgres looks at one pattern after the other.
func newestPostgres(patterns ...string) string {
	for _, pattern := range patterns {
		dirs, _ := filepath.Glob(pattern)
		dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !complete(dir) })
		if len(dirs) > 0 {
			return slices.MaxFunc(dirs, func(a, b string) int { return cmp.Compare(major(a), major(b)) })
		}
	}
	return ""
}

// major returns the version in a path such as /usr/lib/postgresql/15/bin.
func major(dir string) float64 {
	version, _ := strconv.ParseFloat(regexp.MustCompile(`[0-9.]+`).FindString(dir), 64)
	return version
}

func newPostgres(home *folder, bins string, fast bool) *Server {
	s := &Server{
		name: "postgres",
		home: home,
		bin:  filepath.Join(bins, "postgres"),
		dir:  filepath.Join(home.path, "postgres"),
	}
	s.prepare = func(ctx context.Context) error { return initDB(ctx, s, filepath.Join(bins, "initdb")) }
	s.args = func(port int) []string { return postgresArgs(s.dir, port, fast) }
	s.answers = func(ctx context.Context) error { return postgresAnswers(ctx, s) }
	return s
}

func postgresArgs(dir string, port int, fast bool) []string {
	settings := []string{
		"listen_addresses=127.0.0.1",
		"unix_socket_directories=",
		"max_connections=200",
		"dynamic_shared_memory_type=mmap", // in the folder, so that it goes with the folder
	}
	if fast {
		settings = append(settings, "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	}
	args := []string{"-D", dir, "-p", strconv.Itoa(port)}
	for _, setting := range settings {
		args = append(args, "-c", setting)
	}
	return args
}

// initDB makes the data folder unless there is one. It works under another name
// first, so that one which is there is whole.
func initDB(ctx context.Context, s *Server, initdb string) error {
	if _, err := os.Stat(s.dir); err == nil {
		return nil
	}
	unfinished := s.dir + ".new"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	p, err := s.home.launch("initdb", initdb, "-D", unfinished,
		"-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), p.stop())
	}
	if p.err != nil {
		return fmt.Errorf("initdb: %w; its last words: %s", p.err, s.home.tail("initdb"))
	}
	return os.Rename(unfinished, s.dir)
}

func startPostgres(ctx context.Context, s *Server) (string, error) {
	if err := s.start(ctx); err != nil {
		return "", err
	}
	if err := createDatabase(ctx, s); err != nil {
		return "", fmt.Errorf("create database %s: %w", database, err)
	}
	return postgresURL(s.port, database), nil
}

// database is the name of the one that the program uses.
const database = "hookonce"

func postgresURL(port int, database string) string {
	return "postgres://postgres@" + address(port) + "/" + database + "?sslmode=disable"
}

// postgresAnswers checks that the one who answers has our data, and is no
// stranger that took the port first.
func postgresAnswers(ctx context.Context, s *Server) error {
	conn, err := pgx.Connect(ctx, postgresURL(s.port, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var dir string
	if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&dir); err != nil {
		return err
	}
	if dir != s.dir {
		return fmt.Errorf("port %d is another program's, with data in %s", s.port, dir)
	}
	return nil
}

func createDatabase(ctx context.Context, s *Server) error {
	conn, err := pgx.Connect(ctx, postgresURL(s.port, "postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var exists bool
	const query = "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)"
	if err := conn.QueryRow(ctx, query, database).Scan(&exists); err != nil || exists {
		return err
	}
	_, err = conn.Exec(ctx, "CREATE DATABASE "+database)
	return err
}
