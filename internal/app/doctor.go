package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tandian/internal/config"
	"tandian/internal/doctor"
	"tandian/internal/kit/supervise"
	"tandian/web"
)

const (
	examineAtLeisure = 8 * time.Second // for the command
	examineAtStart   = 5 * time.Second
	askAgain         = time.Second     // while a store is waited for
	tellAgain        = 5 * time.Second // that it is
)

// Examine looks at everything the program would stand on with these settings, and changes nothing. faults is what is
// wrong with the settings themselves, or nil.
func Examine(ctx context.Context, cfg *config.Config, faults error) []doctor.Finding {
	needed, others := examinations(cfg, clock{now: time.Now, rand: rand.Reader})
	list := append([]doctor.Examination{doctor.Settings(cfg, faults)}, append(needed, others...)...)
	list = append(list, doctor.Port("addr", cfg.Addr), doctor.Port("admin-addr", cfg.AdminAddr), doctor.Web(web.Handler(cfg.WebDir)))
	return doctor.Examine(ctx, examineAtLeisure, list...)
}

// admit examines the stores that several instances share before they are opened. One that is wrong ends the start at
// once, one that doesn't answer yet is waited for, and what merely costs something is logged. A broker that doesn't
// answer keeps nobody from serving.
func admit(ctx context.Context, cfg *config.Config, c clock, log *slog.Logger) error {
	if !cfg.Production() {
		return nil // its only store opens in milliseconds, or tells why not
	}
	list, others := examinations(cfg, c)
	for _, e := range others {
		list = append(list, doctor.Optional(e))
	}
	list = append(list, doctor.Settings(cfg, nil))
	began := c.now()
	var told time.Time
	for {
		findings := doctor.Examine(ctx, examineAtStart, list...)
		wrong, missing := split(findings)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if wrong != nil {
			return errors.Join(wrong...)
		}
		if missing == nil {
			warn(log, findings)
			return nil
		}
		if c.now().Sub(began) >= cfg.StartTimeout {
			return fmt.Errorf("waited %s (--start-timeout): %w", cfg.StartTimeout, errors.Join(missing...))
		}
		if c.now().Sub(told) >= tellAgain {
			told = c.now()
			for _, m := range missing {
				log.Warn("waiting for a store", "atMost", cfg.StartTimeout.String(), "found", m.Error())
			}
		}
		supervise.Sleep(ctx, askAgain)
	}
}

// split sorts the failures into those that stay until somebody does something, and those that may pass.
func split(findings []doctor.Finding) (wrong, missing []error) {
	for _, f := range findings {
		switch {
		case f.Status != doctor.Failed:
		case f.Passing:
			missing = append(missing, errors.New(f.String()))
		default:
			wrong = append(wrong, errors.New(f.String()))
		}
	}
	return wrong, missing
}

func warn(log *slog.Logger, findings []doctor.Finding) {
	for _, f := range findings {
		if f.Status == doctor.Warning {
			log.Warn("start-up check", "check", f.Check, "found", f.Found, "remedy", f.Remedy)
		}
	}
}
