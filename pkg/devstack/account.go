package devstack

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// An account runs the servers when we are root, which Postgres refuses to be.
// A nil account is ourselves.
type account struct {
	name     string
	uid, gid uint32
}

// unprivileged returns nil unless we are root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup("postgres")
	if err != nil {
		found, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("no user to run the servers as, since Postgres refuses to run as root: %w", err)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", found.Username, err)
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", found.Username, err)
	}
	return &account{name: found.Username, uid: uint32(uid), gid: uint32(gid)}, nil
}

func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.uid, Gid: a.gid}
}

// own makes the account the owner of path.
func (a *account) own(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, int(a.uid), int(a.gid))
}

// enter checks that the account can get into dir, by doing so.
func (a *account) enter(dir string) error {
	if a == nil {
		return nil
	}
	cmd := &exec.Cmd{
		Path:        "/bin/sh",
		Args:        []string{"sh", "-c", ":"},
		Dir:         dir,
		SysProcAttr: &syscall.SysProcAttr{Credential: a.credential()},
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("closed to user %s, who runs the servers because we are root: %w", a.name, err)
	}
	return nil
}
