package main

import (
	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/migrations"
)

func (c *console) migrateCommand() *cobra.Command {
	return group("migrate", "Bring the database at DATABASE_URL up to this version",
		&cobra.Command{Use: "up", Short: "Apply what is missing", Args: cobra.NoArgs, RunE: c.migrateUp},
		&cobra.Command{Use: "status", Short: "List the migrations", Args: cobra.NoArgs, RunE: c.migrateStatus},
	)
}

func (c *console) migrateUp(cmd *cobra.Command, _ []string) error {
	url, err := c.setting("DATABASE_URL")
	if err != nil {
		return err
	}
	applied, err := migrations.Up(cmd.Context(), url)
	if err != nil {
		return err
	}
	for _, name := range applied {
		c.printf("applied %s\n", name)
	}
	if len(applied) == 0 {
		c.printf("nothing to do\n")
	}
	return nil
}

func (c *console) migrateStatus(cmd *cobra.Command, _ []string) error {
	url, err := c.setting("DATABASE_URL")
	if err != nil {
		return err
	}
	list, err := migrations.Status(cmd.Context(), url)
	if err != nil {
		return err
	}
	for _, m := range list {
		state := "pending"
		if m.Applied {
			state = "applied"
		}
		c.printf("%-8s %s\n", state, m.Name)
	}
	return nil
}
