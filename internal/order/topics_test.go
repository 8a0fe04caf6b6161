package order_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// due has the messages of a topic handled whose time has come, and returns how many there were.
func (w *town) due(t *testing.T, topic string, handle func(context.Context, []queue.Message) []queue.Verdict) (n int) {
	t.Helper()
	for w.number(t, `SELECT COUNT(*) FROM queue_message WHERE topic = ? AND visible_at <= ?`, topic, w.ms.Load()) > 0 {
		ctx, stop := context.WithCancel(t.Context())
		must(t, w.broker.Consume(ctx, topic, queue.Batch{Max: 16}, func(ctx context.Context, batch []queue.Message) []queue.Verdict {
			defer stop()
			n += len(batch)
			return handle(context.WithoutCancel(ctx), batch)
		}))
		stop()
	}
	return n
}

// series returns the values of a counter or gauge by its labels, as "topic" or "state topic".
func series(t *testing.T, reg *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	values := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() { // sorted by name
				labels += " " + l.GetValue()
			}
			values[labels[1:]] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

// S9: a dead letter of every topic is known as ours and says whose orders it is about; it is counted under the topic's own
// name, which is there from the start so that the first death is an increase; it is sent again once by itself, and its
// consumer's success ends it.
func TestEveryTopicHasDeadLetters(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 10, 1)
		bought := w.buy(t, 1)
		const reserved id.ID = 77
		reservation, err := order.Encode([]order.Reservation{{OrderID: reserved, SaleID: w.sale, VoucherID: voucherID, UserID: 2, Amount: 4750,
			AdmittedAt: w.ms.Load(), PayBefore: w.ms.Load() + payWindow.Milliseconds()}})
		must(t, err)
		reg := prometheus.NewRegistry()
		d := &order.DeadLetters{DB: db, Broker: w.broker, Tomb: w.writer, Now: w.Now, Log: slog.New(slog.DiscardHandler), Metrics: order.NewLetterMetrics(reg), Pause: time.Minute}
		reg.MustRegister(d)
		topics := map[string]struct {
			body   string
			about  id.ID
			handle func(context.Context, []queue.Message) []queue.Verdict
		}{
			order.TopicCreate: {string(reservation), reserved, w.writer.Handle},
			order.TopicCreated: {fmt.Sprintf(`{"v":1,"orderIds":["%d"]}`, bought), bought, d.Watched(order.TopicCreated, func(_ context.Context, batch []queue.Message) []queue.Verdict {
				return []queue.Verdict{queue.Ack()}[:len(batch)]
			})},
			order.TopicCheck: {fmt.Sprintf(`{"v":1,"msgId":"m","orderIds":["%d"],"checkIndex":2}`, bought), bought, d.Watched(order.TopicCheck, w.checker.Handle)},
		}
		if len(topics) != len(order.Topics()) {
			t.Fatalf("%d topics are tried of %v", len(topics), order.Topics())
		}
		for _, topic := range order.Topics() {
			if n, there := series(t, reg, "tandian_dead_letters_total")[topic]; n != 0 || !there {
				t.Errorf("%s: deaths %v, shown %v", topic, n, there)
			}
			if n, there := series(t, reg, "tandian_dead_letters")["pending "+topic]; n != 0 || !there {
				t.Errorf("%s: pending %v, shown %v", topic, n, there)
			}
			must(t, order.KeepDeadLetter(t.Context(), db, topic, queue.Message{ID: "message-of-" + topic, Body: []byte(topics[topic].body), Attempts: 2}, errors.New("broken"), w.Now()))
		}
		must(t, d.Turn(t.Context()))
		letters := map[string]order.Letter{}
		all, err := d.List(t.Context(), order.LetterFilter{State: order.LetterPending}, 0, 10)
		must(t, err)
		for _, l := range all {
			letters[l.Topic] = l
		}
		for _, topic := range order.Topics() {
			l := letters[topic]
			content, err := d.Read(t.Context(), &l)
			must(t, err)
			if !l.Ours || l.Attempts != 3 || len(content.Orders) != 1 || content.Orders[0] != topics[topic].about || content.Raw != "" {
				t.Errorf("%s: %+v, %+v", topic, l, content)
			}
			if died, pending := series(t, reg, "tandian_dead_letters_total")[topic], series(t, reg, "tandian_dead_letters")["pending "+topic]; died != 1 || pending != 1 {
				t.Errorf("%s: %v deaths, %v pending", topic, died, pending)
			}
		}
		w.advance(d.Pause)
		must(t, d.Turn(t.Context()))
		for _, topic := range order.Topics() {
			if n := w.due(t, topic, topics[topic].handle); n == 0 {
				t.Errorf("%s: not sent again by itself", topic)
			}
		}
		must(t, d.Turn(t.Context()))
		for _, topic := range order.Topics() {
			if l, err := d.Find(t.Context(), letters[topic].ID); err != nil || l.State != order.LetterFixed {
				t.Errorf("%s: %+v %v", topic, l, err)
			}
		}
		if w.status(t, reserved) != order.Unpaid || w.number(t, `SELECT check_index FROM pay_check WHERE order_id = ?`, bought) != 3 {
			t.Error("a consumer was not there")
		}
	})
}
