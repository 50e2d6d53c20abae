package devstack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// An entry is one line of the process table. A process that has ended and was
// not reaped has none here.
type entry struct {
	pid, parent int
	state       string // T and what follows: stopped
}

// processes reads /proc where there is one: small Linux images have no ps.
func processes() ([]entry, error) {
	if files, _ := filepath.Glob("/proc/[0-9]*/stat"); len(files) > 0 {
		return fromProc(files), nil
	}
	ps := &exec.Cmd{Path: "/bin/ps", Args: []string{"ps", "-A", "-o", "pid=,stat=,ppid="}}
	out, err := ps.Output()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var table []entry
	for line := range strings.Lines(string(out)) {
		table = appendEntry(table, line)
	}
	return table, nil
}

// fromProc skips files that cannot be read: their process has just ended.
func fromProc(files []string) []entry {
	var table []entry
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		pid, _, _ := bytes.Cut(stat, []byte(" ("))
		rest := stat[bytes.LastIndexByte(stat, ')')+1:] // the name in brackets may hold anything
		table = appendEntry(table, string(pid)+string(rest))
	}
	return table
}

// appendEntry parses "pid state parent".
func appendEntry(table []entry, line string) []entry {
	var e entry
	_, err := fmt.Sscan(line, &e.pid, &e.state, &e.parent)
	if err != nil || strings.HasPrefix(e.state, "Z") {
		return table
	}
	return append(table, e)
}

func childrenOf(pid int) ([]int, error) {
	table, err := processes()
	var children []int
	for _, e := range table {
		if e.parent == pid {
			children = append(children, e.pid)
		}
	}
	return children, err
}

// stopped reports whether each of pids is stopped or gone.
func stopped(table []entry, pids ...int) bool {
	return !slices.ContainsFunc(table, func(e entry) bool {
		return slices.Contains(pids, e.pid) && !strings.HasPrefix(e.state, "T")
	})
}

// gone reports whether none of pids is there.
func gone(table []entry, pids ...int) bool {
	return !slices.ContainsFunc(table, func(e entry) bool { return slices.Contains(pids, e.pid) })
}

// until looks at the process table again and again until it is as wanted.
func until(wanted func([]entry) bool) error {
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		table, err := processes()
		if err != nil {
			return err
		}
		if wanted(table) {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("processes did not obey a signal for 10 seconds")
		}
	}
}
