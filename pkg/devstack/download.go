package devstack

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// download returns the folder of initdb and postgres from the embedded-postgres
// library, which fetches them once per machine and user.
func download(ctx context.Context) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	const version = embeddedpostgres.V17
	whole := filepath.Join(cache, "postgres-"+string(version))
	if bin := filepath.Join(whole, "bin"); complete(bin) {
		return bin, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	done := make(chan error, 1)
	go func() { done <- unpack(cache, whole, version) }()
	select {
	case err = <-done:
	case <-ctx.Done(): // the library cannot be stopped
		err = context.Cause(ctx)
	}
	if err != nil {
		return "", fmt.Errorf("download PostgreSQL %s: %w", version, err)
	}
	return filepath.Join(whole, "bin"), nil
}

// cacheFolder is one that the unprivileged account can reach too if we are root.
func cacheFolder() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/hookonce", nil
	}
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "hookonce"), err
}

// unpack works in a folder of its own, so that what is in whole is whole.
func unpack(cache, whole string, version embeddedpostgres.PostgresVersion) error {
	temp, err := os.MkdirTemp(cache, "unpack-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(temp) }() // a leftover of a cache
	if err := os.Chmod(temp, 0o755); err != nil {
		return err
	}
	files := filepath.Join(temp, "postgres")
	if err := fetch(cache, files, filepath.Join(temp, "run"), version); err != nil {
		return err
	}
	if err := os.Rename(files, whole); err != nil && !complete(filepath.Join(whole, "bin")) {
		return err
	}
	return nil
}

// fetch makes the library download and unpack into files. It has no call for
// that alone, and would go on to run a server, as root in vain: the name of the
// data folder is one that no system takes, so it stops there. By then it has
// made the folder run, which tells that the files are complete.
func fetch(cache, files, run string, version embeddedpostgres.PostgresVersion) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	err = embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(version).
		Port(uint32(port)).
		CachePath(cache).
		BinariesPath(files).
		RuntimePath(run).
		DataPath("\x00").
		Logger(io.Discard)).Start()
	if _, missing := os.Stat(run); missing != nil {
		return err
	}
	return nil
}
