package bench

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	mainSale  = 0 // index of the sale under load
	probeSale = 1 // index of the small sale that tests begin, end and conflicts

	maxAsk       = 14 // times one attempt is asked while the answer is unknown; about 15 s
	lookupEvery  = 4  // every so many unruly visitors look their order up at once
	readsPerGrab = 4  // of bench mixed: 80 % reads
)

// grab is a run that sells.
type grab struct {
	*run
	history History
	sales   []saleView // by index
	paths   []string   // of the sales' orders, by index
	peaks   []int64    // most live orders seen, by sale; written between slices only
	missed  []string   // ids not found at once; guarded by missedMu
	planted map[string]bool
	reads   int // page reads before each attempt

	missedMu sync.Mutex
	served   atomic.Int64 // visits begun
	killAt   []int64      // values of served at which the server is killed

	times   work        // all slices of GET /time
	slices  []grabSlice // of the main sale
	stalled bool        // a wait for rest has failed once; later ones are kept short
	stuck   int64       // orders seen without a row while the queue was empty and nothing had been killed
}

// grabSlice is a stretch of the main sale and the drain after it.
type grabSlice struct {
	Tally
	work                           // requests and time of the load; CPU up to rest
	ops     struct{ from, to int } // its part of the history
	plain   bool                   // nobody repeated, rivalled himself or looked his order up
	written time.Duration          // from the first request to the last row
}

func newGrab(r *run) *grab { return &grab{run: r, planted: map[string]bool{}} }

// Grab sells a whole sale, judges it and prints the report. It returns a *ViolationError, with the report, when an
// invariant or a threshold is broken, a *UsageError for options that make no sense, and another error when the run
// could not be carried out.
func Grab(ctx context.Context, o Options) (Report, error) { return sell(ctx, "grab", 0, o) }

// Mixed is Grab with four page reads before each attempt.
func Mixed(ctx context.Context, o Options) (Report, error) {
	return sell(ctx, "mixed", readsPerGrab, o)
}

func sell(ctx context.Context, mode string, reads int, o Options) (Report, error) {
	return conduct(ctx, mode, o, func(ctx context.Context, r *run) (Report, error) {
		g := newGrab(r)
		g.reads = reads
		for _, step := range []func(context.Context) error{g.prepare, g.probe, g.rush} {
			if err := step(ctx); err != nil {
				return Report{}, err
			}
		}
		facts, err := g.facts(ctx)
		if err != nil {
			return Report{}, err
		}
		r.stopMeter()
		return g.report(facts, Judge(&g.history, facts)), nil
	})
}

// prepare makes users and the main sale, and lets each user read its page.
func (g *grab) prepare(ctx context.Context) (err error) {
	g.meter.enter("users", 0)
	if g.tokens, err = g.api.testUsers(ctx, g.opts.Users+probeUsers); err != nil {
		return err
	}
	// Longer than any run, so that the sale does not end under the load.
	if err := g.open(ctx, g.opts.Stock, g.opts.Limit, time.Second, 4*maxDuration); err != nil {
		return err
	}
	g.meter.enter("sale page", g.opts.Users)
	page := "/api/v1/sales/" + g.sales[mainSale].ID
	g.clients.each(ctx, g.opts.Users, func(c *conn, i int) {
		g.meter.done.Add(1)
		// A page that fails is no finding here: the attempt to buy will show it.
		_, _ = c.send(http.MethodGet, page, g.tokens[i], "")
	})
	return ctx.Err()
}

// open makes the next sale.
func (g *grab) open(ctx context.Context, stock, limit int, after, length time.Duration) error {
	s, err := g.api.makeSale(ctx, g.shop, stock, limit, after, length)
	if err != nil {
		return err
	}
	g.sales = append(g.sales, s)
	g.paths = append(g.paths, "/api/v1/sales/"+s.ID+"/orders")
	g.peaks = append(g.peaks, 0)
	return nil
}

// rush is the sale itself: slices of grabs, each drained, between slices of /time.
func (g *grab) rush(ctx context.Context) error {
	if err := g.awaitPhase(ctx, mainSale, "live"); err != nil {
		return err
	}
	visits := plan(g.opts.Users, g.opts.Limit, g.opts.Seed)
	parts := cut(visits, g.opts.Stock, g.opts.Limit)
	if g.opts.Rate > 0 { // arrivals do not pause for a drain
		parts = []part{{visits: visits}}
	}
	buying := min(len(visits), g.opts.Stock/g.opts.Limit)
	for i := range g.opts.Kill {
		g.killAt = append(g.killAt, int64(buying*(i+1)/(g.opts.Kill+1))+1)
	}
	load, cancel := context.WithTimeout(ctx, g.opts.Duration)
	defer cancel()
	g.times.add(g.timeRequests(ctx))
	for _, p := range parts {
		if load.Err() != nil {
			break
		}
		g.slice(ctx, load, p, g.opts.Rate)
		g.times.add(g.timeRequests(ctx))
	}
	return ctx.Err()
}

