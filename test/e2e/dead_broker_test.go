package e2e

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue/rabbit"
	"tandian/internal/order"
)

// checksWaiting counts the check messages in the broker, delayed ones included.
func (w *town) checksWaiting(t *testing.T) (n int) {
	t.Helper()
	w.atRoute(t, order.TopicCheck, func(ch *amqp.Channel, r rabbit.Route) error {
		queues := []string{r.Queue}
		for _, level := range r.Levels {
			queues = append(queues, r.Delay+level.String())
		}
		for _, name := range queues {
			q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil {
				return err
			}
			n += q.Messages
		}
		return nil
	})
	return n
}

// D09, F40: the broker dies with the check messages in it before the deadline and stays away until long after. Every order is
// closed meanwhile, none before its deadline and none later than 30 s after it; what the messages say when the broker is
// back again changes nothing.
func TestDeadlineWhileTheBrokerIsDead(t *testing.T) {
	const units = 30
	w := production(t)
	s := w.launch(t, binary(t, ""), nil, "--pay-window", "8s")
	operator := s.signIn(t, operatorPhone)
	sale := s.newSale(t, operator, units, 1)
	tokens := s.testUsers(t, units)
	number := func(query string, args ...any) (n int) {
		t.Helper()
		if err := w.db.Read.NewRaw(query, args...).Scan(t.Context(), &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	each(units, func(i int) {
		until(t, "the order is accepted", func() bool { return s.do(t, "POST", "/api/v1/sales/"+sale+"/orders", tokens[i], "").Status == 202 })
	})
	until(t, "the check messages are sent", func() bool {
		return number(`SELECT COUNT(*) FROM orders WHERE sale_id = ?`, sale) == units && number(`SELECT COUNT(*) FROM outbox`) == 0
	})
	if w.checksWaiting(t) == 0 {
		t.Error("no check message was waiting")
	}
	restart := w.kill(t, "rabbitmq")
	until(t, "all orders are closed", func() bool {
		return number(`SELECT COUNT(*) FROM orders WHERE sale_id = ? AND status = ?`, sale, order.Closed) == units
	})
	inTime := `SELECT COUNT(*) FROM order_move AS m JOIN orders AS o ON o.id = m.order_id WHERE m.to_status = ? AND m.at BETWEEN o.pay_before AND o.pay_before + 30000`
	if n := number(inTime, order.Closed); n != units {
		t.Errorf("%d of %d orders were closed in time", n, units)
	}
	restart()
	until(t, "the messages have come", func() bool { return w.checksWaiting(t) == 0 })
	until(t, "gate and SQL have the units back", func() bool {
		i, ok := s.look(operator, sale) // not before it has found the broker again
		return ok && i.AtRest && i.Gate.Stock == units && i.DB.Stock == units
	})
	if n := number(`SELECT COUNT(*) FROM order_move`); n != units {
		t.Errorf("%d moves of %d orders", n, units)
	}
}
