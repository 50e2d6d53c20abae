package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func (c *console) deadCommand() *cobra.Command {
	return group("dead", "Show dead events, and let them run again", c.deadListCommand(), c.deadReplayCommand())
}

// deadFlags are the flags that choose dead events.
func deadFlags(cmd *cobra.Command, f *webhook.DeadFilter, since, until *string) {
	cmd.Flags().StringVar(&f.Source, "source", "", "only of this source")
	cmd.Flags().StringVar(&f.Type, "type", "", "only of this type")
	cmd.Flags().StringVar(&f.Cause, "cause", "", "only with this cause, as dead list shows it")
	cmd.Flags().StringVar(since, "since", "", "only those that died at this time or later: RFC 3339, or a duration before now such as 2h")
	cmd.Flags().StringVar(until, "until", "", "only those that died before this time")
}

// at reads a moment: a time, or a duration before now.
func at(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, fmt.Errorf("%q is neither a time like 2026-01-31T12:00:00Z nor a duration like 2h", s)
	}
	return t, nil
}

// between sets the times of f.
func between(f *webhook.DeadFilter, since, until string) error {
	now := time.Now()
	var errs [2]error
	f.Since, errs[0] = at(since, now)
	f.Until, errs[1] = at(until, now)
	return errors.Join(errs[:]...)
}

func (c *console) deadListCommand() *cobra.Command {
	var f webhook.DeadFilter
	var since, until string
	out := output("table")
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List dead events by their cause",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := between(&f, since, until); err != nil {
				return err
			}
			return c.listDead(cmd.Context(), f, out)
		},
	}
	deadFlags(cmd, &f, &since, &until)
	cmd.Flags().VarP(&out, "output", "o", "how to print")
	return cmd
}

func (c *console) listDead(ctx context.Context, f webhook.DeadFilter, out output) error {
	store, err := c.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	groups, err := store.DeadGroups(ctx, f)
	if err != nil {
		return err
	}
	if out == "json" {
		if groups == nil {
			groups = []webhook.DeadGroup{}
		}
		return c.printJSON(groups)
	}
	if len(groups) == 0 {
		fmt.Fprintln(c.stderr, "no dead events")
		return nil
	}
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "CAUSE\tSOURCE\tKIND\tEVENTS\tFIRST\tLAST\tEXAMPLE\tERROR")
	for _, g := range groups {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", g.Cause, g.Source, g.Kind, g.Events,
			g.First.UTC().Format(time.DateTime), g.Last.UTC().Format(time.DateTime), g.Example, line(g.Error))
	}
	w.Flush()
	return nil
}

// A replay is what hookonce dead replay is asked for.
type replay struct {
	filter webhook.DeadFilter
	reason string
	dryRun bool
	limit  int
	rate   int
}

func (c *console) deadReplayCommand() *cobra.Command {
	var r replay
	var since, until string
	cmd := &cobra.Command{
		Use:   "replay [SOURCE EVENT_ID]",
		Short: "Let dead events run again, with their full budget of retries",
		Long: "Let dead events run again, with their full budget of retries: one by its id, or all that the flags choose.\n" +
			"The reason is kept in the table audit_log.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return errors.New("give SOURCE and EVENT_ID, or neither")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				r.filter.Source, r.filter.ID = args[0], args[1]
			}
			if err := between(&r.filter, since, until); err != nil {
				return err
			}
			return c.replayDead(cmd.Context(), r)
		},
	}
	deadFlags(cmd, &r.filter, &since, &until)
	cmd.Flags().StringVar(&r.reason, "reason", "", "why; kept in audit_log")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only say how many there are")
	cmd.Flags().IntVar(&r.limit, "limit", 0, "at most so many, the oldest first (default: all)")
	cmd.Flags().IntVar(&r.rate, "rate", 100, "so many a second")
	return cmd
}

func (c *console) replayDead(ctx context.Context, r replay) error {
	switch {
	case r.filter == (webhook.DeadFilter{}) && r.limit == 0 && !r.dryRun:
		return errors.New("this would replay all dead events: choose some by id, --source, --type, --cause, --since or --until, or say --limit")
	case r.reason == "" && !r.dryRun:
		return errors.New("--reason must say why: it is kept in audit_log")
	case r.rate < 1 || r.limit < 0:
		return errors.New("--rate and --limit must be positive")
	}
	store, err := c.openStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	groups, err := store.DeadGroups(ctx, r.filter)
	if err != nil {
		return err
	}
	n := 0
	var last time.Time
	for _, g := range groups {
		n += g.Events
		if g.Last.After(last) {
			last = g.Last
		}
	}
	// Those that die again meanwhile come first, and would take the place of others.
	r.filter.Until = last.Add(time.Microsecond)
	if r.limit > 0 {
		n = min(n, r.limit)
	}
	if n == 0 && r.filter.ID != "" {
		return fmt.Errorf("no dead event %s of source %s", r.filter.ID, r.filter.Source)
	}
	if r.dryRun {
		c.printf("%d events would run again\n", n)
		return nil
	}
	done, err := c.replayAll(ctx, store, r, n)
	c.printf("%d events run again\n", done)
	return err
}

// replayAll replays n events, a second's worth at a time.
func (c *console) replayAll(ctx context.Context, store *postgres.Store, r replay, n int) (done int, err error) {
	url, err := c.setting("REDIS_URL")
	if err != nil {
		return 0, err
	}
	rdb, err := queue.Dial(url, queue.Profile{Read: 3 * time.Second, Pool: 2})
	if err != nil {
		return 0, err
	}
	defer rdb.Close()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for done < n {
		events, err := store.Replay(ctx, r.filter, min(r.rate, n-done), actor(), r.reason)
		if err != nil || len(events) == 0 { // none: somebody else was faster
			return done, err
		}
		done += len(events)
		if _, err := queue.NewClient(rdb, nil).Send(ctx, events); err != nil {
			fmt.Fprintln(c.stderr, "a worker will send for them within 30 s:", err)
		}
		if done == n {
			break
		}
		select {
		case <-ctx.Done():
			return done, ctx.Err()
		case <-tick.C:
		}
	}
	return done, nil
}

// actor is who replays, for the audit log.
func actor() string {
	u, err := user.Current()
	if err != nil {
		return "unknown"
	}
	return u.Username
}
