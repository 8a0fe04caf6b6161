package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"tandian/internal/doctor"
)

type healthcheckCommand struct {
	settings
	Timeout time.Duration `default:"3s" help:"How long to wait for the answer."`
	JSON    bool          `name:"json" help:"Print JSON."`
}

// Run asks GET /readyz of the admin listener.
func (c *healthcheckCommand) Run(ctx context.Context, p *program) error {
	cfg, err := c.load(p)
	if err != nil {
		return err
	}
	url := "http://" + doctor.Reachable(cfg.AdminAddr) + "/readyz"
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("no answer: %w; is the server running with this --admin-addr?", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil {
		return fmt.Errorf("read %s: %w", url, err)
	}
	ready := res.StatusCode == http.StatusOK
	if c.JSON {
		err = printJSON(p.stdout, map[string]any{"ready": ready, "status": res.StatusCode, "url": url, "answer": string(body)})
	}
	switch {
	case err != nil:
		return err
	case !ready:
		return fmt.Errorf("not ready: %s answers %s: %s", url, res.Status, strings.Join(strings.Fields(string(body)), " "))
	case !c.JSON:
		_, err = fmt.Fprintln(p.stdout, "ready")
	}
	return err
}
