package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/term"

	"tandian/internal/app"
	"tandian/internal/config"
)

type adminCommand struct {
	Create adminCreate `cmd:"" help:"Make an account with a role, or give an existing one the role and a new password."`
}

type adminCreate struct {
	settings
	Phone string `required:"" placeholder:"PHONE" help:"Mainland mobile number to sign in with."`
	Role  string `default:"operator" enum:"operator,readonly,merchant,clerk" help:"operator, readonly, merchant or clerk."`
	Shop  string `placeholder:"ID" help:"The shop that a clerk redeems for. Run it again for each further shop."`
	Ask   bool   `help:"Ask for the password instead of drawing one."`
}

// Run prints a password that was drawn once, and keeps it nowhere.
func (c *adminCreate) Run(ctx context.Context, p *program) error {
	shopID, err := c.shop()
	if err != nil {
		return err
	}
	password, err := c.password(p)
	if err != nil {
		return err
	}
	c.Config.Addr, c.Config.AdminAddr, c.Config.ReadyFile = "127.0.0.1:0", "127.0.0.1:0", "" // nobody is served
	return withApp(ctx, p, &c.settings, func(a *app.App, _ *config.Config) error {
		if err := a.EnsureUser(ctx, c.Phone, c.Role, password.Reveal(), shopID); err != nil {
			return err
		}
		if c.Ask {
			_, err = fmt.Fprintf(p.stdout, "%s is %s now\n", c.Phone, c.Role)
		} else {
			_, err = fmt.Fprintf(p.stdout, "%s is %s now; password, shown only here: %s\n", c.Phone, c.Role, password.Reveal())
		}
		return err
	})
}

// clerk is the role that works for a shop.
const clerk = "clerk"

// shop is the shop that is named, 0 = none. A clerk without one could redeem nothing.
func (c *adminCreate) shop() (int64, error) {
	switch {
	case c.Role == clerk && c.Shop == "":
		return 0, usageError{errors.New("a clerk redeems for a shop; name it with --shop")}
	case c.Role != clerk && c.Shop != "":
		return 0, usageError{errors.New("--shop is for --role clerk")}
	case c.Shop == "":
		return 0, nil
	}
	shopID, err := strconv.ParseInt(c.Shop, 10, 64)
	if err != nil || shopID < 1 {
		return 0, usageError{fmt.Errorf("--shop %s: not the id of a shop; want a number such as 12", c.Shop)}
	}
	return shopID, nil
}

func (c *adminCreate) password(p *program) (config.Secret, error) {
	if !c.Ask {
		return config.Secret(rand.Text()), nil
	}
	if !isTerminal(os.Stdin) {
		return "", usageError{fmt.Errorf("--ask needs a terminal; without it a password is drawn and printed")}
	}
	fmt.Fprint(p.stderr, "Password: ")
	typed, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(p.stderr)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return config.Secret(typed), nil
}
