package e2e

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue/rabbit"
	"tandian/internal/order"
)

// loseDelayed deletes the queues in which check messages wait, with all that is in them.
func (w *town) loseDelayed(t *testing.T) {
	t.Helper()
	lost := 0
	w.atRoute(t, order.TopicCheck, func(ch *amqp.Channel, r rabbit.Route) error {
		for _, level := range r.Levels {
			n, err := ch.QueueDelete(r.Delay+level.String(), false, false, false)
			if err != nil {
				return err
			}
			lost += n
		}
		return nil
	})
	if lost == 0 {
		t.Error("no check message was waiting")
	}
}

// F40, F41: the check messages are lost with their queues, and the instance that sold dies. Every order is closed all the
// same, none before its deadline and none later than 30 s after it; gate and SQL have all units back, and the same buyers
// buy them again.
func TestDeadlineWithoutMessages(t *testing.T) {
	const units = 40
	w := production(t)
	s := w.pair(t, "--pay-window", "8s")
	operator := s[0].signIn(t, operatorPhone)
	sale := s[0].newSale(t, operator, units, 1)
	tokens := s[0].testUsers(t, units)
	number := func(query string, args ...any) (n int) {
		t.Helper()
		if err := w.db.Read.NewRaw(query, args...).Scan(t.Context(), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	buy := func(s *server, rows int) {
		t.Helper()
		each(units, func(i int) {
			if a := s.do(t, "POST", "/api/v1/sales/"+sale+"/orders", tokens[i], ""); a.Status != 202 {
				t.Errorf("buyer %d: %d %s", i, a.Status, a.Text)
			}
		})
		until(t, "the orders have rows", func() bool { return number(`SELECT COUNT(*) FROM orders WHERE sale_id = ?`, sale) == rows })
	}
	buy(s[0], units)
	until(t, "the check messages are sent", func() bool { return number(`SELECT COUNT(*) FROM outbox`) == 0 })
	w.loseDelayed(t)
	s[0].kill(t)
	until(t, "all orders are closed", func() bool {
		return number(`SELECT COUNT(*) FROM orders WHERE sale_id = ? AND status = ?`, sale, order.Closed) == units
	})
	if n := number(`SELECT COUNT(*) FROM order_move AS m JOIN orders AS o ON o.id = m.order_id WHERE m.to_status = ? AND m.at BETWEEN o.pay_before AND o.pay_before + 30000`, order.Closed); n != units {
		t.Errorf("%d of %d orders were closed in time, once each", n, units)
	}
	until(t, "gate and SQL have the units back", func() bool {
		i := s[1].inspect(t, operator, sale)
		return i.AtRest && i.Gate.Stock == units && i.DB.Stock == units
	})
	buy(s[1], 2*units)
}

// W16, D12: to everybody but its buyer an order doesn't exist: whatever he tries, he hears the same of it as of an id that
// nobody has, and nothing happens to it.
func TestOrdersAreTheirBuyersOwn(t *testing.T) {
	s := start(t, binary(t, ""), t.TempDir(), "--demo")
	sale := s.newSale(t, s.signIn(t, operatorPhone), 10, 1)
	people := s.testUsers(t, 2)
	mine, people := people[0], append(people[1:], s.signIn(t, merchantPhone), s.signIn(t, shopperPhone))
	id := s.must(t, 202, "POST", "/api/v1/sales/"+sale+"/orders", mine, "").Body["orderId"].(string)
	until(t, "the order has a row", func() bool {
		return s.must(t, 200, "GET", "/api/v1/orders/"+id, mine, "").Body["status"] == "unpaid"
	})
	for _, op := range []string{"GET ", "GET /events", "POST /close", "POST /payments", "POST /refund"} {
		method, path, _ := strings.Cut(op, " ")
		body := ""
		if method == "POST" && path != "/close" {
			body = map[string]string{"/payments": `{"provider":"sandbox"}`, "/refund": `{}`}[path]
		}
		for i, token := range people {
			var heard [2]string
			for k, v := range []string{id, "1"} {
				a := s.do(t, method, "/api/v1/orders/"+v+path, token, body)
				heard[k] = fmt.Sprintf("%d %v %v", a.Status, a.Body["code"], a.Body["detail"])
			}
			if heard[0] != heard[1] || !strings.HasPrefix(heard[0], "404 order.not_found") {
				t.Errorf("person %d, %s: %q of the order, %q of none", i, op, heard[0], heard[1])
			}
		}
		if a := s.do(t, method, "/api/v1/orders/"+id+path, "", body); a.Status != 401 {
			t.Errorf("nobody, %s: %d", op, a.Status)
		}
	}
	if a := s.must(t, 200, "GET", "/api/v1/orders/"+id, mine, ""); a.Body["status"] != "unpaid" || len(a.Body["history"].([]any)) != 1 {
		t.Errorf("somebody did something to it: %s", a.Text)
	}
	if a := s.must(t, 200, "POST", "/api/v1/orders/"+id+"/close", mine, ""); a.Body["status"] != "closed" {
		t.Errorf("its buyer can't give it up: %s", a.Text)
	}
}
