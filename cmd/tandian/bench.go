package main

import (
	"context"

	"tandian/internal/bench"
)

type benchCommand struct {
	Grab  benchGrab  `cmd:"" help:"Sell a whole flash sale and check every promise."`
	Mixed benchMixed `cmd:"" help:"The same with four page reads before each attempt."`
	Read  benchRead  `cmd:"" help:"Read one hot shop."`
	Drain benchDrain `cmd:"" help:"Measure orders written per second from a full queue."`
}

type benchGrab struct{ bench.Options }

func (c *benchGrab) Run(ctx context.Context, p *program) error {
	_, err := bench.Grab(ctx, p.bench(c.Options))
	return err
}

type benchMixed struct{ bench.Options }

func (c *benchMixed) Run(ctx context.Context, p *program) error {
	_, err := bench.Mixed(ctx, p.bench(c.Options))
	return err
}

type benchRead struct{ bench.Options }

func (c *benchRead) Run(ctx context.Context, p *program) error {
	_, err := bench.Read(ctx, p.bench(c.Options))
	return err
}

type benchDrain struct{ bench.Options }

func (c *benchDrain) Run(ctx context.Context, p *program) error {
	_, err := bench.Drain(ctx, p.bench(c.Options))
	return err
}

// bench completes the options with what the command line can't carry.
func (p *program) bench(o bench.Options) bench.Options {
	o.Stdout, o.Stderr, o.Commit = p.stdout, p.stderr, buildInfo().Commit
	return o
}
