package bench

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/bench/load"
	"github.com/hookonce/hookonce/pkg/program"
)

// The test binary is the parts too.
func TestMain(m *testing.M) {
	if len(os.Args) != 3 || os.Args[1] != "part" {
		os.Exit(m.Run())
	}
	if _, err := BePart(os.Getenv); err != nil {
		panic(err)
	}
	var err error
	o := program.Options{Environ: os.Environ(), Stderr: os.Stderr, Listening: func(a, _ net.Addr) { Announce(os.Stdout, a) }}
	switch name := os.Args[2]; name {
	case "ingest":
		err = program.Ingest(context.Background(), o)
	case "worker":
		err = program.Worker(context.Background(), o)
	case "sqlfloor":
		err = SQLFloor(context.Background(), os.Getenv, func() { Announce(os.Stdout, nil) })
	default:
		err = Serve(context.Background(), name, os.Getenv, func(a net.Addr) { Announce(os.Stdout, a) })
	}
	panic(err)
}

// All scenarios but those that take long even if they are quick.
func TestQuickRun(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server in PATH")
	}
	dir := t.TempDir()
	var out bytes.Buffer
	o := Options{
		Self: []string{os.Args[0], "part"}, Quick: true, Stdout: &out, Stderr: io.Discard, Out: filepath.Join(dir, "BENCH.md"),
		Only: []string{"accept", "fsync", "drain", "duplicates"},
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	report, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"of floor", "SQL floor", "naive B", "duplicates/s", "bytes of Redis", "bench.svg", "measures nothing"} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report does not speak of %q", want)
		}
	}
	if strings.Contains(string(report), "no answer") {
		t.Errorf("deliveries went wrong:\n%s", report)
	}
	if _, err := os.Stat(filepath.Join(dir, "bench.svg")); err != nil {
		t.Error(err)
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	if got, err := choose(Options{Only: []string{"drain", " accept"}}); err != nil || len(got) != 2 || got[0].name != "drain" {
		t.Errorf("choose = %v, %v", got, err)
	}
	if _, err := choose(Options{Only: []string{"no-such"}}); err == nil || !strings.Contains(err.Error(), "accept") {
		t.Errorf("choose(no-such) = %v, want the names there are", err)
	}
}

// The floor is honest: it accepts what is signed, and nothing else.
func TestFloor(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(floor())
	defer server.Close()
	for _, s := range []struct {
		secret string
		want   load.Counts
	}{{secret, load.Counts{New: 50}}, {"another", load.Counts{Failed: 50}}} {
		res, err := load.Fire(t.Context(), load.Load{Addr: strings.TrimPrefix(server.URL, "http://"), Paths: []string{"/webhooks/main"}, Conns: 2, Count: 50, Maker: load.NewMaker(s.secret, smallBody)})
		if err != nil || res.Counts != s.want {
			t.Errorf("secret %q: %+v, %v, want %+v", s.secret, res.Counts, err, s.want)
		}
	}
}

func TestCPUOf(t *testing.T) {
	t.Parallel()
	before, ok := cpuOf(os.Getpid())
	if !ok {
		t.Skip("no /proc")
	}
	deadline := time.Now().Add(5 * time.Second)
	for now := before; now < before+50*time.Millisecond; now, _ = cpuOf(os.Getpid()) {
		if time.Now().After(deadline) {
			t.Fatalf("%s of CPU in 5 s of work", now-before)
		}
	}
	if residentMB(os.Getpid()) < 1 {
		t.Errorf("residentMB = %v", residentMB(os.Getpid()))
	}
}

func TestSeries(t *testing.T) {
	t.Parallel()
	s := series{3, 1, 2, 4}
	if s.median() != 2.5 || s.text("%.0f") != "2 (1–4)" || (series{7}).text("%.0f") != "7" || (series{}).text("%.0f") != "–" {
		t.Error(s.median(), s.text("%.0f"))
	}
	if got := s.over(series{1, 1, 2}); fmt.Sprint(got) != "[3 1 1]" {
		t.Error(got)
	}
	for _, v := range []struct {
		got  verdict
		want verdict
	}{
		{atLeast(1, 1), met}, {atLeast(0.9, 1), near}, {atLeast(0.89, 1), missed},
		{atMost(1, 1), met}, {atMost(1.1, 1), near}, {atMost(1.11, 1), missed}, {atMost(1, 0), missed},
		{worst(met, missed, near), missed}, {worst(met, void, missed), void}, {worst(met), met},
	} {
		if v.got != v.want {
			t.Errorf("got %s, want %s", v.got, v.want)
		}
	}
}

func TestPlotIsWellFormed(t *testing.T) {
	t.Parallel()
	svg := plot([]bar{{"0.5 kB", "floor", 37000}, {"0.5 kB", "queue", 20000}, {"4 kB", "floor", 0}},
		[]line{{"queue", []point{{100, 0.2, 0.01}, {20000, 3, 4000}}}})
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v\n%s", err, svg)
		}
	}
}
