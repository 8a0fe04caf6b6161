package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue/rabbit"
	"tandian/internal/order"
	"tandian/test/history"
)

// F10, D01: twenty times in one sale an instance dies when the gate has admitted a buyer and nothing has been sent.
// His unit isn't lost: it is his, under the same key, and everything is sold to the last piece.
func TestKilledBetweenGateAndQueue(t *testing.T) {
	const kills, stock, users = 20, 100, 130
	w := production(t)
	stays := w.launch(t, binary(t, ""), nil)
	c := gather(t, stays, stays.newSale(t, stays.signIn(t, operatorPhone), stock, 1), users)
	unlucky, others := c.buyers[:kills], c.buyers[kills:]
	for _, b := range unlucky {
		dies := w.launch(t, binary(t, "fault"), []string{"FAILPOINT=after_admit:kill"})
		if op := c.reach(dies, b); op.Outcome != history.Info {
			t.Errorf("the instance did not die: %+v", op)
		}
		<-dies.ended
	}
	each(len(others), func(i int) { c.insist(others[i], func(int) *server { return stays }) })
	for _, b := range unlucky {
		if op := c.insist(b, func(int) *server { return stays }); op.Outcome != history.OK {
			t.Errorf("the unit is gone: %+v", op)
		}
	}
	r := c.mustHold(w.db, afterAnInstance, stays)
	if len(c.Told()) != stock || r.Recovered < kills {
		t.Errorf("%d orders of %d units, want %d of them from the dead: %v", len(c.Told()), stock, kills, r)
	}
}

// F13, F18: the connections to the broker are cut under load, come back, and are cut again. Nobody is told "no order"
// and gets one, nobody is told an order that never comes.
func TestBrokerConnectionLost(t *testing.T) {
	const users, stock = 600, 400
	w := production(t)
	line, through := w.proxied(t, "rabbitmq")
	s := w.pair(t, through...)
	c := gather(t, s[0], s[0].newSale(t, s[0].signIn(t, operatorPhone), stock, 1), users)
	c.sample(w.db)
	r := c.rush(fixed(s[0]), fixed(s[1]))
	for range 2 {
		r.pass(users / 6)
		line.Stop()
		until(t, "buyers are refused", func() bool { return c.lately("sale.busy") })
		if err := line.Start(); err != nil {
			t.Fatal(err)
		}
	}
	r.wait()
	c.mustHold(w.db, afterAStore, s[:]...)
	if n := len(c.Told()); n != stock {
		t.Errorf("%d orders of %d units", n, stock)
	}
}

// lately reports whether the last answer has this code.
func (c *crowd) lately(code string) bool {
	ops := c.Ops()
	return len(ops) > 0 && ops[len(ops)-1].Code == code
}

// F16: the broker is frozen for longer than a buyer waits for its confirm, and then confirms late. Those buyers were
// told an order; they have it, and none has two.
func TestFrozenBroker(t *testing.T) {
	const users, stock = 300, 200
	w := production(t)
	s := w.pair(t)
	c := gather(t, s[0], s[0].newSale(t, s[0].signIn(t, operatorPhone), stock, 1), users)
	c.sample(w.db)
	r := c.rush(fixed(s[0]), fixed(s[1]))
	r.pass(users / 3)
	resume := w.pause(t, "rabbitmq")
	r.pass(clients) // some of these waited for the confirm in vain
	until(t, "confirms are late", func() bool { return s[0].metric(t, "tandian_handover_unknown_total") > 0 })
	resume()
	r.wait()
	c.mustHold(w.db, afterAStore, s[:]...)
	if n := len(c.Told()); n != stock {
		t.Errorf("%d orders of %d units", n, stock)
	}
}

// unbind takes the queue of orders from its exchange: what is published comes back, which is a definite refusal, until
// an instance has noticed and bound it again.
func (w *town) unbind(t *testing.T) {
	t.Helper()
	w.atRoute(t, order.TopicCreate, func(ch *amqp.Channel, r rabbit.Route) error {
		return ch.QueueUnbind(r.Queue, r.Key, r.Exchange, nil)
	})
}

