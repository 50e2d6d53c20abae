package devstack

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// liveName is a file that exists while servers may be started in a folder.
const liveName = "live"

// watchdogScript waits until its input ends, which it does when our process
// does, in whatever way. Then it ends every process named by a pid file in the
// folder $1, and removes the folder, unless $2 is "keep".
//
// A pid may be another process' by now: it is only touched if its command line
// names the folder. Servers get an order to shut down first, since a killed
// Postgres leaves shared memory behind; its own pid file names that.
const watchdogScript = `
dir=$1 keep=$2
trap '' HUP INT QUIT TERM
read -r _
rm -f "$dir/` + liveName + `"

cmdline() {
	if [ -d /proc/self ]; then tr '\0' ' ' <"/proc/$1/cmdline"; else ps -ww -o command= -p "$1"; fi
}
ours() {
	case $(cmdline "$1") in *"$dir/"*) true ;; *) false ;; esac
}
children() {
	if [ -d /proc/self ]; then cat "/proc/$1/task/$1/children"
	else ps -A -o pid=,ppid= | while read -r pid parent; do [ "$parent" != "$1" ] || echo "$pid"; done
	fi
}
end() {
	kill -s CONT -- "-$1" $(children "$1")
	kill -s INT "$1"
	n=0
	while ours "$1" && [ $n -lt 50 ]; do sleep 0.1; n=$((n+1)); done
	ours "$1" || return
	kill -s STOP "$1"
	kill -s KILL -- "-$1" $(children "$1")
}
# strays finds servers by their command lines, if the folder is gone and the pid
# files with it.
strays() {
	[ -d "$dir" ] && return
	if [ -d /proc/self ]; then
		for pid in /proc/[0-9]*; do ours "${pid#/proc/}" && echo "${pid#/proc/}"; done
	else
		ps -A -o pid= | while read -r pid; do ours "$pid" && echo "$pid"; done
	fi
}
free_memory() { sed -n 7p "$1" | { read -r key id && ipcrm -m "$id"; }; }

exec 2>/dev/null
for file in "$dir"/*.pid; do
	pid=$(cat "$file") && ours "$pid" && end "$pid" &
done
for pid in $(strays); do
	end "$pid" &
done
wait
rm -f "$dir"/*.pid
[ "$keep" = keep ] && exit 0
for file in "$dir"/postgres*/postmaster.pid; do free_memory "$file"; done
rm -rf "$dir" || { sleep 1; rm -rf "$dir"; }
`

// watchdog returns the script as a command for dir.
func watchdog(dir string, keep bool) *exec.Cmd {
	what := "remove"
	if keep {
		what = "keep"
	}
	return &exec.Cmd{
		Path: "/bin/sh",
		Args: []string{"sh", "-c", watchdogScript, "hookonce-watchdog", dir, what},
		Dir:  "/",
		Env:  []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin"},
		// Ctrl-C in a terminal reaches the terminal's session only.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
}

// sweep ends what is left of a stack whose watchdog was killed too.
func sweep(dir string) error {
	if err := watchdog(dir, true).Run(); err != nil {
		return fmt.Errorf("end what ran there before: %w", err)
	}
	return nil
}

// watch starts the watchdog. The pipe's other end is in no child of ours, since
// Go closes it in all of them.
func (f *folder) watch() error {
	if err := os.WriteFile(filepath.Join(f.path, liveName), nil, 0o600); err != nil {
		return err
	}
	stdin, leash, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdin.Close()
	cmd := watchdog(f.path, f.keep)
	cmd.Stdin = stdin
	cmd.ExtraFiles = []*os.File{f.lock}
	if err := cmd.Start(); err != nil {
		leash.Close()
		return fmt.Errorf("watchdog: %w", err)
	}
	f.leash, f.watchdog = leash, cmd
	return nil
}
