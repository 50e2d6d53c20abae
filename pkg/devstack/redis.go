package devstack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// findRedis returns the path of a Redis server in PATH, or "".
func findRedis() string {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

func newRedis(home *folder, bin string) *Server {
	s := &Server{
		name: "redis",
		home: home,
		// A Redis shows nothing of its arguments in the process table but the
		// path that it was started by, so this path is one in our folder.
		bin: filepath.Join(home.path, filepath.Base(bin)),
		dir: filepath.Join(home.path, "redis"),
	}
	s.prepare = func(context.Context) error { return linkRedis(s, bin) }
	s.args = func(port int) []string {
		return []string{
			"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.dir,
			"--appendonly", "yes", "--appendfsync", "everysec", "--save", "",
			"--maxmemory", "1gb", "--maxmemory-policy", "noeviction", "--daemonize", "no",
		}
	}
	s.answers = func(ctx context.Context) error { return redisAnswers(ctx, s) }
	return s
}

// linkRedis makes the data folder and the path that the server is started by.
func linkRedis(s *Server, bin string) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	if err := os.Remove(s.bin); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.Symlink(bin, s.bin); err != nil {
		return err
	}
	return s.home.mkdir(s.dir)
}

func startRedis(ctx context.Context, s *Server) (string, error) {
	if err := s.start(ctx); err != nil {
		return "", err
	}
	return "redis://" + address(s.port) + "/0", nil
}

// redisAnswers checks that the one who answers is our process, not a stranger
// that took the port first.
func redisAnswers(ctx context.Context, s *Server) error {
	client := redis.NewClient(&redis.Options{
		Addr:       address(s.port),
		MaxRetries: -1,
		PoolSize:   1,
	})
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", s.proc.pid)) {
		return fmt.Errorf("port %d is another program's", s.port)
	}
	return nil
}
