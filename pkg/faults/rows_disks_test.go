package faults

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// diskRows let a disk run full.
func diskRows() []*row {
	return []*row{
		{number: "36", name: "disk of the append-only file full: everysec, everysec, always", disk: "redis", refused: mountRefused, bound: 100 * time.Second, fault: func(s *stage) {
			for _, fsync := range []string{"everysec", "everysec", "always"} {
				s.fire("disk of Redis full, appendfsync "+fsync, func() {
					s.check(s.rdb.ConfigSet(context.Background(), "appendfsync", fsync).Err())
					s.crowdDisk(1500 * time.Millisecond)
					if s.stack.Redis.Pid() == 0 { // with always it gives up
						s.restart(s.stack.Redis)
					}
				})
				s.rest(500*time.Millisecond, time.Second)
			}
		}},
		{number: "51", name: "disk of Postgres full", disk: "postgres", durable: true, refused: mountRefused, bound: 100 * time.Second, fault: func(s *stage) {
			s.times(3, "disk of Postgres full", func() {
				s.crowdDisk(2 * time.Second)
				if s.count(`SELECT 1`) < 0 { // it may have given up
					s.restart(s.stack.Postgres)
					s.db.Reset()
				}
			})
		}},
	}
}

const diskSize = "160m"

// mount puts a small disk at a folder.
func mount(dir string) error {
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", "mode=755,size="+diskSize, "tmpfs", dir).CombinedOutput()
	if err != nil {
		return &os.PathError{Op: "mount", Path: strings.TrimSpace(string(out)), Err: err}
	}
	return nil
}

// mountRefused says why no small disk can be had here.
var mountRefused = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "hookonce-mount")
	if err != nil {
		return err.Error()
	}
	defer os.Remove(dir)
	if err := mount(dir); err != nil {
		return "needs to mount a small file system, which is refused here (it takes root)"
	}
	exec.Command("umount", dir).Run()
	return ""
})

// smallDisk returns a folder on a file system of its own.
func (s *stage) smallDisk() string {
	s.Helper()
	dir, err := os.MkdirTemp("", "hookonce-disk")
	if err == nil {
		err = os.Chmod(dir, 0o755) // the servers may be another user's
	}
	if err == nil {
		err = mount(dir)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		var err error // while a child of Redis still writes
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			if err = exec.Command("umount", dir).Run(); err == nil || time.Now().After(end) {
				break
			}
		}
		s.check(err)
		s.check(os.Remove(dir))
	})
	s.disk = dir
	return filepath.Join(dir, "servers")
}

// crowdDisk leaves no room on the disk for a while.
func (s *stage) crowdDisk(d time.Duration) {
	name := filepath.Join(s.disk, "filler")
	f, err := os.Create(name)
	if err != nil {
		s.Error(err)
		return
	}
	block := make([]byte, 1<<20)
	for end := time.Now().Add(d); time.Now().Before(end); {
		n, err := f.Write(block)
		if err == nil {
			continue
		}
		if block = block[:max(1, len(block)/2)]; n == 0 && len(block) == 1 {
			time.Sleep(10 * time.Millisecond) // what is freed is taken again
		}
	}
	s.check(f.Close())
	s.check(os.Remove(name))
}
