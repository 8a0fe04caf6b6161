package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

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

// heapGrowth lets the heap grow to four times what lives in it before it is collected: a server that answers from a
// few megabytes would otherwise collect many times a second in a sale. GOGC in the environment wins.
const heapGrowth = 300

// serve runs the application until ctx ends and it has drained.
func serve(ctx context.Context, p *program, s *settings, banner bool) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
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
