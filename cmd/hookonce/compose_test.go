package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// ours are the services that run our programs.
var ours = []string{"ingest", "migrate", "worker"}

// composeFile reads docker-compose.yml as docker compose does.
func composeFile(t *testing.T, environ ...string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{repository(t, "docker-compose.yml")},
		cli.WithEnv(environ), cli.WithName("hookonce"), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	return options.LoadProject(t.Context())
}

// repository is the path of a file of this repository.
func repository(t *testing.T, name string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join("..", "..", name))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func project(t *testing.T) *types.Project {
	t.Helper()
	p, err := composeFile(t, "HOOKONCE_SECRET="+secret)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComposeNeedsSecret(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{nil, {"HOOKONCE_SECRET="}} {
		_, err := composeFile(t, environ...)
		if err == nil || !strings.Contains(err.Error(), "set HOOKONCE_SECRET to the secret that your provider signs with") {
			t.Errorf("with %q: %v, want our sentence", environ, err)
		}
	}
}

func TestComposeServices(t *testing.T) {
	t.Parallel()
	p := project(t)
	if got, want := p.ServiceNames(), []string{"asynqmon", "ingest", "migrate", "postgres", "redis", "worker"}; !slices.Equal(got, want) {
		t.Fatalf("services %v, want %v", got, want)
	}
	pinned := regexp.MustCompile(`:v?\d+(\.\d+)+(-[a-z0-9.]+)?$`)
	for name, s := range p.Services {
		switch {
		case slices.Contains(ours, name):
			checkOurs(t, s)
		case s.Build != nil || !pinned.MatchString(s.Image):
			t.Errorf("%s: image %q, want one with a whole version", name, s.Image)
		}
		once := name == "migrate"
		if !once && s.Restart != "unless-stopped" {
			t.Errorf("%s: restart %q", name, s.Restart)
		}
		if hasCheck := s.HealthCheck != nil; hasCheck == (once || name == "asynqmon") {
			t.Errorf("%s: a health check: %t", name, hasCheck)
		}
	}
	for service, want := range map[string]map[string]string{
		"redis":    {},
		"postgres": {},
		"migrate":  {"postgres": types.ServiceConditionHealthy},
		"ingest":   {"redis": types.ServiceConditionHealthy, "migrate": types.ServiceConditionCompletedSuccessfully},
		"worker":   {"redis": types.ServiceConditionHealthy, "migrate": types.ServiceConditionCompletedSuccessfully},
		"asynqmon": {"redis": types.ServiceConditionHealthy},
	} {
		got := map[string]string{}
		for on, d := range p.Services[service].DependsOn {
			got[on] = d.Condition
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s depends on %v, want %v", service, got, want)
		}
	}
}

func checkOurs(t *testing.T, s types.ServiceConfig) {
	t.Helper()
	if s.Build == nil || s.Build.Context != repository(t, "") || s.Build.Dockerfile != "Dockerfile" || s.Image != "hookonce/hookonce:dev" {
		t.Errorf("%s: image %s is not built from our Dockerfile: %+v", s.Name, s.Image, s.Build)
	}
	if len(s.Volumes) != 1 || s.Volumes[0].Source != repository(t, "hookonce.yaml") || !s.Volumes[0].ReadOnly ||
		s.Volumes[0].Target != *s.Environment["HOOKONCE_CONFIG"] {
		t.Errorf("%s: volumes %+v, want hookonce.yaml where HOOKONCE_CONFIG says", s.Name, s.Volumes)
	}
	// How our programs shut down: see httpserve and queue.
	if grace := gracePeriod(s); s.Name != "migrate" && grace < 12*time.Second {
		t.Errorf("%s: killed after %s, before it can have shut down in order", s.Name, grace)
	}
}

// gracePeriod is how long the service has from SIGTERM to SIGKILL.
func gracePeriod(s types.ServiceConfig) time.Duration {
	if s.StopGracePeriod == nil {
		return 10 * time.Second
	}
	return time.Duration(*s.StopGracePeriod)
}

// TestComposePorts checks what can be reached from outside: webhooks by all,
// the queues by this machine, and nothing else.
func TestComposePorts(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for name, s := range project(t).Services {
		for _, port := range s.Ports {
			got[name] += fmt.Sprintf("%s:%s:%d", port.HostIP, port.Published, port.Target)
		}
	}
	if want := map[string]string{"ingest": ":8080:8080", "asynqmon": "127.0.0.1:8090:8080"}; !maps.Equal(got, want) {
		t.Errorf("published %v, want %v", got, want)
	}
}

func TestComposeStores(t *testing.T) {
	t.Parallel()
	p := project(t)
	redis := strings.Join(p.Services["redis"].Command, " ")
	contains(t, redis+" ", "redis-server ", "--appendonly yes ", "--maxmemory-policy noeviction ")
	for service, folder := range map[string]string{"redis": "/data", "postgres": "/var/lib/postgresql/data"} {
		v := p.Services[service].Volumes
		if len(v) != 1 || v[0].Type != types.VolumeTypeVolume || v[0].Target != folder {
			t.Errorf("%s: volumes %+v, want a named one at %s", service, v, folder)
		}
	}
	contains(t, strings.Join(p.Services["asynqmon"].Command, " ")+" ", "--redis-addr=redis:6379 ", "--read-only ")
	checks := map[string]string{"redis": "CMD redis-cli -e ping", "postgres": "CMD pg_isready -h 127.0.0.1 -U hookonce"}
	for service, want := range checks {
		if got := strings.Join(p.Services[service].HealthCheck.Test, " "); got != want {
			t.Errorf("%s: health check %q, want %q", service, got, want)
		}
	}
	env := p.Services["postgres"].Environment
	u, err := url.Parse(*p.Services["worker"].Environment["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	want := fmt.Sprintf("postgres://%s:%s@postgres:5432/%s", *env["POSTGRES_USER"], *env["POSTGRES_PASSWORD"], *env["POSTGRES_DB"])
	if got := fmt.Sprintf("postgres://%s:%s@%s%s", u.User.Username(), password, u.Host, u.Path); got != want {
		t.Errorf("DATABASE_URL is %s, want %s", got, want)
	}
}

// TestDockerfile checks that what the Dockerfile names is there: no engine
// builds it here.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	text := read(t, repository(t, "Dockerfile"))
	match := func(pattern string) []string {
		t.Helper()
		m := regexp.MustCompile(pattern).FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("no %s in the Dockerfile", pattern)
		}
		return m[1:]
	}
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, repository(t, "go.mod")))[1]
	if got := match(`(?m)^FROM golang:(\S+?)-\S+ AS build$`)[0]; got != goVersion {
		t.Errorf("built with Go %s, and go.mod wants %s", got, goVersion)
	}
	ignored := strings.Fields(read(t, repository(t, ".dockerignore")))
	for _, name := range strings.Fields(match(`(?m)^COPY (.+) \./$`)[0]) {
		if _, err := os.Stat(repository(t, name)); err != nil || slices.Contains(ignored, name) {
			t.Errorf("COPY %s: not there: %v", name, err)
		}
	}
	build := match(`(?m)^RUN CGO_ENABLED=0 go build .*-o (/out/) (.+)$`)
	var programs []string
	for _, pkg := range strings.Fields(build[1]) {
		if _, err := os.Stat(repository(t, filepath.Join(pkg, "main.go"))); err != nil || slices.Contains(ignored, path.Clean(pkg)) {
			t.Errorf("go build %s: %v", pkg, err)
		}
		programs = append(programs, "/"+path.Base(pkg))
	}
	if got := match(`(?m)^COPY --from=build (\S+) /$`)[0]; got != build[0] {
		t.Errorf("COPY --from=build %s, and the programs are in %s", got, build[0])
	}
	commands := []string{match(`(?m)^CMD \["(\S+)"\]$`)[0]}
	for _, name := range ours {
		commands = append(commands, project(t).Services[name].Command[0])
	}
	for _, c := range commands {
		if !slices.Contains(programs, c) {
			t.Errorf("command %s is none of %v", c, programs)
		}
	}
	match(`(?m)^USER (nonroot):nonroot$`)
}

