package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// DrainFigures are the results of bench drain.
type DrainFigures struct {
	Batched DrainRate `json:"batched"` // the writer as it is
	Naive   DrainRate `json:"naive"`   // one order per transaction, one message in hand
	// Speedup is batched ÷ naive, nil when either could not be measured.
	Speedup *float64 `json:"ratio"`
}

// DrainRate is how fast a full queue became rows.
type DrainRate struct {
	Orders  int64    `json:"orders"` // that waited in the queue and were written
	Seconds float64  `json:"seconds"`
	RPS     *float64 `json:"rps"` // rows per second between the first and the last seen
}

// held are the flags of a server that accepts orders and writes none, and does not take their age for a loss.
var held = []string{"--writers=0", "--sweep-after=30m"}

// What is written one by one is bounded: the rate is known by then.
const (
	naiveOrders = 3000
	naiveTime   = 5 * time.Second
)

// Drain fills the queue of a server whose writers are held (Options.Stock orders), starts them and measures how fast
// rows appear; then once more with a consumer that takes one order at a time: embedded, a writer with a batch of one; in
// production mode the least that any consumer could do, see naive. It needs Options.Self. Errors are as those of Grab.
func Drain(ctx context.Context, o Options) (Report, error) {
	if o.URL != "" {
		return Report{}, &UsageError{errors.New("drain holds and releases the writers of its own server: use --self")}
	}
	return conduct(ctx, "drain", o, func(ctx context.Context, r *run) (Report, error) {
		g, f := newGrab(r), &DrainFigures{}
		if err := g.drain(ctx, r.opts.Stock, &f.Batched); err != nil {
			return Report{}, err
		}
		if err := g.drainNaively(ctx, min(r.opts.Stock, naiveOrders), &f.Naive); err != nil {
			return Report{}, err
		}
		f.Speedup = ratio(f.Batched.RPS, f.Naive.RPS)
		facts, err := g.facts(ctx)
		if err != nil {
			return Report{}, err
		}
		r.stopMeter()
		verdict := Judge(&g.history, facts)
		report := r.newReport()
		report.Drain, report.Invariants = f, &verdict
		return report, nil
	}, held...)
}

// restart ends the server and starts it anew with flags.
func (g *grab) restart(ctx context.Context, flags ...string) error {
	g.servers.stop()
	if err := g.servers.start(ctx, flags...); err != nil {
		return err
	}
	return g.connect(ctx, g.servers.addresses()...)
}

// drain queues n orders of a new sale while the writers are held, and measures a server with flags writing them.
func (g *grab) drain(ctx context.Context, n int, rate *DrainRate, flags ...string) error {
	if err := g.queueUp(ctx, n, rate); err != nil {
		return err
	}
	g.meter.enter("drain", int(rate.Orders))
	watch, cancel := context.WithTimeout(ctx, g.opts.RestTimeout)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- g.restart(ctx, flags...) }()         // rows come before the server says that it is ready
	g.stalled = g.watchRows(watch, len(g.sales)-1, rate) != nil // judged, not failed: the sale will not be at rest
	return <-started
}

// drainNaively is drain one order at a time, each in a message of its own.
func (g *grab) drainNaively(ctx context.Context, n int, rate *DrainRate) error {
	const alone = "--writer-batch=1"
	if err := g.restart(ctx, append(slices.Clone(held), alone)...); err != nil {
		return err
	}
	if g.stores == nil || g.opts.Broker == "stream" {
		return g.drain(ctx, n, rate, alone)
	}
	if err := g.queueUp(ctx, n, rate); err != nil {
		return err
	}
	g.meter.enter("drain", int(rate.Orders))
	if err := consumeNaively(ctx, g.opts.Stores.RabbitMQURL, g.stores.dsn, rate); err != nil {
		return err
	}
	// The gate has not heard of these rows; the sweeper of a server that writes will see to it.
	return g.restart(ctx, "--sweep-after=2s")
}

// queueUp fills the queue with the orders of a new sale and counts them.
func (g *grab) queueUp(ctx context.Context, n int, rate *DrainRate) error {
	if err := g.fill(ctx, n); err != nil {
		return err
	}
	sale := len(g.sales) - 1
	for _, op := range g.history.Ops {
		if op.Sale == sale && op.Outcome == Accepted {
			rate.Orders++
		}
	}
	already, err := g.rows(ctx, sale)
	switch {
	case err != nil:
		return err
	case already > 0:
		return fmt.Errorf("%d orders were written though the writers are held", already)
	case rate.Orders == 0:
		return errors.New("no order was accepted")
	}
	return nil
}

// fill makes users and a sale of n units and lets them buy it up.
func (g *grab) fill(ctx context.Context, n int) error {
	users := (n + g.opts.Limit - 1) / g.opts.Limit
	first := len(g.tokens)
	tokens, err := g.api.testUsers(ctx, users)
	if err != nil {
		return err
	}
	g.tokens = append(g.tokens, tokens...)
	if err := g.open(ctx, n, g.opts.Limit, 0, 4*maxDuration); err != nil {
		return err
	}
	sale := len(g.sales) - 1
	if err := g.awaitPhase(ctx, sale, "live"); err != nil {
		return err
	}
	g.meter.enter("fill", users)
	load, cancel := context.WithTimeout(ctx, g.opts.Duration)
	defer cancel()
	g.clients.each(load, users, func(c *conn, i int) {
		g.meter.done.Add(1)
		for key := range g.opts.Limit {
			g.attempt(ctx, c, Op{Sale: sale, User: first + i, Key: key}, time.Time{}, "")
		}
	})
	return ctx.Err()
}

// watchRows measures from the first rows seen to the last.
func (g *grab) watchRows(ctx context.Context, sale int, rate *DrainRate) error {
	var first int64
	var firstAt time.Time
	for {
		n, err := g.rows(ctx, sale)
		now := time.Now()
		switch {
		case err != nil: // busy, or ctx has ended
		case n > 0 && first == 0:
			first, firstAt = n, now
		case n > 0 && n >= rate.Orders:
			rate.Seconds = now.Sub(firstAt).Seconds()
			rate.RPS = quotient(float64(n-first), rate.Seconds)
			return nil
		}
		g.meter.done.Store(n)
		if err := sleep(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}
