package doctor

import (
	"context"
	"strings"

	"tandian/internal/config"
)

// Settings examines the configuration itself. faults is what its sources and Validate have found, or nil.
func Settings(cfg *config.Config, faults error) Examination {
	return func(_ context.Context, r *Report) {
		if faults != nil {
			for line := range strings.Lines(faults.Error()) { // each names the setting and says what would be right
				r.fail("settings", strings.TrimSuffix(line, "\n"), "")
			}
			return
		}
		mode := "embedded"
		if cfg.Production() {
			mode = "production"
		}
		r.ok("settings", "valid, %s mode", mode)
		if cfg.Production() {
			r.exposed(cfg)
		}
	}
}

// fewest different characters make a secret look drawn rather than typed.
const fewest = 8

// exposed looks for what is fine on a desk and not where strangers come.
func (r *Report) exposed(cfg *config.Config) {
	secret := cfg.MessageSecret.Reveal()
	different := map[rune]bool{}
	for _, c := range secret {
		different[c] = true
	}
	if len(different) < fewest {
		r.warn("message secret", "easy to guess: whoever does can forge orders in the queue", "openssl rand -hex 16 makes a better one; set it on all instances")
	} else {
		r.ok("message secret", "%d characters", len(secret))
	}
	if cfg.Demo {
		r.warn("demo data", "the demo accounts have a well-known password, the operator's too", "leave --demo out, and ban the accounts if they are there already")
	}
	if cfg.AllowTestUsers {
		r.warn("test users", "anybody can make signed-in users", "leave --allow-test-users out")
	}
}
