package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// run is what all modes share: a server, a way to talk to it, and the meter.
type run struct {
	opts    Options
	mode    string
	expect  []Threshold
	server  *server   // nil with --url
	db      *database // nil unless the server is ours and embedded
	api     *api
	clients clients
	meter   *meter
	offset  time.Duration // the server's clock minus ours
	shop    string        // id of the hot shop

	stopMeter func() // stops drawing and waits for it; may be called twice
}

// begin starts the server if need be and connects to it. The caller must end
// the run, also after an error.
func begin(ctx context.Context, mode string, o Options, extra ...string) (*run, error) {
	o, expect, err := o.prepare()
	r := &run{opts: o, mode: mode, expect: expect, meter: newMeter(), stopMeter: func() {}}
	if err != nil {
		return r, err
	}
	meterCtx, cancel := context.WithCancel(ctx)
	var drawing sync.WaitGroup
	drawing.Go(func() { r.meter.run(meterCtx, o.Stderr) })
	r.stopMeter = func() { cancel(); drawing.Wait() }
	if o.Self {
		if r.server, err = newServer(o); err != nil {
			return r, err
		}
		if err := r.server.start(ctx, extra...); err != nil {
			return r, err
		}
		if r.db, err = openDatabase(r.server.dir); err != nil {
			return r, err
		}
	}
	return r, r.connect(ctx)
}

// connect finds the server's address, signs the operator in and compares clocks.
func (r *run) connect(ctx context.Context) error {
	address := r.opts.URL
	if r.server != nil {
		address = r.server.address()
	}
	t, err := newTarget(address)
	if err != nil {
		return err
	}
	r.clients.close()
	r.clients = newClients(t, r.opts.Clients)
	r.api = newAPI(address)
	if r.offset, err = r.api.clockOffset(ctx); err != nil {
		return fmt.Errorf("reach %s: %w", address, err)
	}
	if err := r.api.signIn(ctx, r.opts.OperatorPhone, r.opts.OperatorPassword); err != nil {
		return err
	}
	r.shop, err = r.api.hotShop(ctx)
	return err
}

func (r *run) end() {
	r.stopMeter()
	r.clients.close()
	if r.db != nil {
		_ = r.db.Close() // read only, but for planted rows that are committed
	}
	if r.server != nil {
		r.server.remove()
	}
}

// serverNow is the time by the server's clock.
func (r *run) serverNow() time.Time { return time.Now().Add(r.offset) }

// awaitServerTime waits until the server's clock shows t.
func (r *run) awaitServerTime(ctx context.Context, t time.Time) error {
	return sleep(ctx, t.Sub(r.serverNow()))
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

// cpu is the CPU time the server side has used so far. It is not comparable
// over a restart; the caller checks that.
func (r *run) cpu() (time.Duration, bool) {
	if r.server == nil {
		return 0, false
	}
	return cpuTime(append(servicePIDs(), r.server.pid()))
}

// work is what a number of requests took.
type work struct {
	requests int64
	took     time.Duration
	cpu      time.Duration // of the server side
	noCPU    bool          // cpu is not known
}

func (w *work) add(o work) {
	w.requests += o.requests
	w.took += o.took
	w.cpu += o.cpu
	w.noCPU = w.noCPU || o.noCPU
}

// rps is nil when nothing was asked.
func (w work) rps() *float64 { return quotient(float64(w.requests), w.took.Seconds()) }

// cpuPer is CPU microseconds per n, nil when not known. Less than ten ticks of
// CPU time would be mostly rounding.
func (w work) cpuPer(n int64) *float64 {
	if w.noCPU || w.cpu < 10*clockTick {
		return nil
	}
	return quotient(float64(w.cpu.Microseconds()), float64(n))
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

// measure takes time and CPU of fn, which returns the number of its requests.
func (r *run) measure(fn func() int64) work {
	restarts := r.restarts()
	before, ok := r.cpu()
	start := time.Now()
	w := work{requests: fn()}
	w.took = time.Since(start)
	after, ok2 := r.cpu()
	w.cpu, w.noCPU = after-before, !ok || !ok2 || r.restarts() != restarts
	return w
}

func (r *run) restarts() int {
	if r.server == nil {
		return 0
	}
	return r.server.restarted()
}

// timeRequests asks GET /api/v1/time on all connections for a slice.
func (r *run) timeRequests(ctx context.Context) work {
	r.meter.enter("GET /api/v1/time", 0)
	return r.measure(func() int64 {
		var n atomic.Int64
		r.clients.loop(ctx, r.opts.TimeSlice, func(c *conn) {
			if resp, err := c.send(http.MethodGet, "/api/v1/time", "", ""); err == nil && resp.status == http.StatusOK {
				n.Add(1)
			}
		})
		return n.Load()
	})
}

// state asks the console for a sale and signs in again when a restart has
// ended the operator's session.
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
