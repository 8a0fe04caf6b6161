package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// dependency is a store that selling needs, and how to ask whether it takes what it has to keep.
type dependency struct {
	name  string
	probe func(ctx context.Context) error
}

const (
	probeTimeout = time.Second // of all dependencies together
	probeFor     = time.Second // how long an answer stands
)

// The states of an instance.
const (
	starting = "starting"
	serving  = "serving"
	draining = "draining"
)

// readiness tells whether this instance can sell. It may be asked by anybody at any rate: the stores are asked at
// most once a second.
type readiness struct {
	now   func() time.Time
	log   *slog.Logger
	state atomic.Value // one of the states

	mu           sync.Mutex
	dependencies []dependency    // guarded by mu; none until the stores are open
	up           map[string]bool // guarded by mu: as last seen
	until        time.Time       // guarded by mu: up stands
}

func newReadiness(now func() time.Time, log *slog.Logger) *readiness {
	r := &readiness{now: now, log: log}
	r.state.Store(starting)
	return r
}

// watch begins to ask dependencies, and ends it when there are none.
func (r *readiness) watch(list []dependency) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dependencies, r.up, r.until = list, map[string]bool{}, time.Time{}
}

// look returns which dependencies are up, as seen within the last second. Whoever comes while they are being asked
// waits for that answer.
func (r *readiness) look(ctx context.Context) map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now().Before(r.until) {
		return r.up
	}
	// The answer is for others, too, whatever becomes of this request.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
	defer cancel()
	faults := make([]error, len(r.dependencies))
	var wg sync.WaitGroup
	for i, d := range r.dependencies {
		wg.Go(func() { faults[i] = d.probe(ctx) })
	}
	wg.Wait()
	up := make(map[string]bool, len(faults))
	for i, d := range r.dependencies {
		up[d.name] = faults[i] == nil
		switch before, known := r.up[d.name]; {
		case faults[i] != nil && (before || !known):
			r.log.Warn("a store is down: nothing is sold", "store", d.name, "err", faults[i])
		case faults[i] == nil && known && !before:
			r.log.Info("a store is up again", "store", d.name)
		}
	}
	r.up, r.until = up, r.now().Add(probeFor)
	return up
}

// readyAnswer is the body of /readyz. It tells strangers no more than which store is down.
type readyAnswer struct {
	Ready  bool              `json:"ready"`
	State  string            `json:"state"`
	Checks map[string]string `json:"checks"`
}

// ServeHTTP answers GET /readyz: 200 when this instance serves and can sell, 503 otherwise. ?exclude=redis leaves a
// dependency out of that verdict, and may be repeated; a name that isn't one changes nothing, so that one probe fits
// every mode.
func (r *readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	excluded := req.URL.Query()["exclude"]
	state := r.state.Load().(string)
	a := readyAnswer{Ready: state == serving, State: state, Checks: map[string]string{}}
	for name, up := range r.look(req.Context()) {
		a.Checks[name] = "ok"
		if !up {
			a.Checks[name] = "down"
			a.Ready = a.Ready && slices.Contains(excluded, name)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !a.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(a) // the client went away: nobody is left to tell
}

var dependencyUp = prometheus.NewDesc("tandian_dependency_up", "Whether a store that selling needs takes what it has to keep: 1 or 0.", []string{"dependency"}, nil)

// Describe implements prometheus.Collector.
func (r *readiness) Describe(out chan<- *prometheus.Desc) { out <- dependencyUp }

// Collect implements prometheus.Collector.
func (r *readiness) Collect(out chan<- prometheus.Metric) {
	for name, up := range r.look(context.Background()) {
		value := 0.0
		if up {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(dependencyUp, prometheus.GaugeValue, value, name)
	}
}

// redisTakesWrites asks by a key that nobody reads: a replica, and a server without memory or disk, answer a PING.
func (b *backend) redisTakesWrites(ctx context.Context) error {
	return b.kv.Set(ctx, "ready", nil, 10*time.Second)
}

// brokerIsUp judges what a broker knows without being asked.
func brokerIsUp(takes, delivers bool) error {
	switch {
	case !takes:
		return errors.New("no connection, or it takes no messages for lack of memory or disk")
	case !delivers:
		return errors.New("no connection for consuming: what is bought is not written here")
	}
	return nil
}
