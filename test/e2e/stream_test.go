package e2e

import (
	"slices"
	"sync/atomic"
	"testing"
)

// streaming turns a town to the queue in Redis; its instances know of no RabbitMQ.
func (w *town) streaming(t *testing.T) *town {
	t.Helper()
	i := slices.Index(w.flags, "--rabbitmq-url")
	w.flags = append(slices.Delete(slices.Clone(w.flags), i, i+2), "--broker", "stream")
	return w
}

// S8: two instances sell a sale by Redis Streams alone. One is killed in the middle of it, then Redis, which comes
// back with its append-only file, then the instance comes back. What the dead left is taken over, nothing that was told
// is lost (F20, F21, B5).
func TestStreamsWithoutRabbitMQ(t *testing.T) {
	const users, stock = 600, 400
	w := production(t).streaming(t)
	first, second := w.launch(t, binary(t, ""), nil), w.launch(t, binary(t, ""), nil)
	saleID := first.newSale(t, first.signIn(t, operatorPhone), stock, 1)
	c := gather(t, second, saleID, users)
	c.sample(w.db)
	var comesBack atomic.Pointer[server]
	comesBack.Store(first)
	r := c.rush(comesBack.Load, fixed(second))
	r.pass(users / 4)
	first.kill(t)
	r.pass(users / 8)
	w.must(t, "kill", "redis")
	w.must(t, "restart", "redis")
	first = w.launch(t, binary(t, ""), nil)
	comesBack.Store(first)
	r.wait()
	c.mustHold(w.db, afterAStore, first, second)
	if told := c.Told(); len(told) != stock {
		t.Errorf("%d ids were told, of %d units", len(told), stock)
	}
	for _, s := range []*server{first, second} {
		if err := s.stop(t); err != nil {
			t.Errorf("ended with %v\n%s", err, s.log)
		}
	}
}