// A composition runs the services of docker-compose.yml that are ours, each
// with its own command and environment, on a Redis and a Postgres of this
// machine.
type composition struct {
	t       *testing.T
	project *types.Project
	hosts   *strings.Replacer
}

func compose(t *testing.T) *composition {
	t.Helper()
	stack := stacktest.Private(t, devstack.Options{Fast: true})
	host := func(address string) string {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		return u.Host
	}
	p := project(t)
	// As the image of Postgres does, by its environment.
	env := p.Services["postgres"].Environment
	db := connect(t, stack.DatabaseURL)
	for _, statement := range []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", *env["POSTGRES_USER"], *env["POSTGRES_PASSWORD"]),
		fmt.Sprintf("ALTER DATABASE %s OWNER TO %s", *env["POSTGRES_DB"], *env["POSTGRES_USER"]),
	} {
		if _, err := db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return &composition{t, p, strings.NewReplacer(
		"@postgres:5432", "@"+host(stack.DatabaseURL), "redis:6379", host(stack.RedisURL),
		"/etc/hookonce.yaml", repository(t, "hookonce.yaml"))}
}

func connect(t *testing.T, address string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.Background()) })
	return db
}

// environ is the environment of a service, with addresses that are free here.
func (c *composition) environ(service string) []string {
	environ := bare("INGEST_ADDR=127.0.0.1:0", "OPS_ADDR=127.0.0.1:0")
	for name, value := range c.project.Services[service].Environment {
		environ = append(environ, name+"="+c.hosts.Replace(*value))
	}
	return environ
}

