package flashsale_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/order"
)

// F27: messages that can't be read and rows that the database refuses, each for a reason of its own, in one batch with
// good ones. The unreadable are parked at once, the refused after three attempts; the good flow.
func TestPoison(t *testing.T) {
	t.Run("mysql", func(t *testing.T) {
		p := newPipeline(t, 10, 1)
		good, trigger := p.grab(t, 1, "key-00000001"), p.grab(t, 2, "key-00000001")
		if _, err := p.db.Write.Exec(`CREATE TRIGGER refuse BEFORE INSERT ON orders FOR EACH ROW
			BEGIN IF NEW.user_id = 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no'; END IF; END`); err != nil {
			t.Fatal(err)
		}
		now := p.Now().UnixMilli()
		letters, err := order.Encode([]order.Reservation{{OrderID: 5, SaleID: p.sale, VoucherID: 7, UserID: 9, RequestID: "请求", AdmittedAt: now, PayBefore: now}})
		if err != nil {
			t.Fatal(err)
		}
		for name, body := range map[string]string{"cut": `{"v":1,"reserv`, "version": `{"v":9,"reservations":[]}`, "letters": string(letters)} {
			if err := p.broker.Publish(t.Context(), order.TopicCreate, name, []byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		type letter struct {
			MessageID string
			Attempts  int
		}
		parked := func() map[string]int {
			t.Helper()
			var rows []letter
			if err := p.db.Read.NewSelect().Table("dead_letter").Column("message_id", "attempts").Scan(t.Context(), &rows); err != nil {
				t.Fatal(err)
			}
			found := map[string]int{}
			for _, r := range rows {
				found[r.MessageID] = r.Attempts
			}
			return found
		}
		for attempt := range 3 {
			if n := len(parked()); attempt > 0 && n != 2 {
				t.Fatalf("%d parked after %d attempts", n, attempt)
			}
			p.drainDue(t)
			p.advance(5 * time.Second)
		}
		want := fmt.Sprint(map[string]int{"cut": 0, "version": 0, "order-" + trigger.String(): 2, "order-5": 2}) // counted before the last
		if got := fmt.Sprint(parked()); got != want {
			t.Fatalf("parked %s, want %s", got, want)
		}
		if st, _ := p.status(t, 1, good); st != order.Unpaid {
			t.Fatal(st)
		}
		if st, _ := p.status(t, 2, trigger); st != order.Queued {
			t.Fatal(st)
		}
		p.want(t, 8, 1, 9, 1)
	})
}

// overfill makes the gate admit n more than SQL has.
func (p *pipeline) overfill(t *testing.T, n int64) {
	t.Helper()
	st, err := p.gate.Standing(t.Context(), p.sale)
	if err != nil {
		t.Fatal(err)
	}
	st.Terms.Version++
	st.Terms.Released += n
	if err := p.gate.Change(t.Context(), st.Terms); err != nil {
		t.Fatal(err)
	}
}

// F28: an order for which SQL has no stock is told to have failed, for good and by that reason, and is counted. (How the
// gate comes by its true stock again is tested with the gate.)
func TestDriftIsCounted(t *testing.T) { onBoth(t, testDriftIsCounted) }

func testDriftIsCounted(t *testing.T) {
	p := newPipeline(t, 1, 1)
	reg := prometheus.NewRegistry()
	p.writer.Metrics = order.NewMetrics(reg)
	p.overfill(t, 1)
	p.grab(t, 1, "key-00000001")
	p.drain(t)
	failed := p.grab(t, 2, "key-00000001")
	p.drain(t)
	if err := p.releaser.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, reason := p.status(t, 2, failed); st != order.Failed || reason != order.ReasonSoldOut {
		t.Fatal(st, reason)
	}
	if again := p.grab(t, 2, "key-00000001"); again != failed {
		t.Fatal("I7: the key goes on to mean the failed order", again)
	}
	if n := metric(t, reg, "tandian_order_drift_total", order.ReasonSoldOut); n != 1 {
		t.Fatalf("%v counted", n)
	}
	p.want(t, 1, 0, 0, 1)
}

// F22, F32, I9: a broker that takes a slow consumer for dead gives its messages to another one, and both work on them at
// once: also on those that fail.
func TestTwoWritersOfOneBatch(t *testing.T) { onBoth(t, testTwoWritersOfOneBatch) }

func testTwoWritersOfOneBatch(t *testing.T) {
	const rounds, sold, surplus = 10, 4, 2
	p := newPipeline(t, rounds*sold, 1)
	user, failed := id.ID(0), 0
	for round := range rounds {
		n := sold
		if round == rounds-1 { // SQL runs out in the last
			n += surplus
			p.overfill(t, surplus)
		}
		first := user + 1
		var bought []id.ID
		for range n {
			user++
			bought = append(bought, p.grab(t, user, "key-00000001"))
		}
		bodies, err := sqlqueue.Backlog(t.Context(), p.db.Read, order.TopicCreate)
		if err != nil {
			t.Fatal(err)
		}
		batch := make([]queue.Message, len(bodies))
		for i, b := range bodies {
			batch[i] = queue.Message{ID: fmt.Sprint(i), Body: b}
		}
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for _, v := range p.writer.Handle(t.Context(), batch) {
					if v != queue.Ack() {
						t.Errorf("%+v", v)
					}
				}
			})
		}
		wg.Wait()
		for i, orderID := range bought {
			switch st, reason := p.status(t, first+id.ID(i), orderID); {
			case st == order.Failed && reason == order.ReasonSoldOut:
				failed++
			case st != order.Unpaid:
				t.Fatal(st, reason)
			}
		}
		p.drain(t) // the same messages for a third time
	}
	for range 2 {
		if err := p.releaser.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if failed != surplus {
		t.Fatalf("%d failed", failed)
	}
	p.want(t, surplus, 0, 0, rounds*sold)
}
