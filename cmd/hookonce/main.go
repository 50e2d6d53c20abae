// Command hookonce is the tool for people: it runs everything on one machine,
// sends events, and shows what became of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/pkg/queue"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	queue.Quiet()
	if err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "hookonce:", err)
		status := 1
		if e, ok := errors.AsType[*exitError](err); ok {
			status = e.status
		}
		os.Exit(status)
	}
}

// run is the whole program. Tests call it too.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) error {
	root := &cobra.Command{
		Use:           "hookonce",
		Short:         "Receive webhooks, and make each event's effect happen exactly once",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c := &console{environ: environ, stdout: stdout, stderr: stderr}
	root.AddCommand(c.devCommand(), c.migrateCommand(), c.sendCommand(), c.eventsCommand(), c.deadCommand(), c.doctorCommand(), c.benchCommand(), c.verifyCommand(), healthcheckCommand())
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return root.ExecuteContext(ctx)
}

// A console is what the commands share: where they read and write.
type console struct {
	environ []string
	stdout  io.Writer
	stderr  io.Writer
	mu      sync.Mutex // deliveries in parallel print their answers
}

func (c *console) printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.stdout, format, args...)
}

// operands is for a command that wants n words behind its name: those of its
// usage line.
func operands(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("want %s", cmd.UseLine())
		}
		return nil
	}
}

// group is a command that only has others below it. One that it does not have
// is an error: cobra would print the help and exit 0.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}
