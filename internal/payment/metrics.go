package payment

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what happens to money.
type Metrics struct {
	outcomes *prometheus.CounterVec
	notices  *prometheus.CounterVec
	refused  *prometheus.CounterVec
	refunds  *prometheus.CounterVec
	unknown  *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
		reg.MustRegister(c)
		return c
	}
	return &Metrics{
		outcomes: counter("tandian_payments_total", "Attempts to pay by what became of them: paid, late, duplicate, mismatch, closed, failed.", "outcome"),
		notices:  counter("tandian_payment_notices_total", "Verified notifications: applied, waiting (for a row), repeat.", "result"),
		refused:  counter("tandian_payment_notices_refused_total", "Notifications not believed, by reason. Alert on any but stale.", "reason"),
		refunds:  counter("tandian_refunds_total", "Refunds asked for by reason, and ended: done, refused. Alert on refused.", "event"),
		unknown:  counter("tandian_payment_unknown_total", "Calls of a provider without an answer, by operation.", "operation"),
	}
}
