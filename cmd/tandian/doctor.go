package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tandian/internal/app"
	"tandian/internal/doctor"
)

type doctorCommand struct {
	settings
	JSON bool `name:"json" help:"Print JSON."`
}

// illError says that checks failed: exit code 3.
type illError struct{ failed, of int }

func (e illError) Error() string { return fmt.Sprintf("%d of %d checks failed", e.failed, e.of) }

// Run goes on with settings that Validate would refuse: what can be looked at is looked at.
func (c *doctorCommand) Run(ctx context.Context, p *program) error {
	findings := app.Examine(ctx, &c.Config, errors.Join(p.sources.Err(), c.Config.Validate()))
	if err := ctx.Err(); err != nil {
		return err
	}
	var err error
	if c.JSON {
		err = printJSON(p.stdout, findings)
	} else {
		err = printFindings(p.stdout, findings)
	}
	if err != nil {
		return err
	}
	ill := illError{of: len(findings)}
	for _, f := range findings {
		if f.Status == doctor.Failed {
			ill.failed++
		}
	}
	if ill.failed > 0 {
		return ill
	}
	return nil
}

// printFindings writes a line each: verdict, check, what was found, and what to do.
func printFindings(w io.Writer, findings []doctor.Finding) error {
	widest := 0
	for _, f := range findings {
		widest = max(widest, len(f.Check))
	}
	for _, f := range findings {
		line := fmt.Sprintf("%-7s  %-*s  %s", f.Status, widest, f.Check, f.Found)
		if f.Remedy != "" {
			line += "  → " + f.Remedy
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
