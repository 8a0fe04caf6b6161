package order

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what the pipeline does right of the queue.
type Metrics struct {
	orders *prometheus.CounterVec
	drift  *prometheus.CounterVec
	batch  prometheus.Histogram
	pauses prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		orders: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tandian_orders_total", Help: "Rows of accepted orders by outcome: written or failed."}, []string{"outcome"}),
		drift:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tandian_order_drift_total", Help: "Units that the gate admitted and SQL refused, by reason. Alert on any."}, []string{"reason"}),
		batch:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "tandian_writer_batch_size", Help: "Orders a transaction.", Buckets: []float64{1, 2, 5, 10, 20, 50, 100, 200, 500}}),
		pauses: prometheus.NewCounter(prometheus.CounterOpts{Name: "tandian_writer_pauses_total", Help: "Times the writer waited because the database was in trouble."}),
	}
	reg.MustRegister(m.orders, m.drift, m.batch, m.pauses)
	return m
}
