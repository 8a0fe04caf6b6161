package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"tandian/internal/app"
)

type migrateCommand struct {
	Up     migrateUp     `cmd:"" help:"Run what is missing. A server does so by itself when it starts."`
	Down   migrateDown   `cmd:"" help:"Take the newest migration back, with the data in its tables."`
	Status migrateStatus `cmd:"" help:"List the migrations."`
}

type migrateUp struct{ settings }

func (c *migrateUp) Run(ctx context.Context, p *program) error {
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	ran, err := app.MigrateUp(ctx, cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "%d migrations run\n", ran)
	return err
}

type migrateDown struct {
	settings
	Yes bool `help:"Do it; without this nothing happens."`
}

func (c *migrateDown) Run(ctx context.Context, p *program) error {
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	if !c.Yes {
		return usageError{errors.New("taking a migration back drops its tables with all their rows; add --yes if that is meant")}
	}
	left, err := app.MigrateDown(ctx, cfg)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.stdout, "now at version %d\n", left)
	return err
}

type migrateStatus struct {
	settings
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *migrateStatus) Run(ctx context.Context, p *program) error {
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	list, err := app.MigrationStatus(ctx, cfg)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p.stdout, list)
	}
	t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "VERSION\tNAME\tAPPLIED")
	for _, m := range list {
		fmt.Fprintf(t, "%d\t%s\t%t\n", m.Version, m.Name, m.Applied)
	}
	return t.Flush()
}
