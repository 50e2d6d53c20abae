package faults

import (
	"context"
	"flag"
	"io"
	"os"
	"testing"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/handler"
	"github.com/hookonce/hookonce/pkg/program"
	"github.com/hookonce/hookonce/pkg/queue"
)

// programVariable makes the test binary be one of the programs, so that the
// tests can kill and stop a process of its own.
const programVariable = "HOOKONCE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	queue.Quiet()
	name := os.Getenv(programVariable)
	if name == "" {
		flag.Parse()
		if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue { // rows mostly wait
			flag.Set("test.parallel", "6")
		}
		os.Exit(stacktest.Main(m))
	}
	go func() { // the pipe ends with the test, however that ends
		io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	switch name {
	case "ingest":
		program.Main(name, program.Ingest)
	case "worker":
		program.Main(name, func(ctx context.Context, o program.Options) error {
			o.Handlers = map[string]handler.Handler{"effect": &effects{os.Getenv("FAULT_SINK")}}
			return program.Worker(ctx, o)
		})
	case "migrate":
		program.Main(name, func(ctx context.Context, _ program.Options) error {
			_, err := migrations.Up(ctx, os.Getenv("DATABASE_URL"))
			return err
		})
	default:
		program.Main(name, func(ctx context.Context, o program.Options) error { return runNaive(ctx, name, o.Stderr) })
	}
}
