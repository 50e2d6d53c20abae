package config_test

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/source"
)

const (
	redisURL    = "REDIS_URL=redis://u:" + canary + "@localhost:6379/0"
	databaseURL = "DATABASE_URL=postgres://u:" + canary + "@localhost/hookonce"
)

// inFolder moves the test to a folder of its own with these files in it.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestIngestDefaults(t *testing.T) {
	inFolder(t, nil)
	got, err := config.ReadIngest([]string{redisURL, "ALLOW_UNSIGNED=true"})
	want := config.Ingest{
		RedisURL:      strings.TrimPrefix(redisURL, "REDIS_URL="),
		Addr:          ":8080",
		OpsAddr:       "127.0.0.1:8081",
		Ack:           "queue",
		Fallback:      "redis",
		AckTimeout:    800 * time.Millisecond,
		MaxInflight:   256,
		MaxBodyBytes:  256 << 20,
		AllowUnsigned: true,
		Log:           config.Log{Level: slog.LevelInfo, Format: "json"},
		Sources:       []source.Source{source.Default()},
		Warnings:      []string{"source default: nobody signs its deliveries: whoever knows its address can send them"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadIngest = %+v, %v, want %+v", got, err, want)
	}
}

func TestWorkerDefaults(t *testing.T) {
	inFolder(t, nil)
	got, err := config.ReadWorker([]string{redisURL, databaseURL})
	want := config.Worker{
		RedisURL:    strings.TrimPrefix(redisURL, "REDIS_URL="),
		DatabaseURL: strings.TrimPrefix(databaseURL, "DATABASE_URL="),
		OpsAddr:     "127.0.0.1:8082",
		RetryMin:    2 * time.Second,
		RetryMax:    4 * time.Hour,
		Allowance:   5 * time.Second,
		SweepEvery:  5 * time.Second,
		Log:         config.Log{Level: slog.LevelInfo, Format: "json"},
		Sources:     []source.Source{source.Default()},
		Known:       []string{"default"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("ReadWorker = %+v, %v, want %+v", got, err, want)
	}
}

func TestIngestSet(t *testing.T) {
	inFolder(t, map[string]string{"other.yaml": one("a", unsigned...)})
	got, err := config.ReadIngest([]string{
		"REDIS_URL= redis://localhost \n", "HOOKONCE_CONFIG=other.yaml", "INGEST_ADDR=0.0.0.0:80", "OPS_ADDR=[::1]:81", "INGEST_ACK=inbox",
		"DATABASE_URL=postgres://localhost", "INBOX_FALLBACK=none", "REDIS_PERSISTENT=true",
		"INGEST_ACK_TIMEOUT=1s", "INGEST_MAX_INFLIGHT=1", "MAX_BODY_BYTES=4MiB", "TRUSTED_PROXIES=10.0.0.0/8, 192.0.2.7", "ALLOW_UNSIGNED=", "LOG_LEVEL=debug", "LOG_FORMAT=text",
		"=hidden", "no equals sign", "0_NAME=x", "_0_NAME=x",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Sources) != 1 || got.Sources[0].Name != "a" {
		t.Errorf("sources %+v, want a", got.Sources)
	}
	got.Sources, got.Warnings = nil, nil
	want := config.Ingest{
		RedisURL: "redis://localhost", SourcesFile: "other.yaml", Addr: "0.0.0.0:80", OpsAddr: "[::1]:81", DatabaseURL: "postgres://localhost",
		Ack: "inbox", Fallback: "none", Persistent: true, AckTimeout: time.Second, MaxInflight: 1, Log: config.Log{Level: slog.LevelDebug, Format: "text"},
		MaxBodyBytes: 4 << 20, Proxies: []string{"10.0.0.0/8", " 192.0.2.7"},
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("ReadIngest = %+v, want %+v", got, want)
	}
}

func TestIngestRefusal(t *testing.T) {
	inFolder(t, map[string]string{"bad.yaml": one("a", append(unsigned[:3:3], "timeout: "+canary)...)})
	good := []string{redisURL, "ALLOW_UNSIGNED=true"}
	tests := []struct {
		variable string // put in after the good ones
		want     string
	}{
		{"REDIS_URL=", "REDIS_URL: must not be empty: where the queue is, such as redis://localhost:6379/0"},
		{"REDIS_URL= \t\n", "REDIS_URL: must not be empty: "},
		{"ALLOW_UNSIGNED=false", "ALLOW_UNSIGNED: there is no sources file, so the only source is default, which is unsigned: " +
			"set ALLOW_UNSIGNED=true to accept deliveries that nobody signed, or write a sources file (HOOKONCE_CONFIG)"},
		{"ALLOW_UNSIGNED=" + canary, "ALLOW_UNSIGNED: want true or false"},
		{"HOOKONCE_CONFIG=none.yaml", "sources file (HOOKONCE_CONFIG): open none.yaml: no such file or directory"},
		{"HOOKONCE_CONFIG=.", "sources file (HOOKONCE_CONFIG): read .: is a directory"},
		{"HOOKONCE_CONFIG=/dev/zero", "sources file (HOOKONCE_CONFIG): read /dev/zero: is larger than 1 MiB"},
		{"HOOKONCE_CONFIG=bad.yaml", "bad.yaml:6: source a: timeout: want a duration"},
		{"INGEST_ACK=inbox", "DATABASE_URL: must be set for INGEST_ACK=inbox"},
		{"INGEST_ACK=" + canary, "INGEST_ACK: want queue or inbox"},
		{"INBOX_FALLBACK=" + canary, "INBOX_FALLBACK: want redis or none"},
		{"INGEST_ACK_TIMEOUT=800", "INGEST_ACK_TIMEOUT: want a duration such as 800ms"},
		{"INGEST_ACK_TIMEOUT=0", "INGEST_ACK_TIMEOUT: want more than 0, such as 800ms"},
		{"INGEST_ACK_TIMEOUT=" + canary, "INGEST_ACK_TIMEOUT: want a duration such as 800ms"},
		{"INGEST_MAX_INFLIGHT=0", "INGEST_MAX_INFLIGHT: want 1 or more"},
		{"INGEST_MAX_INFLIGHT=99999999999", "INGEST_MAX_INFLIGHT: want a whole number such as 256"},
		{"INGEST_MAX_INFLIGHT=" + canary, "INGEST_MAX_INFLIGHT: want a whole number such as 256"},
		{"INGEST_ADDR=8080" + canary, "INGEST_ADDR: want host:port or :port, such as :8080"},
		{"OPS_ADDR=" + canary, "OPS_ADDR: want host:port or :port, such as 127.0.0.1:8081"},
		{"LOG_LEVEL=" + canary, "LOG_LEVEL: want debug, info, warn or error"},
		{"LOG_FORMAT=" + canary, "LOG_FORMAT: want json or text"},
	}
	for _, tt := range tests {
		got, err := config.ReadIngest(append(good[:2:2], tt.variable))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || !reflect.DeepEqual(got, config.Ingest{}) {
			t.Errorf("%s: got %+v and\n%v, want\n%s", tt.variable, got, err, tt.want)
			continue
		}
		if strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v: has a secret", tt.variable, err)
		}
		if n := strings.Count(err.Error(), "\n"); n > 0 {
			t.Errorf("%s: %d more errors: %v", tt.variable, n, err)
		}
	}
}

// All of environment and file is said at once, each once.
func TestIngestAllAtOnce(t *testing.T) {
	inFolder(t, map[string]string{"hookonce.yaml": one("a", "verify: none", "timeout: 1h", "id: {json: /a}", "type: {json: /b}")})
	t.Setenv("REDIS_URL", "redis://not-for-us") // os.Environ is not looked at
	_, err := config.ReadIngest([]string{"LOG_LEVEL=loud", "INGEST_ACK=mail", "INGEST_MAX_INFLIGHT=many"})
	want := strings.TrimSpace(`
REDIS_URL: must be set: where the queue is, such as redis://localhost:6379/0
INGEST_MAX_INFLIGHT: want a whole number such as 256
LOG_LEVEL: want debug, info, warn or error
INGEST_ACK: want queue or inbox
hookonce.yaml:4: source a: timeout: want a duration from 1s to 15m, such as 10s`)
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if _, err := config.ReadIngest(nil); err == nil || !strings.HasPrefix(err.Error(), "REDIS_URL: must be set") {
		t.Errorf("ReadIngest(nil): %v", err)
	}
}

const three = `sources:
  a: {verify: none, id: {json: /id}, type: {json: /type}}
  b: {verify: none, id: {json: /id}, type: {json: /type}}
  c: {provider: github, secrets: "${C_SECRET}"}
`

func TestWorkerSources(t *testing.T) {
	inFolder(t, map[string]string{"hookonce.yaml": three})
	tests := []struct {
		only string
		want []string
		err  string
	}{
		{"", []string{"a", "b", "c"}, ""},
		{"c, a", []string{"a", "c"}, ""},
		{"b,b", []string{"b"}, ""},
		{"a,d,e f", nil, `WORKER_SOURCES: no source is called "d", "e f": want any of a, b, c`},
		{"a,", nil, `WORKER_SOURCES: no source is called "": want any of a, b, c`},
		{"A", nil, `WORKER_SOURCES: no source is called "A": want any of a, b, c`},
	}
	for _, tt := range tests {
		c, err := config.ReadWorker([]string{redisURL, databaseURL, "C_SECRET=" + canary, "WORKER_SOURCES=" + tt.only})
		var got []string
		for _, s := range c.Sources {
			got = append(got, s.Name)
		}
		if text := errorText(err); !reflect.DeepEqual(got, tt.want) || text != tt.err {
			t.Errorf("WORKER_SOURCES=%s: got %v, %s, want %v, %s", tt.only, got, text, tt.want, tt.err)
		}
	}
}

func TestWorkerRefusal(t *testing.T) {
	inFolder(t, map[string]string{"hookonce.yaml": three})
	tests := []struct {
		variable string // put in after good ones
		want     string
	}{
		{"DATABASE_URL=", "DATABASE_URL: must not be empty: where the events are, such as postgres://localhost/hookonce"},
		{"RETRY_MIN=0", "RETRY_MIN: want more than 0, such as 2s"},
		{"RETRY_MIN=" + canary, "RETRY_MIN: want a duration such as 2s"},
		{"RETRY_MAX=1s", "RETRY_MAX: want no less than RETRY_MIN"},
		{"OPS_ADDR=" + canary, "OPS_ADDR: want host:port or :port, such as 127.0.0.1:8082"},
		{"LOG_FORMAT=xml", "LOG_FORMAT: want json or text"},
		{"C_SECRET= \n", "hookonce.yaml:4: source c: secrets: empty, because an environment variable is: set it, or write ${NAME:-} if it may be missing"},
	}
	for _, tt := range tests {
		_, err := config.ReadWorker([]string{redisURL, databaseURL, "C_SECRET=" + canary, tt.variable})
		if errorText(err) != tt.want {
			t.Errorf("%s: got\n%v, want\n%s", tt.variable, err, tt.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestUnreadableFile(t *testing.T) {
	inFolder(t, nil)
	if err := os.Mkdir(filepath.Join(".", "hookonce.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := config.ReadWorker([]string{redisURL, databaseURL})
	if want := "sources file (HOOKONCE_CONFIG): read hookonce.yaml: is a directory"; errorText(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestHelp(t *testing.T) {
	for _, tt := range []struct {
		settings any
		want     []string // the first word of each line
		line     string
	}{
		{config.Ingest{}, []string{"NAME", "REDIS_URL", "HOOKONCE_CONFIG", "INGEST_ADDR", "OPS_ADDR", "DATABASE_URL", "INGEST_ACK", "INBOX_FALLBACK",
			"REDIS_PERSISTENT", "REDIS_ALLOW_EVICTION", "INGEST_ACK_TIMEOUT", "INGEST_MAX_INFLIGHT", "MAX_BODY_BYTES", "TRUSTED_PROXIES", "ALLOW_UNSIGNED", "LOG_LEVEL", "LOG_FORMAT"},
			"\nOPS_ADDR              127.0.0.1:8081  where health and metrics are served\n"},
		{&config.Worker{}, []string{"NAME", "REDIS_URL", "DATABASE_URL", "HOOKONCE_CONFIG", "OPS_ADDR", "WORKER_SOURCES", "RETRY_MIN",
			"RETRY_MAX", "LEASE_ALLOWANCE", "SWEEP_EVERY", "REDIS_PERSISTENT", "REDIS_ALLOW_EVICTION", "LOG_LEVEL", "LOG_FORMAT"},
			"\nREDIS_URL             must be set     where the queue is, such as redis://localhost:6379/0\n"},
	} {
		var b strings.Builder
		config.Help(&b, tt.settings)
		var got []string
		for line := range strings.Lines(b.String()) {
			got = append(got, strings.Fields(line)[0])
		}
		if !reflect.DeepEqual(got, tt.want) || !strings.Contains(b.String(), tt.line) {
			t.Errorf("Help(%T) wrote\n%s", tt.settings, b.String())
		}
	}
}

func TestStores(t *testing.T) {
	got, err := config.ReadStores([]string{redisURL, databaseURL, "INGEST_ACK=inbox", "REDIS_ALLOW_EVICTION=true"})
	want := config.Stores{
		RedisURL: strings.TrimPrefix(redisURL, "REDIS_URL="), DatabaseURL: strings.TrimPrefix(databaseURL, "DATABASE_URL="),
		Ack: "inbox", AllowEviction: true,
	}
	if err != nil || got != want {
		t.Errorf("ReadStores = %+v, %v, want %+v", got, err, want)
	}
	_, err = config.ReadStores([]string{redisURL, "INGEST_ACK=both", "REDIS_PERSISTENT=perhaps"})
	for _, want := range []string{"DATABASE_URL: must be set", "INGEST_ACK: want queue or inbox", "REDIS_PERSISTENT: want true or false"} {
		if !strings.Contains(errorText(err), want) {
			t.Errorf("ReadStores says %v, want %s", err, want)
		}
	}
}

func TestIngestEdgesRefused(t *testing.T) {
	for setting, want := range map[string]string{
		"MAX_BODY_BYTES=0":                 "MAX_BODY_BYTES: want a number of bytes such as 256MiB",
		"MAX_BODY_BYTES=-1":                "MAX_BODY_BYTES: want a number of bytes such as 256MiB",
		"MAX_BODY_BYTES=1TiB":              "MAX_BODY_BYTES: want a number of bytes such as 256MiB",
		"MAX_BODY_BYTES=99999999999":       "MAX_BODY_BYTES: want a number of bytes such as 256MiB",
		"MAX_BODY_BYTES=1MiB":              "MAX_BODY_BYTES: want at least three times the max_body of source default, which is 1048576 bytes",
		"TRUSTED_PROXIES=10.0.0.0/8,proxy": "TRUSTED_PROXIES: want addresses and networks with commas between them, such as 10.0.0.0/8,192.0.2.7",
		"TRUSTED_PROXIES=10.0.0.1/8":       "TRUSTED_PROXIES: want addresses and networks with commas between them, such as 10.0.0.0/8,192.0.2.7",
		"TRUSTED_PROXIES=*":                "TRUSTED_PROXIES: want addresses and networks with commas between them, such as 10.0.0.0/8,192.0.2.7",
	} {
		inFolder(t, nil)
		if _, err := config.ReadIngest([]string{redisURL, "ALLOW_UNSIGNED=true", setting}); errorText(err) != want {
			t.Errorf("%s: %v, want %s", setting, err, want)
		}
	}
}
