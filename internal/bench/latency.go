package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// LatencyFigures are the results of bench latency.
type LatencyFigures struct {
	MaxRPS    *float64    `json:"maxRps"` // orders accepted and written per second by the fastest slice of the closed loop
	OpenRate  float64     `json:"openRate"`
	OpenRound             // all rounds together
	Rounds    []OpenRound `json:"rounds"`
	P99Ratio  *float64    `json:"p99RatioToTime"`
	Tally     Tally       `json:"attempts"` // of both loops
}

// OpenRound is how long buyers who were accepted waited, and those who asked for the time at the same rate, both from
// when their request was due.
type OpenRound struct {
	Grab OpenLoop `json:"grab"`
	Time OpenLoop `json:"time"`
}

// OpenLoop is what requests at a given rate waited.
type OpenLoop struct {
	Latency
	Answered int64 `json:"answered"` // as they should be
	Failed   int64 `json:"failed"`
}

const (
	openSlice     = 2 * time.Second
	maxOpenRounds = 5
)

// SlowAnswers finds the highest rate at which orders are accepted and written, and then lets as many buyers come as is
// half of it, evenly and whatever the answers take (an open loop), in slices that alternate with as many requests of
// GET /time. Options.Users buy in the closed loop, those of the open loop come on top. The sale is judged like that of
// Grab, and so are errors.
func SlowAnswers(ctx context.Context, o Options) (Report, error) {
	if o.Rate != 0 || o.Limit > 1 {
		return Report{}, &UsageError{errors.New("latency finds its rate itself and sells one unit to each user: leave --rate and --limit out")}
	}
	return conduct(ctx, "latency", o, func(ctx context.Context, r *run) (Report, error) {
		g, f := newGrab(r), &LatencyFigures{}
		load, cancel := context.WithTimeout(ctx, r.opts.Duration)
		defer cancel()
		if err := g.findRate(ctx, load, f); err != nil {
			return Report{}, err
		}
		if err := g.openLoop(ctx, load, f); err != nil {
			return Report{}, err
		}
		facts, err := g.facts(ctx)
		if err != nil {
			return Report{}, err
		}
		r.stopMeter()
		verdict := Judge(&g.history, facts)
		report := r.newReport()
		report.LatencyMs, report.Rate = f.Grab.Latency, f.OpenRate
		report.Latency, report.Invariants = f, &verdict
		return report, nil
	})
}

// findRate sells as fast as the connections go, in slices as of Grab.
func (g *grab) findRate(ctx, load context.Context, f *LatencyFigures) error {
	if err := g.open(ctx, maxUsers, 1, 0, 4*maxDuration); err != nil {
		return err
	}
	if err := g.awaitPhase(ctx, mainSale, "live"); err != nil {
		return err
	}
	visits, err := g.newBuyers(ctx, g.opts.Users)
	if err != nil {
		return err
	}
	for _, p := range cut(visits, maxUsers, 1) {
		s := g.slice(ctx, load, p, 0)
		f.Tally = f.Tally.plus(s.Tally)
		if rps := quotient(float64(s.Accepted), s.written.Seconds()); rps != nil && (f.MaxRPS == nil || *rps > *f.MaxRPS) {
			f.MaxRPS = rps
		}
	}
	if f.MaxRPS == nil {
		return errors.Join(ctx.Err(), errors.New("no order was accepted and written"))
	}
	f.OpenRate = *f.MaxRPS / 2
	return nil
}

// newBuyers makes users, each of whom comes once.
func (g *grab) newBuyers(ctx context.Context, n int) ([]visit, error) {
	g.meter.enter("users", 0)
	tokens, err := g.api.testUsers(ctx, n)
	visits := make([]visit, n)
	for i := range visits {
		visits[i] = visit{user: len(g.tokens) + i, tries: 1, tick: i}
	}
	g.tokens = append(g.tokens, tokens...)
	return visits, err
}

// openLoop alternates slices of GET /time and of buyers until load ends, but for maxOpenRounds at most.
func (g *grab) openLoop(ctx, load context.Context, f *LatencyFigures) error {
	var grabs, times histogram
	size := int(f.OpenRate * openSlice.Seconds())
	for len(f.Rounds) == 0 || len(f.Rounds) < maxOpenRounds && load.Err() == nil {
		visits, err := g.newBuyers(ctx, size)
		if err != nil {
			return err
		}
		var round OpenRound
		round.Time = g.openTimes(ctx, f.OpenRate, size, &times)
		s := g.slice(ctx, ctx, part{visits, true}, f.OpenRate)
		f.Tally = f.Tally.plus(s.Tally)
		round.Grab = g.accepted(s, &grabs)
		f.Rounds = append(f.Rounds, round)
		f.Time, f.Grab = openLoop(&times, f.Time.Failed+round.Time.Failed), openLoop(&grabs, f.Grab.Failed+round.Grab.Failed)
	}
	f.P99Ratio = quotient(f.Grab.P99, f.Time.P99)
	return ctx.Err()
}

// openTimes asks for the time n times at a rate.
func (g *grab) openTimes(ctx context.Context, rate float64, n int, all *histogram) OpenLoop {
	g.meter.enter("GET /api/v1/time", n)
	var own histogram
	var failed atomic.Int64
	g.clients.pace(ctx, n, evenly(rate), func(c *conn, _ int, due time.Time) {
		g.meter.done.Add(1)
		if !g.askTime(c) {
			failed.Add(1)
			return
		}
		waited := time.Since(due)
		own.record(waited)
		all.record(waited)
	})
	return openLoop(&own, failed.Load())
}

// accepted is how long the accepted buyers of a slice waited.
func (g *grab) accepted(s grabSlice, all *histogram) OpenLoop {
	var own histogram
	for _, op := range g.history.Ops[s.ops.from:s.ops.to] {
		if op.Outcome == Accepted {
			own.record(op.Waited)
			all.record(op.Waited)
		}
	}
	return openLoop(&own, int64(s.Attempted-s.Accepted))
}

func openLoop(h *histogram, failed int64) OpenLoop {
	d := h.snapshot()
	return OpenLoop{d.latency(), d.total, failed}
}
