package order

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// LetterMetrics counts dead letters: each death as it is taken in, and how many stand where when metrics are scraped.
type LetterMetrics struct {
	died *prometheus.CounterVec
}

// NewLetterMetrics registers the counter; Collector is registered by whoever has a DeadLetters.
func NewLetterMetrics(reg prometheus.Registerer) *LetterMetrics {
	m := &LetterMetrics{died: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tandian_dead_letters_total",
		Help: "Messages that became dead letters, repeated deaths included, by topic. Alert on any increase."}, []string{"topic"})}
	reg.MustRegister(m.died)
	for _, topic := range append(Topics(), otherTopic) {
		m.died.WithLabelValues(topic) // so that the first death is an increase
	}
	return m
}

// otherTopic stands for topics that are not ours: whoever can write to the broker may invent some.
const otherTopic = "other"

func topicLabel(topic string) string {
	if slices.Contains(Topics(), topic) {
		return topic
	}
	return otherTopic
}

var lettersDesc = prometheus.NewDesc("tandian_dead_letters", "Dead letters by topic and state: pending ones wait for a retry or a person.", []string{"topic", "state"}, nil)

// Describe implements prometheus.Collector.
func (d *DeadLetters) Describe(out chan<- *prometheus.Desc) { out <- lettersDesc }

// Collect implements prometheus.Collector. A database that doesn't answer leaves a gap.
func (d *DeadLetters) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	counts, err := d.Counts(ctx)
	if err != nil {
		d.Log.Warn("dead letters not counted", "err", err)
		return
	}
	sums := map[[2]string]int64{}
	for _, topic := range append(Topics(), otherTopic) {
		sums[[2]string{topic, LetterPending.String()}] = 0
	}
	for _, c := range counts {
		sums[[2]string{topicLabel(c.Topic), c.State.String()}] += c.N
	}
	for labels, n := range sums {
		out <- prometheus.MustNewConstMetric(lettersDesc, prometheus.GaugeValue, float64(n), labels[0], labels[1])
	}
}
