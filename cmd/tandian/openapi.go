package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"tandian/internal/app"
	"tandian/internal/config"
)

type openAPICommand struct {
	Out string `placeholder:"FILE" help:"Write to this file instead of to the terminal."`
}

// Run builds the application on an empty folder of its own: the document depends on the code alone.
func (c *openAPICommand) Run(ctx context.Context, p *program) (err error) {
	dir, err := os.MkdirTemp("", "tandian-openapi-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := config.Default()
	cfg.DataDir, cfg.Addr, cfg.AdminAddr = dir, "127.0.0.1:0", "127.0.0.1:0"
	a, err := app.New(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	doc, err := a.OpenAPI()
	if err = errors.Join(err, a.Close()); err != nil {
		return err
	}
	if c.Out == "" {
		_, err = p.stdout.Write(doc)
		return err
	}
	return os.WriteFile(c.Out, doc, 0o644)
}
