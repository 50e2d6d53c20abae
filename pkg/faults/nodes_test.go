package faults

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A node is a Redis of a row's own, for what the one of devstack cannot be: a
// sentinel, or a part of a cluster.
type node struct {
	tb   testing.TB
	addr string
	args []string // of every start

	rdb *redis.Client

	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.Closer
}

// watched lets Redis end when the test does, however that ends: then its
// standard input closes.
const watched = `redis-server "$@" & p=$!; read x; kill -9 $p`

// newNode starts a Redis with an append-only file in a folder of its own.
func newNode(s *stage, args ...string) *node {
	s.Helper()
	dir := s.TempDir()
	n := &node{tb: s, addr: freeAddr(s)}
	_, port, _ := net.SplitHostPort(n.addr)
	n.args = append([]string{"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "yes"}, args...)
	if len(args) > 0 && args[len(args)-1] == "--sentinel" {
		conf := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(conf, []byte("port "+port+"\nbind 127.0.0.1\ndir "+dir+"\n"), 0o600); err != nil {
			s.Fatal(err)
		}
		n.args = []string{conf, "--sentinel"}
	}
	n.rdb = redis.NewClient(&redis.Options{Addr: n.addr, MaxRetries: -1})
	n.start()
	s.Cleanup(func() {
		n.kill()
		n.rdb.Close()
	})
	return n
}

// start returns when the node answers.
func (n *node) start(more ...string) {
	cmd := exec.Command("/bin/sh", append([]string{"-c", watched, "sh"}, append(n.args, more...)...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := cmd.StdinPipe() // closed when we end
	if err != nil {
		n.tb.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		n.tb.Error(err)
		return
	}
	n.mu.Lock()
	n.cmd, n.stdin = cmd, stdin
	n.mu.Unlock()
	n.await("it answers", func() bool {
		err := n.rdb.Ping(context.Background()).Err()
		return err == nil || strings.Contains(err.Error(), "LOADING")
	})
}

func (n *node) await(what string, ok func() bool) {
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.tb.Errorf("redis at %s: not in 20 s: %s\n%s", n.addr, what, n.info("replication"))
			return
		}
	}
}

// kill ends the node and its guard with SIGKILL.
func (n *node) kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cmd == nil {
		return
	}
	syscall.Kill(-n.cmd.Process.Pid, syscall.SIGKILL)
	n.stdin.Close()
	n.cmd.Wait()
	n.cmd = nil
}

func (n *node) do(args ...any) {
	if err := n.rdb.Do(context.Background(), args...).Err(); err != nil {
		n.tb.Errorf("%v: %v", args, err)
	}
}

func (n *node) info(section string) string {
	return n.rdb.Info(context.Background(), section).Val()
}

// replicated are the arguments of a Redis whose replicas can be locked out,
// while all others are served.
var replicated = []string{"--user", "replica", "on", ">replica", "~*", "&*", "+@all", "--masteruser", "replica", "--masterauth", "replica"}

// sentinels are a master, its replica, and three that watch them.
func sentinels(s *stage) {
	master, replica := newNode(s, replicated...), newNode(s, replicated...)
	s.pair = [2]*node{master, replica}
	s.follow(replica.rdb, master.rdb)
	address := "redis-sentinel://"
	host, port, _ := net.SplitHostPort(master.addr)
	var watchers []string
	for range 3 {
		w := newNode(s, "--sentinel")
		w.do("SENTINEL", "MONITOR", "ours", host, port, "2")
		w.do("SENTINEL", "SET", "ours", "down-after-milliseconds", "500", "failover-timeout", "2000")
		watchers = append(watchers, w.addr)
		s.watchers = append(s.watchers, w)
	}
	for _, w := range s.watchers {
		w.await("it knows the others and the replica", func() bool {
			others, _ := w.rdb.Do(context.Background(), "SENTINEL", "SENTINELS", "ours").Slice()
			replicas, _ := w.rdb.Do(context.Background(), "SENTINEL", "REPLICAS", "ours").Slice()
			return len(others) == 2 && len(replicas) == 1
		})
	}
	s.redisURL = address + watchers[0] + "/0?master_name=ours&addr=" + watchers[1] + "&addr=" + watchers[2] + "&password=PASSWORD&username=default"
	s.rdb = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "ours", SentinelAddrs: watchers})
	s.Cleanup(func() { s.rdb.Close() })
}

// failOver locks the replica out for a moment, whose writes are so lost, and
// kills the master.
func failOver(s *stage) {
	for range 3 {
		master, replica := s.pair[0], s.pair[1]
		s.fire("the replica falls behind, and the master is killed", func() {
			master.do("ACL", "SETUSER", "replica", "off")
			master.do("CLIENT", "KILL", "USER", "replica")
			time.Sleep(400 * time.Millisecond) // the gap
			master.kill()
			replica.await("it is the master", func() bool { return strings.Contains(replica.info("replication"), "role:master") })
		})
		s.rest(500*time.Millisecond, time.Second)
		s.pair = [2]*node{replica, master}
		host, port, _ := net.SplitHostPort(replica.addr)
		master.start("--replicaof", host+" "+port)
		master.await("one follows the other", func() bool {
			for i, n := range s.pair {
				if strings.Contains(n.info("replication"), "master_link_status:up") {
					s.pair = [2]*node{s.pair[1-i], n} // on a busy machine the sentinels may have turned once more
					return true
				}
			}
			return false
		})
		time.Sleep(4 * time.Second) // twice the failover-timeout: sooner the sentinels do not turn again
	}
}

// cluster is three masters that share the slots.
func cluster(s *stage) {
	var at []string
	for i := range 3 {
		n := newNode(s, "--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no")
		n.do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		n.do("CLUSTER", "ADDSLOTSRANGE", i*16384/3, (i+1)*16384/3-1)
		s.nodes = append(s.nodes, n)
		at = append(at, n.addr)
	}
	for _, n := range s.nodes[1:] {
		host, port, _ := net.SplitHostPort(n.addr)
		s.nodes[0].do("CLUSTER", "MEET", host, port)
	}
	for _, n := range s.nodes {
		n.await("the cluster is whole", func() bool {
			info := n.rdb.ClusterInfo(context.Background()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_size:3")
		})
	}
	s.redisURL = fmt.Sprintf("redis-cluster://%s?addr=%s&addr=%s", at[0], at[1], at[2])
	s.rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: at})
	s.Cleanup(func() { s.rdb.Close() })
}

// killMasters kills each master once, and starts it again.
func killMasters(s *stage) {
	for _, n := range s.nodes {
		s.fire("kill -9 of the master "+n.addr, func() {
			n.kill()
			time.Sleep(1500 * time.Millisecond)
			n.start()
		})
		s.rest(500*time.Millisecond, time.Second)
	}
}
