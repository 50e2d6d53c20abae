package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/pkg/doctor"
	"github.com/hookonce/hookonce/pkg/program"
)

func (c *console) doctorCommand() *cobra.Command {
	out := output("table")
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check Redis and Postgres, and say what to do; exit 1 if something is wrong",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.doctor(cmd.Context(), out) },
	}
	cmd.Flags().VarP(&out, "output", "o", "how to print")
	return cmd
}

func (c *console) doctor(ctx context.Context, out output) error {
	set := map[string]string{}
	for _, name := range []string{"REDIS_URL", "DATABASE_URL"} {
		url, err := c.setting(name)
		if err != nil {
			return err
		}
		set[name] = url
	}
	if c.getenv("DATABASE_URL") == "" { // it is hookonce dev that is examined
		if file, err := c.setting("HOOKONCE_CONFIG"); err == nil {
			set["HOOKONCE_CONFIG"] = file
		}
	}
	found, err := program.Doctor(ctx, with(c.environ, set))
	if err != nil {
		return err
	}
	if out == "json" {
		err = c.printJSON(found)
	} else {
		c.printFindings(found)
	}
	wrong := 0
	for _, f := range found {
		if f.Level == doctor.Error {
			wrong++
		}
	}
	if wrong > 0 && err == nil {
		return fmt.Errorf("doctor: errors found: %d", wrong)
	}
	return err
}

func (c *console) printFindings(found []doctor.Finding) {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LEVEL\tSUBJECT\tFINDING")
	for _, f := range found {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Level, f.Subject, f.Text)
		if f.Fix != "" {
			fmt.Fprintf(w, "\t\t→ %s\n", f.Fix)
		}
	}
	w.Flush()
}
