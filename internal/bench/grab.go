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

	maxAsk        = 14 // times one attempt is asked while the answer is unknown; about 15 s
	lookupEvery   = 20 // every so many accepted ids are looked up at once
	readsPerGrab  = 4  // of bench mixed: 80 % reads
	lookupRetries = 10
)

// grab is a run that sells.
type grab struct {
	*run
	history History
	tokens  []string // by user
	sales   []sale   // by index
	paths   []string // of the sales' orders, by index
	peaks   []int64  // most live orders seen, by sale; written between slices only
	missed  []string // ids not found at once; guarded by missedMu
	planted map[string]bool

	missedMu sync.Mutex
	accepted atomic.Int64
	served   atomic.Int64 // visits begun
	killAt   []int64      // values of served at which the server is killed
	reads    int          // page reads before each attempt

	times   work        // all slices of GET /time
	slices  []grabSlice // of the main sale
	stalled bool        // a wait for rest has failed once; later ones are kept short
	stuck   int64       // orders seen without a row while the queue was empty and nothing had been killed
}

// grabSlice is a stretch of the main sale and the drain after it.
type grabSlice struct {
	Tally
	work                  // requests and time of the load; CPU up to rest
	written time.Duration // from the first request to the last row
	drain   time.Duration // from the last answer to the last row
}

func newGrab(r *run) *grab {
	return &grab{run: r, planted: map[string]bool{}}
}

// Grab sells a whole sale, judges it and prints the report. It returns a
// *ViolationError, with the report, when an invariant or a threshold is broken,
// and another error when the run could not be carried out.
func Grab(ctx context.Context, o Options) (Report, error) { return sell(ctx, "grab", 0, o) }

// Mixed is Grab with four page reads before each attempt.
func Mixed(ctx context.Context, o Options) (Report, error) {
	return sell(ctx, "mixed", readsPerGrab, o)
}

func sell(ctx context.Context, mode string, reads int, o Options) (Report, error) {
	r, err := begin(ctx, mode, o)
	defer r.end()
	if err != nil {
		return Report{}, err
	}
	g := newGrab(r)
	g.reads = reads
	if err := g.prepare(ctx); err != nil {
		return Report{}, err
	}
	if err := g.probe(ctx); err != nil {
		return Report{}, err
	}
	if err := g.rush(ctx); err != nil {
		return Report{}, err
	}
	facts, err := g.facts(ctx)
	if err != nil {
		return Report{}, err
	}
	r.stopMeter()
	report := g.report(facts, Judge(&g.history, facts))
	return report, report.finish(r)
}

// prepare makes users and the main sale, and lets each user read its page.
func (g *grab) prepare(ctx context.Context) (err error) {
	g.meter.enter("users", 0)
	if g.tokens, err = g.api.testUsers(ctx, g.opts.Users+probeUsers); err != nil {
		return err
	}
	begin := g.serverNow().Add(time.Second)
	// Longer than any run, so that the sale does not end under the load.
	if err := g.open(ctx, "bench "+g.mode, sale{stock: g.opts.Stock, limit: g.opts.Limit, begin: begin, end: begin.Add(4 * maxDuration)}); err != nil {
		return err
	}
	g.meter.enter("sale page", g.opts.Users)
	page := "/api/v1/sales/" + g.sales[mainSale].id
	g.clients.each(ctx, g.opts.Users, func(c *conn, i int) {
		g.meter.done.Add(1)
		// A page that fails is no finding here: the attempt to buy will show it.
		_, _ = c.send(http.MethodGet, page, g.tokens[i], "")
	})
	return ctx.Err()
}

// open puts a sale on sale.
func (g *grab) open(ctx context.Context, title string, s sale) error {
	s, err := g.api.makeSale(ctx, g.shop, title, s)
	if err != nil {
		return err
	}
	g.sales = append(g.sales, s)
	g.paths = append(g.paths, "/api/v1/sales/"+s.id+"/orders")
	g.peaks = append(g.peaks, 0)
	return nil
}

