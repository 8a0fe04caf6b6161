package main

import (
	"context"
	"errors"
	"fmt"

	"tandian/internal/app"
	"tandian/internal/config"
)

type demoCommand struct{ settings }

func (c *demoCommand) Run(ctx context.Context, p *program) error {
	c.Config.Demo = true
	return serve(ctx, p, &c.settings, true)
}

type serveCommand struct{ settings }

func (c *serveCommand) Run(ctx context.Context, p *program) error {
	return serve(ctx, p, &c.settings, isTerminal(p.stdout))
}

// serve runs the application until ctx ends and it has drained.
func serve(ctx context.Context, p *program, s *settings, banner bool) error {
	return withApp(ctx, p, s, func(a *app.App, _ *config.Config) error {
		if banner {
			app.Banner(p.stdout, a.Info())
		}
		return a.Run(ctx)
	})
}

// withApp opens the application, hands it to use and closes it.
func withApp(ctx context.Context, p *program, s *settings, use func(*app.App, *config.Config) error) error {
	cfg, err := s.load(p)
	if err != nil {
		return err
	}
	a, err := app.New(ctx, cfg, logger(p.stderr, cfg))
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return errors.Join(use(a, cfg), a.Close())
}