// up starts one container of a service.
func (c *composition) up(service string) *process {
	c.t.Helper()
	command := c.project.Services[service].Command
	return start(c.t, c.t.TempDir(), c.environ(service), binary(c.t, command[0]), command[1:]...)
}

// A listener is what a program logs of its addresses.
type listener struct {
	Msg  string
	Addr string
	Ops  string
}

// healthy waits until the service's own health check passes, and returns where
// it listens. The ports are those that the program took instead of its own.
func (c *composition) healthy(service string, p *process) listener {
	c.t.Helper()
	var at listener
	eventually(c.t, service+" says where it listens", func() bool {
		for line := range strings.Lines(p.stderr.String()) {
			if json.Unmarshal([]byte(line), &at) == nil && at.Ops != "" {
				return true
			}
		}
		return p.ended()
	})
	test := c.project.Services[service].HealthCheck.Test
	if test[0] != "CMD" {
		c.t.Fatalf("%s: health check %v, want one without a shell", service, test)
	}
	u, err := url.Parse(test[len(test)-1])
	if err != nil {
		c.t.Fatal(err)
	}
	if want := map[string]string{"ingest": "127.0.0.1:8081", "worker": "127.0.0.1:8082"}[service]; u.Host != want {
		c.t.Errorf("%s: the health check asks %s, and the program listens on %s", service, u.Host, want)
	}
	u.Host = at.Ops
	eventually(c.t, service+" is healthy", func() bool {
		check := start(c.t, "", bare(), binary(c.t, test[1]), append(slices.Clone(test[2:len(test)-1]), u.String())...)
		return check.wait(c.t, 10*time.Second) == 0 || p.ended()
	})
	if p.ended() {
		c.t.Fatalf("%s ended", service)
	}
	return at
}

// hookonce runs the tool as a container would.
func (c *composition) hookonce(args ...string) string {
	c.t.Helper()
	p := start(c.t, c.t.TempDir(), c.environ("worker"), binary(c.t, "hookonce"), args...)
	if code := p.wait(c.t, 20*time.Second); code != 0 {
		c.t.Fatalf("hookonce %v: exit code %d: %s", args, code, p.stderr.String())
	}
	return p.stdout.String()
}

func TestComposeUp(t *testing.T) {
	t.Parallel()
	c := compose(t)
	if code := c.up("migrate").wait(t, 30*time.Second); code != 0 {
		t.Fatalf("migrate: exit code %d", code)
	}
	running := map[string][]*process{"ingest": {c.up("ingest")}, "worker": {c.up("worker")}}
	at := c.healthy("ingest", running["ingest"][0])
	c.healthy("worker", running["worker"][0])

	send := func(id string, more ...string) {
		t.Helper()
		answer := c.hookonce(append([]string{"send", "--source", "shop", "--url", "http://" + at.Addr, "--id", id}, more...)...)
		contains(t, answer, `200 {"status":"accepted"`)
	}
	completed := func(id string) {
		t.Helper()
		eventually(t, id+" is completed", func() bool {
			var r webhook.Record
			if err := json.Unmarshal([]byte(c.hookonce("events", "show", "shop", id, "-o", "json")), &r); err != nil {
				t.Fatal(err)
			}
			return r.Status == webhook.Completed
		})
	}
	send("first")
	completed("first")

	for range 2 { // --scale worker=3
		p := c.up("worker")
		running["worker"] = append(running["worker"], p)
		c.healthy("worker", p)
	}
	db := connect(t, c.hosts.Replace(*c.project.Services["worker"].Environment["DATABASE_URL"]))
	for i := range 30 {
		send(fmt.Sprint("scaled-", i), "--copies", "3", "--parallel")
	}
	eventually(t, "31 events are completed", func() bool {
		var n int
		err := db.QueryRow(t.Context(), `SELECT count(*) FROM received_events WHERE source = 'shop' AND status = 'completed'`).Scan(&n)
		return err == nil && n == 31
	})
	var payments, paid int
	err := db.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT event_id) FROM payments WHERE source = 'shop' AND amount = 4200`).Scan(&payments, &paid)
	if err != nil || payments != 31 || paid != 31 {
		t.Errorf("%d payments of %d events, %v, want one each of 31", payments, paid, err)
	}
	for service, processes := range running {
		for _, p := range processes {
			p.stop(t, syscall.SIGTERM, gracePeriod(c.project.Services[service]))
		}
	}
}