// rush is the sale itself: slices of grabs, each drained, between slices of /time.
func (g *grab) rush(ctx context.Context) error {
	if err := g.awaitServerTime(ctx, g.sales[mainSale].begin.Add(50*time.Millisecond)); err != nil {
		return err
	}
	visits := plan(g.opts.Users, g.opts.Limit, g.opts.Seed)
	parts := cut(visits, g.opts.Stock, g.opts.Limit)
	if g.opts.Rate > 0 { // arrivals do not pause for a drain
		parts = [][]visit{visits}
	}
	buying := min(len(visits), g.opts.Stock/g.opts.Limit)
	for i := range g.opts.Kill {
		g.killAt = append(g.killAt, int64(buying*(i+1)/(g.opts.Kill+1))+1)
	}
	load, cancel := context.WithTimeout(ctx, g.opts.Duration)
	defer cancel()
	g.times.add(g.timeRequests(ctx))
	for _, part := range parts {
		if load.Err() != nil {
			break
		}
		g.slices = append(g.slices, g.slice(ctx, load, part))
		g.times.add(g.timeRequests(ctx))
	}
	return ctx.Err()
}

// slice lets the visitors of one slice in while load lasts, and waits for rest.
func (g *grab) slice(ctx, load context.Context, part []visit) (s grabSlice) {
	g.meter.enter("POST orders", len(part))
	from := len(g.history.Ops)
	start := time.Now()
	var asked work
	whole := g.measure(func() int64 {
		reads := g.meter.reads.Load()
		g.clients.each(load, len(part), func(c *conn, i int) {
			g.meter.done.Add(1)
			arrival := time.Time{}
			if g.opts.Rate > 0 {
				arrival = start.Add(time.Duration(float64(part[i].tick-part[0].tick) / g.opts.Rate * float64(time.Second)))
			}
			g.visit(load, c, part[i], arrival)
		})
		asked.took = time.Since(start)
		asked.requests = int64(len(g.history.Ops)-from) + g.meter.reads.Load() - reads
		g.meter.enter("drain", 0)
		s.written, s.drain = g.drained(ctx, start, asked.took)
		return asked.requests
	})
	s.work = work{requests: asked.requests, took: asked.took, cpu: whole.cpu, noCPU: whole.noCPU}
	for _, op := range g.history.Ops[from:] {
		s.Tally.add(op)
	}
	return s
}

// visit is one user's stay. In an open loop it waits for its arrival.
func (g *grab) visit(ctx context.Context, c *conn, v visit, arrival time.Time) {
	if !arrival.IsZero() && sleep(ctx, time.Until(arrival)) != nil {
		return
	}
	if slices.Contains(g.killAt, g.served.Add(1)) {
		g.server.kill()
	}
	var first Op
	for i := range v.tries {
		if i > 0 && ctx.Err() != nil {
			return
		}
		g.readPages(c, v.user)
		op := g.attempt(ctx, c, Op{Sale: mainSale, User: v.user, Key: v.key + i}, arrival)
		arrival = time.Time{}
		if i == 0 {
			first = op
		}
		if op.Outcome == Accepted && g.accepted.Add(1)%lookupEvery == 0 {
			g.lookAtOnce(c, op)
		}
	}
	switch v.again {
	case sameKey:
		g.attempt(ctx, c, Op{Sale: mainSale, User: v.user, Key: v.key}, time.Time{}, first)
	case anotherKey:
		if op := g.attempt(ctx, c, Op{Sale: mainSale, User: v.user, Key: v.key + v.tries}, time.Time{}); op.Outcome == Accepted {
			g.accepted.Add(1)
		}
	}
}

// attempt asks until the answer is known and records it. Latency counts from
// arrival, or from now if that is zero. Earlier are attempts with the same key.
func (g *grab) attempt(ctx context.Context, c *conn, op Op, arrival time.Time, earlier ...Op) Op {
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
		// Going on after the load's time is over is right: the answer is owed.
		if op.Outcome != Unknown || op.Asked >= maxAsk || sleep(context.WithoutCancel(ctx), wait) != nil {
			break
		}
	}
	end := time.Now()
	op.End = end.Sub(g.meter.begun)
	for _, e := range earlier {
		op.Replay = op.Replay || op.Outcome == Accepted && e.ID == op.ID
	}
	g.history.add(op)
	if op.Sale == mainSale {
		g.meter.attempted(op, end.Sub(arrival))
	}
	return op
}

// readPages is the browsing of bench mixed.
func (g *grab) readPages(c *conn, user int) {
	for i := range g.reads {
		path := "/api/v1/sales/" + g.sales[mainSale].id
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
func (g *grab) lookAtOnce(c *conn, op Op) {
	if _, answer := g.lookup(c, op.User, op.ID); answer == absent {
		g.missedMu.Lock()
		g.missed = append(g.missed, op.ID)
		g.missedMu.Unlock()
	}
}
