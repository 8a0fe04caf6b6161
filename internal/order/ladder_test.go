package order_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// climber is a town whose check messages the test delivers, each when its time has come.
type climber struct {
	*town
	forwarder *order.Forwarder
	begun     int64
}

func newClimber(t *testing.T, db *store.DB) *climber {
	w := newTown(t, db, 100, 1)
	return &climber{town: w, forwarder: &order.Forwarder{DB: db, Broker: w.broker}, begun: w.ms.Load()}
}

// next waits for the check message that is due next, has it handled, and returns when that was.
func (c *climber) next(t *testing.T) time.Duration {
	t.Helper()
	due := c.number(t, `SELECT MIN(visible_at) FROM queue_message WHERE topic = ?`, order.TopicCheck)
	c.ms.Store(due - 1)
	if n := c.deliver(t); n != 0 {
		t.Fatalf("%d messages came early", n)
	}
	c.ms.Store(due)
	if n := c.deliver(t); n != 1 {
		t.Fatalf("%d messages, want 1", n)
	}
	return time.Duration(due-c.begun) * time.Millisecond
}

// deliver handles the messages that are due and returns how many there were.
func (c *climber) deliver(t *testing.T) (n int) {
	t.Helper()
	for c.number(t, `SELECT COUNT(*) FROM queue_message WHERE topic = ? AND visible_at <= ?`, order.TopicCheck, c.ms.Load()) > 0 {
		ctx, stop := context.WithCancel(t.Context())
		must(t, c.broker.Consume(ctx, order.TopicCheck, queue.Batch{Max: 16}, func(ctx context.Context, batch []queue.Message) []queue.Verdict {
			defer stop()
			n += len(batch)
			return c.checker.Handle(context.WithoutCancel(ctx), batch)
		}))
		stop()
	}
	return n
}

// P2: one message a batch of the writer's climbs the ladder: the checks ask for lost payments, and what is left at the
// deadline is closed then.
func TestLadder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newClimber(t, db)
		var ids []id.ID
		for user := range id.ID(5) {
			got, err := c.sales.Grab(t.Context(), user+1, c.sale, "key-of-buyer")
			must(t, err)
			ids = append(ids, got)
			c.till.set(got, open)
		}
		c.write(t)
		must(t, c.forwarder.Turn(t.Context()))
		if n := c.number(t, `SELECT COUNT(*) FROM queue_message WHERE topic = ?`, order.TopicCheck); n != 1 {
			t.Fatalf("%d check messages of one batch", n)
		}
		c.till.set(ids[0], paid)
		if at := c.next(t); at != 10*time.Second || c.till.questions() != 5 || c.status(t, ids[0]) != order.Paid {
			t.Fatalf("after %v, %d questions, %v", at, c.till.questions(), c.status(t, ids[0]))
		}
		must(t, func() error {
			_, err := c.closer.Close(t.Context(), ids[1], order.ReasonBuyer, order.System)
			return err
		}())
		asked := c.till.questions()
		for i, want := range []time.Duration{40 * time.Second, 100 * time.Second, 280 * time.Second, 880 * time.Second} {
			if at := c.next(t); at != want || c.till.questions() != asked+3*(i+1) {
				t.Fatalf("after %v, want %v; %d questions", at, want, c.till.questions()-asked)
			}
			if n := c.number(t, `SELECT MIN(check_index) FROM pay_check WHERE order_id IN (?, ?, ?)`, ids[2], ids[3], ids[4]); n != int64(i+2) {
				t.Errorf("check_index %d, want %d", n, i+2)
			}
		}
		if at := c.next(t); at != payWindow {
			t.Fatalf("the last after %v, want the deadline", at)
		}
		for i, v := range ids {
			if want := []order.Status{order.Paid, order.Closed, order.Closed, order.Closed, order.Closed}[i]; c.status(t, v) != want {
				t.Errorf("order %d is %v, want %v", i, c.status(t, v), want)
			}
		}
		if n := c.number(t, `SELECT COUNT(*) FROM queue_message WHERE topic = ?`, order.TopicCheck); n != 0 {
			t.Errorf("%d messages left", n)
		}
		c.mustBalance(t, 100)
	})
}

// A message that comes again doesn't make a second ladder, however often it comes, and one whose handling failed in the
// middle is made good.
func TestLadderRepeats(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newClimber(t, db)
		c.buy(t, 1)
		must(t, c.forwarder.Turn(t.Context()))
		first := c.checkMessages(t)[0]
		down := errors.New("no broker")
		c.broker.OnPublish(func(func() error) error { return down })
		ended, end := context.WithCancel(t.Context())
		end() // else a failure is paused for
		if v := c.checker.Handle(ended, []queue.Message{first}); v[0] != (queue.Verdict{}) {
			t.Errorf("%+v, want a requeue", v)
		}
		c.broker.OnPublish(nil)
		for range 3 {
			if v := c.checker.Handle(t.Context(), []queue.Message{first}); v[0] != queue.Ack() {
				t.Errorf("%+v, want an ack", v)
			}
		}
		if n := len(c.checkMessages(t)); n != 2 {
			t.Errorf("%d messages, want the first and one more", n)
		}
	})
}

func (c *climber) checkMessages(t *testing.T) (list []queue.Message) {
	t.Helper()
	var rows []struct {
		MessageID string
		Body      []byte
	}
	must(t, c.db.Read.NewSelect().Table("queue_message").Column("message_id", "body").Where("topic = ?", order.TopicCheck).Order("id").Scan(t.Context(), &rows))
	for _, r := range rows {
		list = append(list, queue.Message{ID: r.MessageID, Body: r.Body})
	}
	return list
}

// What is no check message becomes a dead letter; what names strange orders does nothing.
func TestUnreadableCheck(t *testing.T) {
	c := newClimber(t, storetest.SQLite(t))
	bought := c.buy(t, 1)
	for _, body := range []string{"", "{}", `{"v":2,"msgId":"m","orderIds":["1"]}`, `{"v":1,"msgId":"m","orderIds":[]}`, `{"v":1,"msgId":"m","orderIds":["1"],"checkIndex":-1}`, `{"v":1,"orderIds":["1"]}`} {
		v := c.checker.Handle(t.Context(), []queue.Message{{ID: "x", Body: []byte(body)}})
		if slices.Contains(v, queue.Ack()) || v[0] == (queue.Verdict{}) {
			t.Errorf("%s: %+v", body, v)
		}
	}
	body, err := json.Marshal(map[string]any{"v": 1, "msgId": "m", "orderIds": []string{"99999999", bought.String()}, "checkIndex": 1 << 30})
	must(t, err)
	if v := c.checker.Handle(t.Context(), []queue.Message{{ID: "x", Body: body}}); v[0] != queue.Ack() || c.status(t, bought) != order.Unpaid {
		t.Errorf("%+v, %v", v, c.status(t, bought))
	}
	if next := c.checkMessages(t); len(next) != 1 || !strings.Contains(string(next[0].Body), bought.String()) || strings.Contains(string(next[0].Body), "99999999") {
		t.Errorf("%+v", next)
	}
}
