package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	Orders  int64    `json:"orders"` // queued before the writer started
	Seconds float64  `json:"seconds"`
	RPS     *float64 `json:"rps"` // rows per second between the first and the last seen
}

// Drain fills the queue of a server whose writers are held (Options.Stock
// orders), starts them and measures how fast rows appear; then once more with a
// writer that takes one order at a time. It needs Options.Self and an embedded
// store. Errors are as those of Grab.
func Drain(ctx context.Context, o Options) (Report, error) {
	if o.URL != "" {
		return Report{}, errors.New("drain holds and releases the writers of its own server: use --self")
	}
	figures := &DrainFigures{}
	batched, verdict, err := drainOnce(ctx, o, &figures.Batched)
	defer batched.end()
	if err != nil {
		return Report{}, err
	}
	naive, second, err := drainOnce(ctx, o, &figures.Naive, "--writer-batch=1")
	defer naive.end()
	if err != nil {
		return Report{}, err
	}
	figures.Speedup = ratio(figures.Batched.RPS, figures.Naive.RPS)
	verdict.add(second)
	report := batched.newReport()
	report.Drain, report.Invariants = figures, &verdict
	return report, report.finish(batched)
}

// drainOnce fills and drains one queue. The run returned must be ended, also
// after an error.
func drainOnce(ctx context.Context, o Options, rate *DrainRate, flags ...string) (*run, Invariants, error) {
	r, err := begin(ctx, "drain", o, "--writers=0")
	if err != nil {
		return r, Invariants{}, err
	}
	if r.db == nil {
		return r, Invariants{}, errors.New("drain reads the server's own database: unset the addresses of other stores")
	}
	g := newGrab(r)
	if err := g.fill(ctx); err != nil {
		return r, Invariants{}, err
	}
	r.server.stop()
	if err := g.release(ctx, rate, flags); err != nil {
		return r, Invariants{}, err
	}
	facts, err := g.facts(ctx)
	if err != nil {
		return r, Invariants{}, err
	}
	r.stopMeter()
	r.server.stop() // it would take CPU time from the next
	return r, Judge(&g.history, facts), nil
}

// fill queues the orders.
func (g *grab) fill(ctx context.Context) (err error) {
	users := (g.opts.Stock + g.opts.Limit - 1) / g.opts.Limit
	if g.tokens, err = g.api.testUsers(ctx, users); err != nil {
		return err
	}
	begin := g.serverNow()
	if err := g.open(ctx, "bench drain", sale{stock: g.opts.Stock, limit: g.opts.Limit, begin: begin, end: begin.Add(4 * maxDuration)}); err != nil {
		return err
	}
	if err := g.awaitServerTime(ctx, begin.Add(50*time.Millisecond)); err != nil {
		return err
	}
	g.meter.enter("fill", users)
	load, cancel := context.WithTimeout(ctx, g.opts.Duration)
	defer cancel()
	g.clients.each(load, users, func(c *conn, i int) {
		g.meter.done.Add(1)
		g.visit(load, c, visit{user: i, tries: g.opts.Limit}, time.Time{})
	})
	if g.accepted.Load() == 0 {
		return errors.Join(errors.New("no order was accepted"), ctx.Err())
	}
	return ctx.Err()
}

// release starts the writers and watches the rows come.
func (g *grab) release(ctx context.Context, rate *DrainRate, flags []string) error {
	saleID := g.sales[mainSale].id
	rate.Orders = g.accepted.Load()
	g.meter.enter("drain", int(rate.Orders))
	already, err := g.db.written(ctx, saleID)
	if err != nil {
		return err
	}
	if already > 0 {
		return fmt.Errorf("%d orders were written though the writers are held", already)
	}
	watch, cancel := context.WithTimeout(ctx, g.opts.RestTimeout)
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- g.server.start(ctx, flags...) }()
	err = g.watchRows(watch, saleID, rate)
	if startErr := <-started; startErr != nil {
		return startErr
	}
	if err != nil {
		g.stalled = true // judged, not failed: the sale will not be at rest
	}
	return g.connect(ctx)
}

// watchRows measures from the first rows seen to the last.
func (g *grab) watchRows(ctx context.Context, saleID string, rate *DrainRate) error {
	var first int64
	var firstAt time.Time
	for {
		n, err := g.db.written(ctx, saleID)
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

func (f *DrainFigures) value(t Threshold) *float64 {
	switch t.Metric {
	case "written", "rps":
		return f.Batched.RPS
	case "ratio":
		return f.Speedup
	case "drain":
		ms := f.Batched.Seconds * 1000
		return &ms
	}
	return nil
}

func (f *DrainFigures) text(b *strings.Builder, say speech) {
	for _, d := range []struct {
		name string
		rate DrainRate
	}{{say("批量写", "batched"), f.Batched}, {say("逐单写", "one by one"), f.Naive}} {
		fmt.Fprintf(b, "  %s: %d %s, %.2f s, %s/s\n", d.name, d.rate.Orders, say("单", "orders"), d.rate.Seconds, figure(d.rate.RPS, 0))
	}
	fmt.Fprintf(b, "  %s %s\n", say("倍数", "ratio"), figure(f.Speedup, 1))
}
