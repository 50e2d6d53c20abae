package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func (c *console) eventsCommand() *cobra.Command {
	return group("events", "Show what became of events", c.eventsListCommand(), c.eventsShowCommand())
}

// An output is how a command prints: json or table.
type output string

func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "json|table" }
func (o *output) Set(s string) error {
	if s != "json" && s != "table" {
		return errors.New("must be json or table")
	}
	*o = output(s)
	return nil
}

// A status is one that a row can have.
type status webhook.Status

func (s *status) String() string { return string(*s) }
func (s *status) Type() string   { return "status" }
func (s *status) Set(text string) error {
	switch webhook.Status(text) {
	case "", webhook.Received, webhook.Processing, webhook.Completed, webhook.Failed, webhook.Dead:
		*s = status(text)
		return nil
	case webhook.Queued:
		return errors.New("what only the queue holds is not listed: use events show, or the dashboard")
	}
	return errors.New("must be received, processing, completed, failed or dead")
}

func (c *console) eventsListCommand() *cobra.Command {
	var f webhook.Filter
	var since time.Duration
	out := output("table")
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List events, newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if since < 0 {
				return errors.New("--since must be positive")
			}
			if since > 0 {
				f.Since = time.Now().Add(-since)
			}
			return c.listEvents(cmd.Context(), f, out)
		},
	}
	cmd.Flags().StringVar(&f.Source, "source", "", "only of this source")
	cmd.Flags().Var((*status)(&f.Status), "status", "only with this status: received, processing, completed, failed or dead")
	cmd.Flags().StringVar(&f.Type, "type", "", "only of this type")
	cmd.Flags().DurationVar(&since, "since", 0, "only those received within this time, e.g. 1h")
	cmd.Flags().IntVar(&f.Limit, "limit", 50, "at most so many")
	cmd.Flags().VarP(&out, "output", "o", "how to print")
	return cmd
}

func (c *console) listEvents(ctx context.Context, f webhook.Filter, out output) error {
	if f.Limit < 1 {
		return errors.New("--limit must be positive")
	}
	store, err := c.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	list, err := store.Records(ctx, f)
	if err != nil {
		return err
	}
	if out == "json" {
		if list == nil {
			list = []webhook.Record{}
		}
		return c.printJSON(list)
	}
	if len(list) == 0 {
		fmt.Fprintln(c.stderr, "none in Postgres; for what only the queue holds see events show, or the dashboard")
		return nil
	}
	c.printTable(list)
	return nil
}

func (c *console) eventsShowCommand() *cobra.Command {
	out := output("table")
	cmd := &cobra.Command{
		Use:   "show SOURCE EVENT_ID",
		Short: "Show one event, from Postgres or from the queue",
		Args:  operands(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.showEvent(cmd.Context(), args[0], args[1], out)
		},
	}
	cmd.Flags().VarP(&out, "output", "o", "how to print")
	return cmd
}

func (c *console) showEvent(ctx context.Context, source, id string, out output) error {
	r, err := c.findEvent(ctx, source, id)
	if errors.Is(err, webhook.ErrNotFound) {
		return fmt.Errorf("no event %s of source %s, in Postgres or in the queue", id, source)
	}
	if err != nil {
		return err
	}
	if out == "json" {
		return c.printJSON(r)
	}
	c.printRecord(r)
	return nil
}

// findEvent asks Postgres, which has the last word, and then the queue.
func (c *console) findEvent(ctx context.Context, source, id string) (webhook.Record, error) {
	store, err := c.openStore(ctx)
	if err != nil {
		return webhook.Record{}, err
	}
	defer store.Close()
	r, err := store.Record(ctx, source, id)
	if !errors.Is(err, webhook.ErrNotFound) {
		return r, err
	}
	url, err := c.setting("REDIS_URL")
	if err != nil {
		return r, err
	}
	rdb, err := queue.Dial(url, queue.Profile{Read: 3 * time.Second, Pool: 2})
	if err != nil {
		return r, err
	}
	defer rdb.Close()
	return queue.Look(ctx, rdb, source, id)
}

func (c *console) openStore(ctx context.Context) (*postgres.Store, error) {
	url, err := c.setting("DATABASE_URL")
	if err != nil {
		return nil, err
	}
	return postgres.Open(ctx, url, 2)
}

func (c *console) printJSON(v any) error {
	enc := json.NewEncoder(c.stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (c *console) printTable(list []webhook.Record) {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SOURCE\tEVENT ID\tTYPE\tSTATUS\tATTEMPT\tRECEIVED\tLAST ERROR")
	for _, r := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", r.Source, r.EventID, r.EventType, r.Status, r.Attempt,
			r.ReceivedAt.UTC().Format(time.DateTime), line(r.LastError))
	}
	w.Flush()
}

// line makes an error text fit a table.
func line(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if runes := []rune(s); len(runes) > 80 {
		return string(runes[:79]) + "…"
	}
	return s
}

func (c *console) printRecord(r webhook.Record) {
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	row := func(name string, value any) { fmt.Fprintf(w, "%s\t%v\n", name, value) }
	row("source", r.Source)
	row("event id", r.EventID)
	row("type", r.EventType)
	row("status", r.Status)
	row("attempt", r.Attempt)
	row("received", r.ReceivedAt.UTC().Format(time.RFC3339Nano))
	moment := func(name string, t *time.Time) {
		if t != nil {
			row(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	moment("completed", r.CompletedAt)
	moment("lease until", r.LeaseUntil)
	moment("next attempt", r.NextAttemptAt)
	row("payload", fmt.Sprintf("%d bytes, sha256 %s", len(r.Payload), r.PayloadSHA256))
	if r.LastError != "" {
		row("last error", fmt.Sprintf("%s: %s", r.ErrorKind, line(r.LastError)))
	}
	for _, a := range r.Attempts {
		row(fmt.Sprintf("attempt %d", a.Attempt), fmt.Sprintf("%s  %s: %s", a.EndedAt.UTC().Format(time.DateTime), a.Kind, line(a.Error)))
	}
	for _, sum := range r.Conflicts {
		row("other body", "sha256 "+sum)
	}
	w.Flush()
}
