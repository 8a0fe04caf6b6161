package flashsale

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/errs"
)

// Metrics counts what happens left of the queue.
type Metrics struct {
	grabs   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	unknown prometheus.Counter
	resent  prometheus.Counter
	loads   *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		grabs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tandian_grabs_total", Help: "Grabs by result: accepted or the error's code."}, []string{"result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tandian_grab_duration_seconds", Help: "Time from the gate's first question to the buyer's answer.",
			Buckets: []float64{.0001, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}}, []string{"result"}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{Name: "tandian_handover_unknown_total", Help: "Hand-overs whose outcome was not known in time; the unit stays taken."}),
		resent:  prometheus.NewCounter(prometheus.CounterOpts{Name: "tandian_sweeper_resent_total", Help: "Pending reservations sent again."}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tandian_gate_loads_total",
			Help: "Gates loaded from SQL by cause: absent (also each sale's first), foreign (another server or an earlier life of this one), damaged (keys lost or changed by another hand)."}, []string{"cause"}),
	}
	reg.MustRegister(m.grabs, m.seconds, m.unknown, m.resent, m.loads)
	return m
}

func (m *Metrics) grabbed(err error, took time.Duration) {
	result := "accepted"
	if err != nil {
		result = errs.From(err).Code
	}
	m.grabs.WithLabelValues(result).Inc()
	m.seconds.WithLabelValues(result).Observe(took.Seconds())
}
