package main

import (
	"context"
	"errors"

	"tandian/internal/bench"
)

type benchCommand struct {
	Grab  benchGrab  `cmd:"" help:"Sell a whole flash sale and check every promise."`
	Mixed benchMixed `cmd:"" help:"The same with four page reads before each attempt."`
	Read  benchRead  `cmd:"" help:"Read one hot shop."`
	Drain benchDrain `cmd:"" help:"Measure orders written per second from a full queue."`
	Start benchStart `cmd:"" help:"Measure how long the server takes to start and the memory it then holds."`
}

type benchGrab struct{ bench.Options }

func (c *benchGrab) Run(ctx context.Context, p *program) error {
	return p.bench(ctx, bench.Grab, c.Options)
}

type benchMixed struct{ bench.Options }

func (c *benchMixed) Run(ctx context.Context, p *program) error {
	return p.bench(ctx, bench.Mixed, c.Options)
}

type benchRead struct{ bench.Options }

func (c *benchRead) Run(ctx context.Context, p *program) error {
	return p.bench(ctx, bench.Read, c.Options)
}

type benchDrain struct{ bench.Options }

func (c *benchDrain) Run(ctx context.Context, p *program) error {
	return p.bench(ctx, bench.Drain, c.Options)
}

type benchStart struct{ bench.Options }

func (c *benchStart) Run(ctx context.Context, p *program) error {
	return p.bench(ctx, bench.Start, c.Options)
}

// bench carries out a run, with options completed by what the command line can't carry.
func (p *program) bench(ctx context.Context, mode func(context.Context, bench.Options) (bench.Report, error), o bench.Options) error {
	o.Stdout, o.Stderr, o.Commit = p.stdout, p.stderr, buildInfo().Commit
	_, err := mode(ctx, o)
	var usage *bench.UsageError
	if errors.As(err, &usage) {
		return usageError{err}
	}
	return err
}
