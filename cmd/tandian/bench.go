package main

import (
	"context"
	"errors"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"tandian/internal/bench"
	"tandian/internal/config"
)

type benchCommand struct {
	Grab    benchGrab    `cmd:"" help:"Sell a whole flash sale and check every promise."`
	Mixed   benchMixed   `cmd:"" help:"The same with four page reads before each attempt."`
	Read    benchRead    `cmd:"" help:"Read one hot shop."`
	Latency benchLatency `cmd:"" help:"Measure how long buyers wait at half of the highest rate, beside GET /time at the same rate."`
	Drain   benchDrain   `cmd:"" help:"Measure orders written per second from a full queue."`
	Start   benchStart   `cmd:"" help:"Measure how long the server takes to start and the memory it then holds."`
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

type benchLatency struct{ bench.Options }

func (c *benchLatency) Run(ctx context.Context, p *program) error {
	return p.bench(ctx, bench.SlowAnswers, c.Options)
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
	// A reader who has gone away ends the run like an interrupt, and with it the server that it has started.
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGPIPE)
	defer stop()
	o.Stdout, o.Stderr, o.Commit, o.Stores = p.stdout, p.stderr, commit(ctx), benchStores(p.lookupEnv)
	_, err := mode(ctx, o)
	var usage *bench.UsageError
	if errors.As(err, &usage) {
		return usageError{err}
	}
	return err
}

// benchStores are the stores that a server started by bench will find in its environment, and what scripts/services
// says about them.
func benchStores(lookupEnv func(string) (string, bool)) bench.Stores {
	env := func(key string) string { v, _ := lookupEnv(key); return v }
	s := bench.Stores{
		MySQLDSN: env(config.EnvName("mysql-dsn")), RedisAddr: env(config.EnvName("redis-addr")), RabbitMQURL: env(config.EnvName("rabbitmq-url")),
		Private: env("TANDIAN_SERVICES") != "",
	}
	for _, field := range strings.Split(env("TANDIAN_SERVICE_PIDS"), ",") {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			s.PIDs = append(s.PIDs, pid)
		}
	}
	return s
}
