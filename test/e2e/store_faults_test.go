package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tandian/test/history"
)

// F24, F26: the database is killed in the middle of commits, twice, and restarted in order once, while a sale runs on
// two instances. Whether a commit got through is looked up, not guessed: nothing is lost and nothing is there twice,
// and no message becomes a dead letter for it.
func TestDatabaseKilledUnderLoad(t *testing.T) {
	const users, stock = 1200, 800
	w := production(t)
	s := w.pair(t)
	c := gather(t, s[0], s[0].newSale(t, s[0].signIn(t, operatorPhone), stock, 1), users)
	c.sample(w.db)
	r := c.rush(fixed(s[0]), fixed(s[1]))
	for range 2 {
		r.pass(users / 4)
		w.kill(t, "mariadb")()
	}
	r.pass(users / 4)
	w.must(t, "restart", "mariadb")
	r.wait()
	c.mustHold(w.db, afterAStore, s[:]...)
	if n := len(c.Told()); n != stock {
		t.Errorf("%d orders of %d units", n, stock)
	}
	var dead int
	if err := w.db.Read.NewRaw(`SELECT COUNT(*) FROM dead_letter`).Scan(t.Context(), &dead); err != nil || dead > 0 {
		t.Errorf("%d dead letters, %v", dead, err)
	}
}

// F68: Redis is silent for a while, and later gone altogether. Grabs are answered 503, pages for everybody go on, nobody
// is taken for a stranger; and when it is back, so is everything.
func TestRedisGone(t *testing.T) {
	const users, stock = 600, 400
	w := production(t)
	s := w.pair(t)
	c := gather(t, s[0], s[0].newSale(t, s[0].signIn(t, operatorPhone), stock, 1), users)
	shop := s[0].must(t, 200, "GET", "/api/v1/shops?limit=1", "", "").Body["items"].([]any)[0].(map[string]any)["id"].(string)

	resume := w.pause(t, "redis")
	c.withoutRedis(s[0], "/api/v1/sales/"+c.sale)
	resume()
	until(t, "whoever was signed in still is", func() bool {
		a := s[0].do(t, "GET", "/api/v1/me", c.buyers[0].token, "")
		if a.Status != 200 && a.Status != 503 {
			t.Fatalf("GET /me: %d %s", a.Status, a.Text)
		}
		return a.Status == 200
	})

	r := c.rush(fixed(s[0]), fixed(s[1]))
	r.pass(users / 6)
	restart := w.kill(t, "redis")
	for _, instance := range s {
		c.withoutRedis(instance, "/", "/api/v1/time", "/api/v1/categories", "/api/v1/shops", "/api/v1/shops/"+shop, "/api/v1/shops/"+shop+"/vouchers",
			"/api/v1/sales", "/api/v1/sales/"+c.sale)
	}
	restart()
	r.wait()
	c.mustHold(w.db, afterAStore, s[:]...)
	if n := len(c.Told()); n != stock {
		t.Errorf("%d orders of %d units", n, stock)
	}
	s[1].must(t, 200, "GET", "/api/v1/me", c.buyers[0].token, "")
}

// withoutRedis checks what an instance answers that has lost its Redis: public pages all the same, and whoever asks for
// himself that this can't be told now.
func (c *crowd) withoutRedis(s *server, pages ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	token := c.buyers[0].token
	for _, path := range []string{"/api/v1/me", "/api/v1/orders"} {
		until(c.t, "what is still known of the session is forgotten", func() bool {
			a, err := s.request(ctx, "GET", path, token, "")
			if err != nil || a.Status != 200 && a.Status != 503 {
				c.t.Fatalf("GET %s: %d %s %v", path, a.Status, a.Text, err)
			}
			return a.Status == 503
		})
	}
	for _, path := range pages {
		for _, token := range []string{"", token} {
			began := time.Now()
			a, err := s.request(ctx, "GET", path, token, "")
			if took := time.Since(began); err != nil || a.Status != 200 || took > answerWithin {
				c.t.Errorf("GET %s: %d %.200s %v after %v", path, a.Status, a.Text, err, took)
			}
		}
	}
	wish := *c.buyers[0]
	wish.key = "without-redis"
	if op := c.ask(s, &wish); !slices.Contains([]string{"auth.unknown", "sale.unknown", "sale.busy"}, op.Code) {
		c.t.Errorf("a grab: %+v", op)
	}
}

// F20: the broker is killed with a backlog in its queue. Meanwhile every order is shown as queued and whoever comes new
// is refused; an instance that starts now waits for it. When it is back, all orders are written.
func TestBrokerKilledWithABacklog(t *testing.T) {
	const users, stock = 500, 1000
	w := production(t)
	entry := w.launch(t, binary(t, ""), nil, "--writers", "0")
	c := gather(t, entry, entry.newSale(t, entry.signIn(t, operatorPhone), stock, 1), users+1)
	late := c.buyers[users]
	each(users, func(i int) { c.insist(c.buyers[i], func(int) *server { return entry }) })
	restart := w.kill(t, "rabbitmq")
	until(t, "the loss is noticed", func() bool { return c.ask(entry, late).Code == "sale.busy" })
	writes := w.launch(t, binary(t, ""), nil)
	for _, op := range c.Told() {
		if status, known := writes.shown(t.Context(), c.buyers[0].token, op.OrderID); op.User == c.buyers[0].id && (!known || status != "queued") {
			t.Errorf("order %s is %q while it waits", op.OrderID, status)
		}
	}
	restart()
	if op := c.insist(late, func(int) *server { return entry }); op.Outcome != history.OK {
		t.Errorf("%+v", op)
	}
	c.mustHold(w.db, afterAStore, entry, writes)
	if n := len(c.Told()); n != users+1 {
		t.Errorf("%d orders of %d buyers", n, users+1)
	}
}

// F76: all three stores are killed at once under load and come back in the order of their own slowness.
func TestAllStoresKilled(t *testing.T) {
	const users, stock = 400, 300
	w := production(t)
	s := w.pair(t)
	c := gather(t, s[0], s[0].newSale(t, s[0].signIn(t, operatorPhone), stock, 1), users)
	c.sample(w.db)
	r := c.rush(fixed(s[0]), fixed(s[1]))
	r.pass(users / 3)
	var restarting sync.WaitGroup
	for _, name := range []string{"redis", "mariadb", "rabbitmq"} {
		restart := w.kill(t, name)
		restarting.Go(restart)
	}
	restarting.Wait()
	r.wait()
	c.mustHold(w.db, afterAStore, s[:]...)
	if n := len(c.Told()); n != stock {
		t.Errorf("%d orders of %d units", n, stock)
	}
	for i, instance := range s {
		if strings.Contains(instance.log.String(), "worker ended, starting it again") {
			t.Errorf("a worker of instance %d fell over", i+1)
		}
	}
}
