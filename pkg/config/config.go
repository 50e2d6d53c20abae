// Package config holds the settings of our programs: the environment and the
// sources file.
//
// It serves our own programs and promises nothing to others. It reads no
// environment but the one it is given. All that is wrong with the settings is
// said at once, and no error repeats a URL or a secret.
package config

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/source"
)

// Log says what is logged, and how.
type Log struct {
	Level  slog.Level `env:"LOG_LEVEL" envDefault:"info" help:"debug, info, warn or error"`
	Format string     `env:"LOG_FORMAT" envDefault:"json" help:"json or text"`
}

func (l Log) check(m *mistakes) {
	m.when(l.Format != "json" && l.Format != "text", "LOG_FORMAT", "want json or text")
}

// Ingest holds the settings of cmd/ingest.
type Ingest struct {
	RedisURL      string        `env:"REDIS_URL,required,notEmpty" help:"where the queue is, such as redis://localhost:6379/0"`
	SourcesFile   string        `env:"HOOKONCE_CONFIG" help:"the sources file; if not set, ./hookonce.yaml if there is one"`
	Addr          string        `env:"INGEST_ADDR" envDefault:":8080" help:"where webhooks are received"`
	OpsAddr       string        `env:"OPS_ADDR" envDefault:"127.0.0.1:8081" help:"where health and metrics are served"`
	DatabaseURL   string        `env:"DATABASE_URL" help:"where events are held if the queue cannot, or first; if not set, the queue alone holds them"`
	Ack           string        `env:"INGEST_ACK" envDefault:"queue" help:"what is to hold an event before it is accepted: queue (Redis) or inbox (Postgres)"`
	Fallback      string        `env:"INBOX_FALLBACK" envDefault:"redis" help:"what holds events if INGEST_ACK is inbox and Postgres is away: redis (if it persists) or none"`
	Persistent    bool          `env:"REDIS_PERSISTENT" envDefault:"false" help:"Redis persists, although it does not show that"`
	AllowEviction bool          `env:"REDIS_ALLOW_EVICTION" envDefault:"false" help:"start although Redis may evict tasks, and so lose events"`
	AckTimeout    time.Duration `env:"INGEST_ACK_TIMEOUT" envDefault:"800ms" help:"how long a delivery may wait for that"`
	MaxInflight   int           `env:"INGEST_MAX_INFLIGHT" envDefault:"256" help:"deliveries at once; more are told to come back"`
	MaxBodyBytes  Size          `env:"MAX_BODY_BYTES" envDefault:"256MiB" help:"of all bodies in hand at once; more are told to come back"`
	Proxies       []string      `env:"TRUSTED_PROXIES" help:"addresses and networks, with commas between them, whose X-Forwarded-For, -Proto and -Host are believed; if not set, none"`
	AllowUnsigned bool          `env:"ALLOW_UNSIGNED" envDefault:"false" help:"start without a sources file, and accept what nobody signed"`
	Log           Log

	Sources  []source.Source `env:"-"` // at least one
	Trusted  []netip.Prefix  `env:"-"` // what Proxies says
	Warnings []string        `env:"-"` // what is not wrong, and should be known
}

// Worker holds the settings of cmd/worker.
type Worker struct {
	RedisURL      string        `env:"REDIS_URL,required,notEmpty" help:"where the queue is, such as redis://localhost:6379/0"`
	DatabaseURL   string        `env:"DATABASE_URL,required,notEmpty" help:"where the events are, such as postgres://localhost/hookonce"`
	SourcesFile   string        `env:"HOOKONCE_CONFIG" help:"the sources file; if not set, ./hookonce.yaml if there is one"`
	OpsAddr       string        `env:"OPS_ADDR" envDefault:"127.0.0.1:8082" help:"where health and metrics are served"`
	Only          []string      `env:"WORKER_SOURCES" help:"the sources to work for, with commas between them; if not set, all"`
	RetryMin      time.Duration `env:"RETRY_MIN" envDefault:"2s" help:"the back-off after the first failure"`
	RetryMax      time.Duration `env:"RETRY_MAX" envDefault:"4h" help:"the longest back-off"`
	Allowance     time.Duration `env:"LEASE_ALLOWANCE" envDefault:"5s" help:"beyond its timeout, before an attempt counts as lost"`
	SweepEvery    time.Duration `env:"SWEEP_EVERY" envDefault:"5s" help:"how often lost tasks are looked for"`
	Persistent    bool          `env:"REDIS_PERSISTENT" envDefault:"false" help:"Redis persists, although it does not show that"`
	AllowEviction bool          `env:"REDIS_ALLOW_EVICTION" envDefault:"false" help:"start although Redis may evict tasks, and so lose events"`
	Log           Log

	Sources  []source.Source `env:"-"` // those named by Only; at least one
	Known    []string        `env:"-"` // the names of all that the sources file has
	Warnings []string        `env:"-"` // what is not wrong, and should be known
}

// ReadIngest reads the settings of cmd/ingest from an environment in the form
// of os.Environ, and the sources file that it names.
func ReadIngest(environ []string) (Ingest, error) {
	var c Ingest
	vars := variables(environ)
	m := read(vars, &c)
	var fileErr error
	c.Sources, c.Warnings, fileErr = readSources(&c.SourcesFile, vars, nil)
	c.warnUnsigned()
	c.check(m)
	if err := errors.Join(m.err(), fileErr); err != nil {
		return Ingest{}, err
	}
	return c, nil
}

