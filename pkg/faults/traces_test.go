package faults

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// What the programs leave behind: N10 wants nothing that grows, N11 no secret.

const (
	notBack = "N10 not back to base: "
	leaked  = "N11 secret in "
)

// newCanary is a secret that no text but the programs' settings may hold.
func newCanary() string { return "canary" + rand.Text() }

// signedSource is one whose secret is the canary. Nobody sends to it but knock.
const signedSource = `  signed: {verify: {scheme: hmac, header: X-Signature, algorithm: sha256, encoding: hex}, secrets: ["${CANARY_SECRET}"],
    id: {json: /event_id}, type: {json: /event_type}, handlers: [{match: "*", handler: effect}]}
`

// withPassword puts the canary into an address. Both servers let everybody in,
// with any password.
func withPassword(address, user, canary string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	u.User = url.UserPassword(user, canary)
	return u.String()
}

// vitals are what a process says of itself.
type vitals struct{ goroutines, files int }

// slack is what may come on top of the base: connections that a pool keeps, and
// what has not started when the base is taken.
var slack = vitals{goroutines: 40, files: 200}

func (s *stage) programs() []*slot { return append([]*slot{s.ingest}, s.workers...) }

// fetch reads a page of the ops listener of the process that is there now.
func (s *slot) fetch(page string) (string, error) {
	s.mu.Lock()
	ops := s.ops
	s.mu.Unlock()
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get("http://" + ops + page)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func (s *slot) vitals() (vitals, error) {
	var v vitals
	text, err := s.fetch("/metrics")
	for scanner := bufio.NewScanner(strings.NewReader(text)); scanner.Scan(); {
		name, value, _ := strings.Cut(scanner.Text(), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "go_goroutines":
			v.goroutines = int(n)
		case "process_open_fds":
			v.files = int(n)
		}
	}
	if err == nil && v.goroutines == 0 {
		err = fmt.Errorf("%s: no go_goroutines among its metrics", s.name)
	}
	return v, err
}

// takeBase notes the vitals of the programs before anything was sent.
func (s *stage) takeBase() {
	for _, p := range s.programs() {
		v, err := p.vitals()
		s.check(err)
		p.base = v
	}
}

// traces looks at all that the programs left, once they are quiet.
func (s *stage) traces() []violation {
	s.sender.client.CloseIdleConnections()
	var found []violation
	note := func(name string, n int, example string) {
		if n > 0 {
			found = append(found, violation{name, n, key{"at", example}})
		}
	}
	s.knock()
	for _, p := range s.programs() {
		note(notBack+"goroutines or files of "+p.name, 1-p.settled(), p.state())
		p.mu.Lock()
		leaks := p.leaks
		p.mu.Unlock()
		note(leaked+"the log of "+p.name, len(leaks), strings.Join(leaks[:min(1, len(leaks))], ""))
		for _, page := range []string{"/metrics", "/readyz"} {
			text, _ := p.fetch(page)
			note(leaked+page, strings.Count(text, s.canary), p.name)
		}
	}
	n, example := s.lastingKeys()
	note(notBack+"keys of ours in Redis", n, example)
	n, example = s.secretKeys()
	note(leaked+"Redis", n, example)
	note(leaked+"Postgres", max(0, s.count(countSecrets, "%"+s.canary+"%")), "")
	return found
}

const countSecrets = `SELECT (SELECT count(*) FROM received_events e WHERE (to_jsonb(e) - 'payload')::text LIKE $1)
	+ (SELECT count(*) FROM event_attempts e WHERE to_jsonb(e)::text LIKE $1)
	+ (SELECT count(*) FROM audit_log e WHERE to_jsonb(e)::text LIKE $1)`

// knock makes ingest refuse a delivery whose signature is wrong, which it logs.
func (s *stage) knock() {
	resp, err := http.Post(s.url+"/webhooks/signed", "application/json", strings.NewReader(`{"event_id":"1","event_type":"t"}`))
	if err != nil {
		s.Errorf("unsigned delivery: %v", err)
		return
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		s.Errorf("unsigned delivery: %s, want 401", resp.Status)
	}
}

// settled is 1 once the process has no more than its base and some slack.
func (s *slot) settled() int {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		v, err := s.vitals() // an error: it was killed, and starts again
		if err == nil && v.goroutines <= s.base.goroutines+slack.goroutines && v.files <= s.base.files+slack.files {
			return 1
		}
	}
	return 0
}

func (s *slot) state() string {
	v, err := s.vitals()
	return fmt.Sprintf("%+v, %v; base %+v", v, err, s.base)
}

// eachKey calls f with each key in Redis, of a cluster's every master.
func (s *stage) eachKey(pattern string, f func(node redis.Cmdable, key string)) {
	ctx := context.Background()
	scan := func(node redis.Cmdable) {
		keys := node.Scan(ctx, 0, pattern, 1000).Iterator()
		for keys.Next(ctx) {
			f(node, keys.Val())
		}
		s.check(keys.Err())
	}
	cluster, ok := s.rdb.(*redis.ClusterClient)
	if !ok {
		scan(s.rdb)
		return
	}
	for _, node := range s.masters(cluster) {
		scan(node)
	}
}

// masters are the nodes of a cluster that hold keys.
func (s *stage) masters(cluster *redis.ClusterClient) []*redis.Client {
	var mu sync.Mutex
	var nodes []*redis.Client
	s.check(cluster.ForEachMaster(context.Background(), func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, node)
		return nil
	}))
	return nodes
}

// lastingKeys are those of ours but for the marks: locks must go with their
// attempts, or by their time.
func (s *stage) lastingKeys() (n int, example string) {
	for deadline := time.Now().Add(25 * time.Second); ; time.Sleep(200 * time.Millisecond) {
		n = 0
		s.eachKey("hookonce:*", func(_ redis.Cmdable, key string) {
			if !strings.HasSuffix(key, ":epoch") {
				n++
				example = key
			}
		})
		if n == 0 || time.Now().After(deadline) {
			return n, example
		}
	}
}

// secretKeys are those that hold the canary.
func (s *stage) secretKeys() (n int, example string) {
	ctx := context.Background()
	s.eachKey("*", func(node redis.Cmdable, key string) {
		var text any
		switch kind := node.Type(ctx, key).Val(); kind {
		case "hash":
			text = node.HGetAll(ctx, key).Val()
		case "string":
			text = node.Get(ctx, key).Val()
		case "set":
			text = node.SMembers(ctx, key).Val()
		default: // lists and sorted sets hold ids
		}
		if strings.Contains(fmt.Sprint(key, text), s.canary) {
			n++
			example = key
		}
	})
	return n, example
}
