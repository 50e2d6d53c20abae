package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/bench/load"
)

// A usage is the CPU time of processes in a stretch of time, by name. Where the
// system has no /proc it is empty.
type usage map[string]time.Duration

// A meter takes it.
type meter struct {
	pids  map[string]int
	begun usage
	used  usage

	at      time.Time
	others  time.Duration // of the whole machine, at the beginning
	foreign float64       // the share of the machine that others used
}

func (r *rig) meter(parts ...*part) *meter {
	m := &meter{pids: map[string]int{"redis": r.stack.Redis.Pid(), "postgres": r.stack.Postgres.Pid()}}
	for _, p := range parts {
		m.pids[p.name] = p.pid()
	}
	return m
}

// turn is called at the beginning and at the end.
func (m *meter) turn(begins bool) {
	all, known := busy()
	now := usage{"generator": load.CPU()}
	for name, pid := range m.pids {
		if d, ok := cpuOf(pid); ok {
			now[name] = d
		}
	}
	if begins {
		m.begun, m.at, m.others = now, time.Now(), all
		return
	}
	m.used = usage{}
	for name, d := range now {
		m.used[name] = d - m.begun[name]
	}
	if known {
		m.foreign = float64(all-m.others-m.used.sum()) / float64(time.Since(m.at)*time.Duration(runtime.NumCPU()))
	}
}

// busy is the CPU time that all programs of the machine have used so far, with
// that of interrupts: whoever is interrupted is charged for it too.
func busy() (time.Duration, bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, false
	}
	var name string
	var user, nice, system, idle, iowait, irq, softirq int64
	if _, err := fmt.Sscan(string(text), &name, &user, &nice, &system, &idle, &iowait, &irq, &softirq); err != nil {
		return 0, false
	}
	return time.Duration(user+nice+system+irq+softirq) * tick, true
}

// sum is the CPU time of all processes.
func (u usage) sum() (sum time.Duration) {
	for _, d := range u {
		sum += d
	}
	return sum
}

// each is the CPU time per event in microseconds.
func (u usage) each(events int, names ...string) float64 {
	var sum time.Duration
	for _, name := range names {
		sum += u[name]
	}
	return float64(sum.Microseconds()) / float64(max(events, 1))
}

// tick is what Linux counts CPU time in, for programs that look.
const tick = time.Second / 100

// cpuOf is what the process and its children, those that have ended and those
// that live, have used so far.
func cpuOf(pid int) (time.Duration, bool) {
	self, ok := readStat(fmt.Sprintf("/proc/%d/stat", pid))
	if !ok {
		return 0, false
	}
	sum := self.own + self.reaped
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		if s, ok := readStat(file); ok && s.parent == pid {
			sum += s.own + s.reaped
		}
	}
	return sum, true
}

type stat struct {
	parent      int
	own, reaped time.Duration
}

func readStat(file string) (stat, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return stat{}, false
	}
	text = text[bytes.LastIndexByte(text, ')')+1:] // the name in brackets may hold anything
	var s stat
	var skip string
	var utime, stime, cutime, cstime int64
	_, err = fmt.Sscan(string(text), &skip, &s.parent, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip, &skip,
		&utime, &stime, &cutime, &cstime)
	s.own, s.reaped = time.Duration(utime+stime)*tick, time.Duration(cutime+cstime)*tick
	return s, err == nil
}

// residentMB is the memory of a process in MB, or 0 if it cannot be told.
func residentMB(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			var kB float64
			if _, err := fmt.Sscan(value, &kB); err == nil {
				return kB / 1024
			}
		}
	}
	return 0
}
