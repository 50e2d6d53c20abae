// Package stacktest gives tests a real Redis and Postgres to work against.
//
// The tests of one binary share one stack, which starts when the first of them
// needs it. Each gets a Postgres schema and a source name of its own, so that
// they can run in parallel. HOOKONCE_TEST_REDIS_URL and
// HOOKONCE_TEST_DATABASE_URL name servers to use instead; the variables that
// configure the program and its libraries (REDIS_URL, DATABASE_URL, PG*) are
// never used, so that no test can reach a server with real data.
package stacktest

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack"
)

// shared is the stack of this test binary. It is a package-level variable since
// tests have nothing else in common that could hold it.
var shared = newLazyStack()

// A lazyStack starts at the first get, and only then.
type lazyStack struct {
	get     func() (*devstack.Stack, error)
	running atomic.Pointer[devstack.Stack] // nil until started
}

func newLazyStack() *lazyStack {
	lazy := new(lazyStack)
	lazy.get = sync.OnceValues(func() (*devstack.Stack, error) {
		stack, err := start(devstack.Options{
			Fast:        true,
			RedisURL:    os.Getenv("HOOKONCE_TEST_REDIS_URL"),
			DatabaseURL: os.Getenv("HOOKONCE_TEST_DATABASE_URL"),
		})
		lazy.running.Store(stack)
		return stack, err
	})
	return lazy
}

func start(o devstack.Options) (*devstack.Stack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return devstack.Start(ctx, o)
}

// Main runs the tests, closes the shared stack, and returns the exit status:
//
//	func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }
func Main(m *testing.M) int {
	code := m.Run()
	stack := shared.running.Load()
	if stack == nil {
		return code
	}
	if err := stack.Close(); err != nil {
		os.Stderr.WriteString("stacktest: close: " + err.Error() + "\n")
		return max(code, 1)
	}
	return code
}

// Private returns a stack of the test's own, for one that flushes, kills or
// pauses. It is closed after the test.
func Private(tb testing.TB, o devstack.Options) *devstack.Stack {
	tb.Helper()
	stack, err := start(o)
	if err != nil {
		miss(tb, err.Error())
	}
	tb.Cleanup(func() {
		if err := stack.Close(); err != nil {
			tb.Errorf("close private stack: %v", err)
		}
	})
	if stack.Volatile {
		miss(tb, "no redis-server or valkey-server in PATH")
	}
	return stack
}

func sharedStack(tb testing.TB) *devstack.Stack {
	tb.Helper()
	stack, err := shared.get()
	if err != nil {
		miss(tb, err.Error())
	}
	return stack
}

// miss skips the test, except in CI, where a skipped test would be a green lie.
func miss(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatalf("needs a Redis and a Postgres: %s", why)
	}
	tb.Skipf("needs a Redis and a Postgres: %s", why)
}
