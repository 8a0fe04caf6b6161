package e2e

import (
	"sync/atomic"
	"testing"
	"time"
)

// Two instances on the same stores sell one sale; one is killed in the middle of it and comes back. Whoever got no
// answer asks the other instance with the same key. Every id that was told resolves on both, to its owner only (S14,
// F03, F10, F62).
func TestTwoInstancesAndAKill(t *testing.T) {
	const users, stock = 500, 300
	w := production(t)
	first, second := w.launch(t, binary(t, ""), nil), w.launch(t, binary(t, ""), nil)
	saleID := first.newSale(t, first.signIn(t, operatorPhone), stock, 1)
	c := gather(t, second, saleID, users)
	c.sample(w.db)
	c.watchGate(fixed(second))
	var comesBack atomic.Pointer[server]
	comesBack.Store(first)
	r := c.rush(comesBack.Load, fixed(second))
	r.pass(users / 3)
	first.kill(t)
	r.pass(users / 3)
	first = w.launch(t, binary(t, ""), nil)
	comesBack.Store(first)
	r.wait()
	c.mustHold(w.db, afterAnInstance, first, second)
	told := c.Told()
	if len(told) != stock {
		t.Errorf("%d ids were told, of %d units", len(told), stock)
	}
	for i, op := range told {
		stranger := c.buyers[i%users]
		if stranger.id == op.User {
			stranger = c.buyers[(i+1)%users]
		}
		if got := first.do(t, "GET", "/api/v1/orders/"+op.OrderID, stranger.token, ""); got.Status != 404 {
			t.Errorf("somebody else sees order %s: %d", op.OrderID, got.Status)
		}
	}

	// A4: a sign-out on one instance bites on the other within a second.
	token := c.buyers[0].token
	first.must(t, 204, "DELETE", "/api/v1/auth/sessions/current", token, "")
	began := time.Now()
	until(t, "the other instance knows of the sign-out", func() bool { return second.do(t, "GET", "/api/v1/me", token, "").Status == 401 })
	if took := time.Since(began); took > time.Second {
		t.Errorf("a sign-out took %v to reach the other instance", took)
	}
	for _, s := range []*server{first, second} {
		if err := s.stop(t); err != nil {
			t.Errorf("ended with %v\n%s", err, s.log)
		}
	}
}
