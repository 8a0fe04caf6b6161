package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"text/tabwriter"

	"golang.org/x/term"

	"tandian/internal/config"
)

// settings is embedded by every command that opens the product.
type settings struct {
	// Named, so that Config.Validate isn't promoted: kong would call it while it parses, before the faults of
	// environment and file are known.
	Config config.Config `embed:""`
}

// load returns the configuration, or every fault of all its sources at once.
func (s *settings) load(p *program) (*config.Config, error) {
	if err := errors.Join(p.sources.Err(), s.Config.Validate()); err != nil {
		return nil, usageError{err}
	}
	return &s.Config, nil
}

// logger writes to stderr, so that stdout stays clean for what a command prints.
func logger(w io.Writer, c *config.Config) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.LogLevel)) // Validate has seen it
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" || c.LogFormat == "auto" && !isTerminal(w) {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

type configCommand struct {
	Show     configShow     `cmd:"" help:"Print every setting and where it comes from."`
	Validate configValidate `cmd:"" help:"Check the settings; exit code 2 if something is wrong."`
	Init     configInit     `cmd:"" help:"Write a file with every setting at its default."`
}

type configShow struct {
	settings
	JSON bool `name:"json" help:"Print JSON."`
}

// Run prints even what Validate would refuse: whoever asks may be looking for the mistake.
func (c *configShow) Run(p *program) error {
	list := c.Config.Settings(p.sources.Origin)
	if c.JSON {
		if err := printJSON(p.stdout, list); err != nil {
			return err
		}
	} else {
		t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "SETTING\tVALUE\tFROM")
		for _, s := range list {
			fmt.Fprintf(t, "%s\t%s\t%s\n", s.Key, s.Value, s.Origin)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err := c.load(p)
	return err
}

type configValidate struct {
	settings
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *configValidate) Run(p *program) error {
	if _, err := c.load(p); err != nil {
		return err
	}
	if c.JSON {
		return printJSON(p.stdout, map[string]bool{"valid": true})
	}
	_, err := fmt.Fprintln(p.stdout, "settings are valid")
	return err
}

type configInit struct {
	Out string `placeholder:"FILE" help:"Write to this file, which must not exist yet, instead of to the terminal."`
}

func (c *configInit) Run(p *program) error {
	if c.Out == "" {
		_, err := io.WriteString(p.stdout, config.Template())
		return err
	}
	f, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists already; name another file or take it away first", c.Out)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, config.Template())
	return errors.Join(err, f.Close())
}
