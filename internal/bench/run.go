package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// run is what all modes share: a server, a way to talk to it, and the meter.
type run struct {
	opts    Options
	mode    string
	expect  []Threshold
	stores  *stores   // nil unless the server is ours and in production mode
	servers fleet     // nil with --url
	db      *database // nil with --url
	api     *api
	clients clients
	meter   *meter
	tokens  []string      // of the test users
	shop    string        // id of the hot shop
	timed   atomic.Uint64 // requests of GET /time so far

	delayed *Delayed // nil if none were asked for

	stopMeter func() // stops drawing and waits for it; may be called twice
}

// conduct starts the server with flags if need be, connects to it, lets body carry out the run, and prints its report.
// A server that ends by itself cancels the run with a *ViolationError.
func conduct(ctx context.Context, mode string, o Options, body func(context.Context, *run) (Report, error), flags ...string) (Report, error) {
	o, expect, err := o.prepare()
	if err != nil {
		return Report{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &run{opts: o, mode: mode, expect: expect, meter: newMeter(), stopMeter: func() {}}
	defer r.end()
	if err := r.begin(ctx, cancel, flags); err != nil {
		return Report{}, err
	}
	report, err := body(ctx, r)
	err = errors.Join(err, r.countDelayed())
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return Report{}, err
	}
	return report, report.finish(r)
}

func (r *run) begin(ctx context.Context, cancel context.CancelCauseFunc, flags []string) (err error) {
	meterCtx, stop := context.WithCancel(ctx)
	var drawing sync.WaitGroup
	drawing.Go(func() { r.meter.run(meterCtx, r.opts.Stderr) })
	r.stopMeter = func() { stop(); drawing.Wait() }
	if !r.opts.Self {
		return r.connect(ctx, r.opts.URL)
	}
	if r.opts.production() {
		if r.stores, err = openStores(ctx, r.opts.Stores, r.opts.Wipe); err != nil {
			return err
		}
	}
	if r.servers, err = newFleet(r.opts, r.stores.environment(), cancel); err != nil {
		return err
	}
	if err := r.servers.start(ctx, flags...); err != nil {
		return err
	}
	if r.db, err = r.openDatabase(); err != nil {
		return err
	}
	if err := r.delay(ctx); err != nil {
		return err
	}
	return r.connect(ctx, r.servers.addresses()...)
}

// openDatabase opens what the servers write to.
func (r *run) openDatabase() (*database, error) {
	if r.stores != nil {
		return openMySQL(r.stores.dsn)
	}
	return openSQLite(r.servers[0].dir, "query_only(1)")
}

// connect signs the operator in at the first server, picks a shop, and spreads the connections over all servers.
func (r *run) connect(ctx context.Context, addresses ...string) error {
	var targets []target
	for _, address := range addresses {
		t, err := newTarget(address)
		if err != nil {
			return err
		}
		targets = append(targets, t)
	}
	r.clients = newClients(r.opts.Clients, targets...)
	r.api = &api{conn: &conn{target: targets[0]}}
	err := r.api.signIn(ctx, r.opts.OperatorPhone, r.opts.OperatorPassword)
	if err != nil {
		return fmt.Errorf("reach %s: %w", addresses[0], err)
	}
	r.shop, err = r.api.hotShop(ctx)
	return err
}

func (r *run) end() {
	r.stopMeter()
	r.clients.close()
	if r.api != nil {
		r.api.conn.close()
	}
	if r.db != nil {
		_ = r.db.Close() // it only reads
	}
	r.servers.remove()
	if r.stores != nil {
		if err := r.stores.close(); err != nil {
			fmt.Fprintln(r.opts.Stderr, "tandian: clean up:", err)
		}
	}
}

// sleep waits d or until ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// work is what a number of requests took.
type work struct {
	requests int64
	took     time.Duration
	cpu      cpuTimes // of the server side
	noCPU    bool     // cpu is not known
}

func (w *work) add(o work) {
	w.requests += o.requests
	w.took += o.took
	w.cpu = w.cpu.plus(o.cpu)
	w.noCPU = w.noCPU || o.noCPU
}

// rps is nil when nothing was asked.
func (w work) rps() *float64 { return quotient(float64(w.requests), w.took.Seconds()) }

// cpuPer is CPU microseconds per n, nil when not known. In less than minCPU too much would be chance.
func (w work) cpuPer(n int64) *float64 {
	const minCPU = 10 * time.Millisecond
	if w.noCPU || w.cpu.total() < minCPU {
		return nil
	}
	return quotient(float64(w.cpu.total().Microseconds()), float64(n))
}

// byProgram divides cpuPer among the programs.
func (w work) byProgram(n int64) map[string]float64 {
	if w.cpuPer(n) == nil {
		return nil
	}
	per := map[string]float64{}
	for program, d := range w.cpu {
		if d > 0 {
			per[program] = float64(d.Microseconds()) / float64(n)
		}
	}
	return per
}

// serversOnly leaves the stores' CPU time out: what they do meanwhile is none of these requests' doing.
func (w work) serversOnly() work {
	w.cpu = cpuTimes{serverProgram: w.cpu[serverProgram]}
	return w
}

func quotient(a, b float64) *float64 {
	if a <= 0 || b <= 0 {
		return nil
	}
	q := a / b
	return &q
}

// ratio divides two figures that may be unknown.
func ratio(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return quotient(*a, *b)
}

// usage is the CPU time the server side had used at some moment.
type usage struct {
	cpu      cpuTimes // nil when not known
	restarts int      // by then; over a restart two usages are not comparable
}

func (r *run) usage() usage {
	if r.servers == nil {
		return usage{}
	}
	return usage{cpuSoFar(r.servers.pids(), r.opts.Stores.PIDs), r.servers.restarts()}
}

// charge books the CPU time used between two moments.
func (w *work) charge(from, to usage) {
	w.cpu, w.noCPU = to.cpu.minus(from.cpu), from.cpu == nil || to.cpu == nil || from.restarts != to.restarts
}

// measure takes time and CPU of fn, which returns the number of its requests.
func (r *run) measure(fn func() int64) (w work) {
	before, start := r.usage(), time.Now()
	w.requests = fn()
	w.took = time.Since(start)
	w.charge(before, r.usage())
	return w
}

// timeRequests asks GET /api/v1/time on all connections for a slice.
func (r *run) timeRequests(ctx context.Context) work {
	r.meter.enter("GET /api/v1/time", 0)
	return r.measure(func() int64 {
		var failed atomic.Int64
		asked := r.clients.loop(ctx, r.opts.TimeSlice, func(c *conn, _ int) {
			if !r.askTime(c) {
				failed.Add(1)
			}
		})
		return asked - failed.Load()
	}).serversOnly()
}

// timeUsers ask for the time: so few that the server keeps knowing them, for the cheapest request has no look-up in it.
const timeUsers = 64

// askTime asks for the time as a buyer would, with a token and a key, so that a ratio compares like with like.
func (r *run) askTime(c *conn) bool {
	n, token := r.timed.Add(1), ""
	if known := uint64(min(timeUsers, len(r.tokens))); known > 0 {
		token = r.tokens[n%known]
	}
	resp, err := c.send(http.MethodGet, "/api/v1/time", token, "b-time-"+strconv.FormatUint(n, 10))
	return err == nil && resp.status == http.StatusOK
}

// state asks the console for a sale and signs in again when a restart has ended the operator's session.
func (r *run) state(ctx context.Context, saleID string) (saleState, error) {
	s, err := r.api.saleState(ctx, saleID)
	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusUnauthorized {
		if err := r.api.signIn(ctx, r.opts.OperatorPhone, r.opts.OperatorPassword); err != nil {
			return s, err
		}
		return r.api.saleState(ctx, saleID)
	}
	return s, err
}