func (c *Ingest) check(m *mistakes) {
	m.when(c.Ack != "queue" && c.Ack != "inbox", "INGEST_ACK", "want queue or inbox")
	m.when(c.Ack == "inbox" && c.DatabaseURL == "", "DATABASE_URL", "must be set for INGEST_ACK=inbox")
	m.when(c.Fallback != "redis" && c.Fallback != "none", "INBOX_FALLBACK", "want redis or none")
	m.when(c.AckTimeout <= 0, "INGEST_ACK_TIMEOUT", "want more than 0, such as 800ms")
	m.when(c.MaxInflight < 1, "INGEST_MAX_INFLIGHT", "want 1 or more")
	c.Trusted = trusted(c.Proxies, m)
	c.checkRoom(m)
	m.when(!isAddr(c.Addr), "INGEST_ADDR", "want host:port or :port, such as :8080")
	m.when(!isAddr(c.OpsAddr), "OPS_ADDR", "want host:port or :port, such as 127.0.0.1:8081")
	m.when(c.SourcesFile == "" && !c.AllowUnsigned, "ALLOW_UNSIGNED",
		"there is no sources file, so the only source is default, which is unsigned: "+
			"set ALLOW_UNSIGNED=true to accept deliveries that nobody signed, or write a sources file (HOOKONCE_CONFIG)")
	c.Log.check(m)
}

// warnUnsigned says which sources take what nobody signed.
func (c *Ingest) warnUnsigned() {
	for _, s := range c.Sources {
		switch {
		case s.Verifier != nil:
		case len(s.AllowIPs) > 0:
			c.Warnings = append(c.Warnings, "source "+s.Name+": nobody signs its deliveries: allow_ips alone does not prove who sent them")
		default:
			c.Warnings = append(c.Warnings, "source "+s.Name+": nobody signs its deliveries: whoever knows its address can send them")
		}
	}
}

// Stores holds what the settings of both programs say of Redis and Postgres.
type Stores struct {
	RedisURL      string `env:"REDIS_URL,required,notEmpty" help:"where the queue is, such as redis://localhost:6379/0"`
	DatabaseURL   string `env:"DATABASE_URL,required,notEmpty" help:"where the events are, such as postgres://localhost/hookonce"`
	Ack           string `env:"INGEST_ACK" envDefault:"queue" help:"queue or inbox"`
	Persistent    bool   `env:"REDIS_PERSISTENT" envDefault:"false"`
	AllowEviction bool   `env:"REDIS_ALLOW_EVICTION" envDefault:"false"`
}

// ReadStores reads them from an environment in the form of os.Environ.
func ReadStores(environ []string) (Stores, error) {
	var s Stores
	m := read(variables(environ), &s)
	m.when(s.Ack != "queue" && s.Ack != "inbox", "INGEST_ACK", "want queue or inbox")
	if err := m.err(); err != nil {
		return Stores{}, err
	}
	return s, nil
}

// ReadSources reads the sources as ingest does, and nothing else.
func ReadSources(environ []string) ([]source.Source, error) {
	vars := variables(environ)
	file := vars["HOOKONCE_CONFIG"]
	sources, _, err := readSources(&file, vars, nil)
	return sources, err
}

// ReadWorker reads the settings of cmd/worker from an environment in the form
// of os.Environ, and the sources file that it names, which may name handlers
// beside the built-in ones.
func ReadWorker(environ []string, handlers ...string) (Worker, error) {
	var c Worker
	vars := variables(environ)
	m := read(vars, &c)
	sources, warnings, fileErr := readSources(&c.SourcesFile, vars, append([]string{"payments"}, handlers...))
	c.Warnings = warnings
	c.check(m)
	if fileErr == nil {
		c.choose(sources, m)
	}
	if err := errors.Join(m.err(), fileErr); err != nil {
		return Worker{}, err
	}
	return c, nil
}

func (c *Worker) check(m *mistakes) {
	m.when(!isAddr(c.OpsAddr), "OPS_ADDR", "want host:port or :port, such as 127.0.0.1:8082")
	m.when(c.RetryMin <= 0, "RETRY_MIN", "want more than 0, such as 2s")
	m.when(c.RetryMax < c.RetryMin, "RETRY_MAX", "want no less than RETRY_MIN")
	m.when(c.Allowance < time.Second, "LEASE_ALLOWANCE", "want 1s or more, such as 5s")
	m.when(c.SweepEvery <= 0, "SWEEP_EVERY", "want more than 0, such as 5s")
	c.Log.check(m)
}

// choose sets the sources to those that Only names, or to all.
func (c *Worker) choose(sources []source.Source, m *mistakes) {
	known := make([]string, len(sources))
	for i, s := range sources {
		known[i] = s.Name
	}
	c.Known = known
	if len(c.Only) == 0 {
		c.Sources = sources
		return
	}
	var unknown []string
	for i, name := range c.Only {
		c.Only[i] = strings.TrimSpace(name)
		if !slices.Contains(known, c.Only[i]) {
			unknown = append(unknown, strconv.Quote(c.Only[i]))
		}
	}
	m.when(len(unknown) > 0, "WORKER_SOURCES", "no source is called "+strings.Join(unknown, ", ")+
		": want any of "+strings.Join(known, ", "))
	for _, s := range sources {
		if slices.Contains(c.Only, s.Name) {
			c.Sources = append(c.Sources, s)
		}
	}
}

func isAddr(addr string) bool {
	_, _, err := net.SplitHostPort(addr)
	return err == nil
}
