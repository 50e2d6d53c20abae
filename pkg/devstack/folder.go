package devstack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// A folder holds all that the servers write. While it is open it is locked, and
// a watchdog waits for the end of our process to clear up.
type folder struct {
	path string // absolute, without links
	keep bool
	as   *account // who owns the folder and runs the servers; nil is ourselves

	lock     *os.File  // shared with the watchdog: locked until both are gone
	leash    *os.File  // the watchdog acts when this closes
	watchdog *exec.Cmd // nil until it runs
}

// openFolder opens dir, or a new temporary folder if dir is "".
func openFolder(ctx context.Context, dir string, keep bool) (*folder, error) {
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	if dir == "" {
		keep = false
		if dir, err = tempFolder(as); err != nil {
			return nil, err
		}
	}
	f := &folder{keep: keep, as: as}
	if err := f.open(ctx, dir); err != nil {
		return nil, fmt.Errorf("folder %s: %w", dir, errors.Join(err, f.abandon()))
	}
	return f, nil
}

func (f *folder) open(ctx context.Context, dir string) error {
	var err error
	if f.lock, err = lockFolder(ctx, dir); err != nil {
		return err
	}
	if f.path, err = realPath(dir); err != nil {
		return err
	}
	if err := os.Chmod(f.path, 0o700); err != nil {
		return err
	}
	if err := f.as.own(f.path); err != nil {
		return err
	}
	if err := f.as.enter(f.path); err != nil {
		return err
	}
	if err := sweep(f.path); err != nil {
		return err
	}
	return f.watch()
}

// abandon undoes an open that did not get as far as the watchdog.
func (f *folder) abandon() error {
	if f.lock == nil {
		return nil // the folder is somebody else's
	}
	defer f.lock.Close()
	if f.keep || f.path == "" {
		return nil
	}
	return os.RemoveAll(f.path)
}

// tempFolder makes a folder that the account can reach: TMPDIR may lie below
// one that is closed to it.
func tempFolder(as *account) (string, error) {
	var errs []error
	for _, parent := range []string{os.TempDir(), "/tmp", "/var/tmp"} {
		err := as.enter(parent)
		if err == nil {
			return os.MkdirTemp(parent, "hookonce-")
		}
		errs = append(errs, fmt.Errorf("temporary folder in %s: %w", parent, err))
	}
	return "", errors.Join(errs...)
}

// realPath is the path as the process table shows it.
func realPath(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// lockName is the file that is locked. It also marks a folder as ours, which
// may be removed.
const lockName = "devstack.lock"

var (
	errForeign = errors.New("holds other files and is not a devstack folder: name an empty or a new one")
	errInUse   = errors.New("in use by another program")
)

// lockFolder makes dir if need be, and locks it. It waits a while for the
// watchdog of the program that had it before.
func lockFolder(ctx context.Context, dir string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	for {
		lock, err := tryLock(dir)
		if !errors.Is(err, errInUse) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, errInUse
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func tryLock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := checkOurs(dir); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, lockName)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errInUse // its last user is just removing it
	}
	if err != nil {
		return nil, err
	}
	if err := lockFile(file, name); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// lockFile locks file, which was opened by name. Its last user may have removed
// it since; then the lock is worth nothing.
func lockFile(file *os.File, name string) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errInUse
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	held, err := file.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Stat(name); err != nil || !os.SameFile(held, named) {
		return errInUse
	}
	return nil
}

func checkOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); errors.Is(err, os.ErrNotExist) {
		return errForeign
	}
	return nil
}

// mkdir makes a folder inside for the servers.
func (f *folder) mkdir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return f.as.own(dir)
}

func (f *folder) logName(server string) string { return filepath.Join(f.path, server+".log") }

// tail returns the end of a server's log, for an error.
func (f *folder) tail(server string) string {
	const enough = 2000
	text, err := os.ReadFile(f.logName(server))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-enough):])
}

// close lets the watchdog clear up, and waits for it.
func (f *folder) close() error {
	f.leash.Close()
	err := f.watchdog.Wait()
	if !f.keep {
		err = os.RemoveAll(f.path) // does something only if somebody killed the watchdog
	}
	f.lock.Close()
	if err != nil {
		return fmt.Errorf("folder %s: clear up: %w", f.path, err)
	}
	return nil
}