// atRoute calls do for each route of a topic, with a channel of its own to the broker.
func (w *town) atRoute(t *testing.T, topic string, do func(*amqp.Channel, rabbit.Route) error) {
	t.Helper()
	conn, err := amqp.Dial(w.rabbit)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rabbit.Orders().Routes {
		if r.Topic != topic {
			continue
		}
		if err := do(ch, r); err != nil {
			t.Fatal(err)
		}
	}
}

// frozen waits until the process has stopped itself at a failpoint.
func (s *server) frozen(t *testing.T) {
	t.Helper()
	until(t, "the process freezes", func() bool {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(b), ") ") // the name is in parentheses
		return strings.HasPrefix(rest, "T")
	})
}

func (s *server) thaw(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// F19, I8: the hand-over is refused, the tombstone is written, and Redis can't be reached when it should get the unit
// back. The buyer is told that there is no order, and there is none; the unit comes back from its row once Redis does.
func TestRedisIsCutOffBeforeARelease(t *testing.T) {
	const stock = 3
	w := production(t)
	line, through := w.proxied(t, "redis")
	s := w.launch(t, binary(t, "fault"), []string{"FAILPOINT=after_admit:stop"}, through...)
	c := gather(t, s, s.newSale(t, s.signIn(t, operatorPhone), stock, 1), 2)
	var asking sync.WaitGroup
	asking.Go(func() { c.reach(s, c.buyers[0]) })
	s.frozen(t) // admitted
	admitted := time.Now()
	w.unbind(t)
	line.Stop()
	s.thaw(t)
	asking.Wait()
	for _, op := range c.Ops() {
		if op.Start.Before(admitted) && op.End.After(admitted) && op.Outcome != history.Fail {
			t.Errorf("the buyer was told %+v", op)
		}
	}
	var waiting int
	if err := w.db.Read.NewRaw(`SELECT COUNT(*) FROM gate_release`).Scan(t.Context(), &waiting); err != nil || waiting != 1 {
		t.Errorf("%d units wait to go back, %v", waiting, err)
	}
	if err := line.Start(); err != nil {
		t.Fatal(err)
	}
	c.mustHold(w.db, afterAStore, s)
	if i := s.inspect(t, s.operator(), c.sale); i.Gate.Stock != stock || i.DB.Failed != 1 {
		t.Errorf("the unit did not come back, or nothing was refused: %+v", i)
	}
	for _, b := range c.buyers { // the refused key may be used again
		if op := c.insist(b, func(int) *server { return s }); op.Outcome != history.OK {
			t.Errorf("%+v", op)
		}
	}
	c.mustHold(w.db, afterAStore, s)
}

// F80: an instance is frozen between gate and queue until long after the other one has sent its reservation again and
// the order is written. When it goes on, it sends the message a second time, or is even refused: neither changes a row
// or gives a unit back.
func TestStaleInstanceGivesNothingBack(t *testing.T) {
	const stock = 5
	w := production(t)
	stays := w.launch(t, binary(t, ""), nil)
	c := gather(t, stays, stays.newSale(t, stays.signIn(t, operatorPhone), stock, 1), 2)
	var stale [2]*server
	var asking sync.WaitGroup
	for i := range stale {
		stale[i] = w.launch(t, binary(t, "fault"), []string{"FAILPOINT=after_admit:stop"})
		asking.Go(func() { c.reach(stale[i], c.buyers[i]) })
	}
	for _, s := range stale {
		s.frozen(t)
	}
	for _, b := range c.buyers {
		op := c.insist(b, func(int) *server { return stays })
		until(t, "the other instance has the order written", func() bool {
			status, _ := stays.shown(t.Context(), b.token, op.OrderID)
			return status == "unpaid"
		})
	}
	stale[0].thaw(t)
	until(t, "the first goes on", func() bool { _, ok := stale[0].look(stays.operator(), c.sale); return ok })
	w.unbind(t)
	stale[1].thaw(t)
	asking.Wait()
	c.mustHold(w.db, afterAnInstance, stays, stale[0], stale[1])
	if i := stays.inspect(t, stays.operator(), c.sale); i.DB.Live != 2 || i.DB.Failed != 0 || i.Gate.Stock != stock-2 {
		t.Errorf("%+v", i)
	}
}
