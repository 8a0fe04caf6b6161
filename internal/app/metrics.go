package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/queue"
	"tandian/internal/order"
)

// queueCollector asks the broker for its depths when metrics are scraped.
type queueCollector struct {
	broker queue.Broker
	log    *slog.Logger
}

var (
	queueMessages = prometheus.NewDesc("tandian_queue_messages", "Messages in a topic by state.", []string{"topic", "state"}, nil)
	queueOldest   = prometheus.NewDesc("tandian_queue_oldest_seconds", "Age of the oldest message of a topic.", []string{"topic"}, nil)
)

// Describe implements prometheus.Collector.
func (c *queueCollector) Describe(out chan<- *prometheus.Desc) {
	out <- queueMessages
	out <- queueOldest
}

// Collect implements prometheus.Collector. A broker that doesn't answer leaves a gap.
func (c *queueCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	for _, topic := range order.Topics() {
		d, err := c.broker.Depth(ctx, topic)
		if err != nil {
			c.log.Warn("queue depth not known", "topic", topic, "err", err)
			continue
		}
		out <- prometheus.MustNewConstMetric(queueMessages, prometheus.GaugeValue, float64(d.Ready), topic, "ready")
		out <- prometheus.MustNewConstMetric(queueMessages, prometheus.GaugeValue, float64(d.Unacked), topic, "unacked")
		out <- prometheus.MustNewConstMetric(queueOldest, prometheus.GaugeValue, d.Oldest.Seconds(), topic)
	}
}
