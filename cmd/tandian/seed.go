package main

import (
	"context"
	"fmt"

	"tandian/internal/app"
	"tandian/internal/config"
)

type seedCommand struct{ settings }

// Run opens the application with demo data, which fills an empty database, and closes it again. It listens on free
// ports only, so that a server may run beside it.
func (c *seedCommand) Run(ctx context.Context, p *program) error {
	c.Config.Demo, c.Config.Addr, c.Config.AdminAddr, c.Config.ReadyFile = true, "127.0.0.1:0", "127.0.0.1:0", ""
	return withApp(ctx, p, &c.settings, func(a *app.App, cfg *config.Config) error {
		_, err := fmt.Fprintf(p.stdout, "the demo town is in %s; %d demo accounts\n", cfg.DataDir, len(a.Info().Accounts))
		return err
	})
}