// slice lets the visitors of one part in while load lasts, at a rate of ticks a second if it isn't 0, and waits for rest.
func (g *grab) slice(ctx, load context.Context, p part, rate float64) grabSlice {
	g.meter.enter("POST orders", len(p.visits))
	s := grabSlice{plain: p.plain}
	s.ops.from = len(g.history.Ops)
	reads, before, start := g.meter.reads.Load(), g.usage(), time.Now()
	visit := func(c *conn, i int, due time.Time) {
		g.meter.done.Add(1)
		g.visit(ctx, c, p.visits[i], due)
	}
	if rate > 0 {
		tick := evenly(rate)
		g.clients.pace(load, len(p.visits), func(i int) time.Duration { return tick(p.visits[i].tick - p.visits[0].tick) }, visit)
	} else {
		g.clients.each(load, len(p.visits), func(c *conn, i int) { visit(c, i, time.Time{}) })
	}
	s.took = time.Since(start)
	s.ops.to = len(g.history.Ops)
	for _, op := range g.history.Ops[s.ops.from:] {
		s.Tally.add(op)
	}
	s.requests = int64(s.Attempted) + g.meter.reads.Load() - reads
	g.meter.enter("drain", 0)
	want := int64(s.Accepted)
	for _, earlier := range g.slices {
		want += int64(earlier.Accepted)
	}
	written, after := g.drained(ctx, mainSale, start, want)
	s.written = written
	s.charge(before, after)
	g.slices = append(g.slices, s)
	return s
}

// visit is one user's stay. Latency counts from arrival, or from the first request if that is zero.
func (g *grab) visit(ctx context.Context, c *conn, v visit, arrival time.Time) {
	if i := slices.Index(g.killAt, g.served.Add(1)); i >= 0 {
		g.servers[i%len(g.servers)].kill(ctx)
	}
	var first Op
	for i := range v.tries {
		g.readPages(c, v.user)
		op := g.attempt(ctx, c, Op{Sale: mainSale, User: v.user, Key: v.key + i}, arrival, "")
		arrival = time.Time{}
		if i == 0 {
			first = op
		}
	}
	if first.Outcome == Accepted && !v.plain() && v.user%lookupEvery == 0 {
		g.lookAtOnce(ctx, c, first)
	}
	switch v.again {
	case sameKey:
		g.attempt(ctx, c, Op{Sale: mainSale, User: v.user, Key: v.key}, time.Time{}, first.ID)
	case anotherKey:
		g.attempt(ctx, c, Op{Sale: mainSale, User: v.user, Key: v.key + v.tries}, time.Time{}, "")
	}
}

// attempt asks until the answer is known and records it. Latency counts from arrival, or from now if that is zero.
// Known is the order already promised for the key, if any.
func (g *grab) attempt(ctx context.Context, c *conn, op Op, arrival time.Time, known string) Op {
	now := time.Now()
	if arrival.IsZero() {
		arrival = now
	}
	key := "b" + strconv.FormatUint(g.opts.Seed, 36) + "-" + strconv.Itoa(op.User) + "-" + strconv.Itoa(op.Key)
	op.Start = now.Sub(g.meter.begun)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		op.Asked++
		op.Outcome = Unknown
		if resp, err := c.send(http.MethodPost, g.paths[op.Sale], g.tokens[op.User], key); err == nil {
			op.classify(resp)
		}
		if op.Outcome == Busy && op.Asked > 1 {
			op.Outcome = Unknown // no order of this question's, but perhaps of one before that was never answered
		}
		if op.Outcome != Unknown || op.Asked >= maxAsk || sleep(ctx, wait) != nil {
			break
		}
	}
	end := time.Now()
	op.End, op.Waited = end.Sub(g.meter.begun), end.Sub(arrival)
	op.Replay = op.Outcome == Accepted && op.ID == known
	g.history.add(op)
	if op.Sale == mainSale {
		g.meter.attempted(op)
	}
	return op
}

// readPages is the browsing of bench mixed.
func (g *grab) readPages(c *conn, user int) {
	for i := range g.reads {
		path := "/api/v1/sales/" + g.sales[mainSale].ID
		if i%2 == 1 {
			path = "/api/v1/shops/" + g.shop
		}
		start := time.Now()
		if resp, err := c.send(http.MethodGet, path, g.tokens[user], ""); err == nil && resp.status == http.StatusOK {
			g.meter.reads.Add(1)
			g.meter.latency.record(time.Since(start))
		}
	}
}

// lookAtOnce fetches an order in the same breath in which it was accepted.
func (g *grab) lookAtOnce(ctx context.Context, c *conn, op Op) {
	if _, answer := g.lookup(ctx, c, op.User, op.ID); answer == absent {
		g.missedMu.Lock()
		g.missed = append(g.missed, op.ID)
		g.missedMu.Unlock()
	}
}
