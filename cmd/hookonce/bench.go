package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/pkg/bench"
	"github.com/hookonce/hookonce/pkg/program"
)

func (c *console) benchCommand() *cobra.Command {
	o := bench.Options{Stdout: c.stdout, Stderr: c.stderr}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure ingest and worker beside what people would use instead",
		Long: "Measure ingest and worker, on a Redis and a Postgres of its own, beside a server that holds nothing and\n" +
			"beside naive designs. Nothing else should run on the machine meanwhile: it takes a quarter of an hour.\n\n" +
			"Scenarios:\n  " + strings.Join(bench.Names(), "\n  "),
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			o.Self = []string{self, "bench", "part"}
			return bench.Run(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.Only, "only", nil, "run only these scenarios")
	f.BoolVar(&o.Quick, "quick", false, "once and for a moment: shows that it works, and measures nothing")
	f.BoolVar(&o.Scale, "scale", false, "the cost of scale instead: a million queued, ten million rows; takes long")
	f.StringVar(&o.Out, "out", "", "write the report here, and bench.svg beside it")
	f.StringVar(&o.Profile, "profile", "", "write CPU profiles of what is measured to this folder")
	cmd.AddCommand(c.benchPartCommand())
	return cmd
}

// benchPartCommand is how bench starts what it measures.
func (c *console) benchPartCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "part NAME",
		Short:  "Be one of the programs that bench measures",
		Hidden: true,
		Args:   operands(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			end, err := bench.BePart(c.getenv)
			if err != nil {
				return err
			}
			defer end()
			return c.benchPart(cmd.Context(), args[0])
		},
	}
}

func (c *console) benchPart(ctx context.Context, name string) error {
	o := program.Options{Environ: c.environ, Stderr: c.stderr, Listening: func(public, _ net.Addr) { bench.Announce(c.stdout, public) }}
	if name == "ingest" || name == "worker" { // as their main does
		program.SpareCollections(c.environ)
	}
	switch name {
	case "ingest":
		return program.Ingest(ctx, o)
	case "worker":
		return program.Worker(ctx, o)
	case "sqlfloor":
		return bench.SQLFloor(ctx, c.getenv, func() { bench.Announce(c.stdout, nil) })
	}
	err := bench.Serve(ctx, name, c.getenv, func(a net.Addr) { bench.Announce(c.stdout, a) })
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
