package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"tandian/internal/kit/store"
	"tandian/test/history"
)

// crowd are the buyers of one sale. What they ask and are told goes on record.
type crowd struct {
	*history.History
	t      *testing.T
	sale   string
	buyers []*buyer

	looks sync.Map // order id → *sync.Mutex, held while somebody looks at the order
}

// buyer is a signed-in user with one wish.
type buyer struct{ token, id, key string }

// gather makes n buyers for a sale.
func gather(t *testing.T, s *server, saleID string, n int) *crowd {
	t.Helper()
	c := &crowd{History: &history.History{}, t: t, sale: saleID, buyers: make([]*buyer, n)}
	tokens := s.testUsers(t, n)
	each(n, func(i int) {
		b := &buyer{token: tokens[i], key: fmt.Sprintf("wish-%08d", i)}
		a, err := s.try("GET", "/api/v1/me", b.token, "")
		b.id, _ = a.Body["id"].(string)
		if err != nil || b.id == "" {
			t.Errorf("GET /me: %v %s", err, a.Text)
		}
		c.buyers[i] = b
	})
	if t.Failed() {
		t.FailNow()
	}
	return c
}

// clients are how many requests a crowd has under way.
const clients = 16

// each calls fn for 0…n-1, several at a time.
func each(n int, fn func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	for range min(clients, n) {
		wg.Go(func() {
			for i := range next {
				fn(i)
			}
		})
	}
	wg.Wait()
}

// answerWithin is how long a buyer waits before he takes a request for lost.
const answerWithin = 5 * time.Second

// ask sends one request. Its answer is on record; so is what the buyer is shown of an order that he was told.
func (c *crowd) ask(s *server, b *buyer) history.Op {
	op := history.Op{User: b.id, Sale: c.sale, RequestID: b.key, Start: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	a, _ := s.request(ctx, "POST", "/api/v1/sales/"+c.sale+"/orders", b.token, "", "Idempotency-Key", b.key)
	op.End = time.Now()
	op.Read(a.Status, []byte(a.Text))
	c.Add(op)
	if a.Status == 500 {
		c.t.Errorf("an answer of 500: %s", a.Text)
	}
	if op.Outcome == history.OK && !s.forgetful {
		c.look(s, b.token, op.OrderID)
	}
	return op
}

// look puts on record what an order's owner is shown of it, and reports whether he got an answer. Of those who look at the
// same one each waits for the one before him: of looks side by side nobody could say which came first.
func (c *crowd) look(s *server, token, orderID string) bool {
	turn, _ := c.looks.LoadOrStore(orderID, &sync.Mutex{})
	turn.(*sync.Mutex).Lock()
	defer turn.(*sync.Mutex).Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	status, known := s.shown(ctx, token, orderID)
	if known {
		c.See(history.Sighting{OrderID: orderID, Status: status, By: s.URL, At: time.Now()})
	}
	return known
}

// shown is the status of an order as its owner is shown it, "" if it isn't found. It isn't known if there was no such
// answer.
func (s *server) shown(ctx context.Context, token, orderID string) (status string, known bool) {
	a, err := s.request(ctx, "GET", "/api/v1/orders/"+orderID, token, "")
	switch {
	case err != nil || a.Status != 200 && a.Status != 404:
		return "", false
	case a.Status == 404:
		return "", true
	}
	status, known = a.Body["status"].(string)
	return status, known
}

// doors says where a buyer turns to at each of his tries.
type doors func(try int) *server

// insist asks until the answer is final, each time at the next door.
func (c *crowd) insist(b *buyer, door doors) history.Op {
	deadline := time.Now().Add(patience)
	for try := 0; ; try++ {
		op := c.ask(door(try), b)
		if op.Final() {
			return op
		}
		if time.Now().After(deadline) {
			c.t.Errorf("%s of user %s has no final answer after %v: %s %s", b.key, b.id, patience, op.Outcome, op.Code)
			return op
		}
		time.Sleep(20 * time.Millisecond) // as a browser waits before it asks again
	}
}

// reach asks an instance that may not have found the broker yet, and returns the first answer that isn't for that.
func (c *crowd) reach(s *server, b *buyer) history.Op {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if op := c.ask(s, b); op.Code != "sale.busy" || time.Now().After(deadline) {
			return op
		}
	}
}

// rush is a crowd on the run.
type rush struct {
	crowd   *crowd
	settled chan struct{} // a token for each buyer with a final answer
	done    chan struct{}
}

// rush lets all buyers at the sale. Each turns to the doors in his own order.
func (c *crowd) rush(instances ...func() *server) *rush {
	r := &rush{crowd: c, settled: make(chan struct{}, len(c.buyers)), done: make(chan struct{})}
	go func() {
		defer close(r.done)
		each(len(c.buyers), func(i int) {
			c.insist(c.buyers[i], func(try int) *server { return instances[(i+try)%len(instances)]() })
			r.settled <- struct{}{}
		})
	}()
	c.t.Cleanup(r.wait)
	return r
}

// pass waits until so many more buyers have their answers.
func (r *rush) pass(n int) {
	for range n {
		select {
		case <-r.settled:
		case <-r.done:
			return
		}
	}
}

func (r *rush) wait() { <-r.done }

// fixed is a door that is always the same.
func fixed(s *server) func() *server { return func() *server { return s } }

// sample looks into the database all the time until stop is called: nothing may be sold twice at any moment. A look
// that fails, because the database is being killed, is none.
func (c *crowd) sample(db *store.DB) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for tick := time.NewTicker(20 * time.Millisecond); ; {
			s := history.Sample{Sale: c.sale, At: time.Now()}
			err := db.Read.NewRaw(`SELECT stock_released, stock, (SELECT COUNT(*) FROM orders WHERE sale_id = sale.id AND slot IS NOT NULL) FROM sale WHERE id = ?`, c.sale).
				Scan(ctx, &s.Released, &s.Stock, &s.Live)
			if err == nil {
				c.Look(s)
			}
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	c.t.Cleanup(stop)
	return stop
}

// watchGate looks at the gate all the time until the test ends: in a sale from which nothing comes back, it never offers
// more units than the orders leave (F62).
func (c *crowd) watchGate(door func() *server) {
	operator := door().operator()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			// It is asked for the orders first and for the gate afterwards.
			if i, ok := door().look(operator, c.sale); ok && i.Gate.Loaded && i.Gate.Stock > i.Released-i.DB.Live {
				c.t.Errorf("the gate offers too much: %+v", i)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

// How long it may take until all is at rest after a fault (B5).
const (
	afterAnInstance = 30 * time.Second
	afterAStore     = 60 * time.Second
)

// judge waits, for at most bound, until the sale is at rest for all the instances, asks each of them in the name of the
// owners for all orders that were told, and judges.
func (c *crowd) judge(db *store.DB, bound time.Duration, instances ...*server) *history.Report {
	c.t.Helper()
	began := time.Now()
	w := history.World{Bound: bound}
	last := c.rest(began.Add(bound), instances)
	w.Rest = time.Since(began)
	if err := w.ReadSale(c.t.Context(), db, c.sale); err != nil {
		c.t.Fatal(err)
	}
	sale := w.Sales[c.sale]
	sale.Gate, sale.Held, sale.AtRest = last.Gate.Stock, last.Gate.Orders, last.AtRest
	w.Sales[c.sale] = sale
	owners, told := c.owners(), c.Told()
	var mu sync.Mutex // guards w.Shown
	for _, s := range instances {
		each(len(told), func(i int) {
			status, known := s.shown(c.t.Context(), owners[told[i].User].token, told[i].OrderID)
			if !known {
				status = "no answer"
			}
			mu.Lock()
			defer mu.Unlock()
			if earlier, ok := w.Shown[told[i].OrderID]; !ok || earlier == w.Rows[told[i].OrderID].Status { // keep one that is wrong
				w.Shown[told[i].OrderID] = status
			}
		})
	}
	return history.Check(c.History, w)
}

// rest returns the sale as the last instance sees it, at rest or not. Two looks in a row must agree. A gate that waits
// for somebody to need it, after a loss, is not at rest: a buyer repeats his question.
func (c *crowd) rest(deadline time.Time, instances []*server) (last inspection) {
	c.t.Helper()
	operator := ""
	for quiet := 0; quiet < 2; {
		if time.Now().After(deadline) {
			for i, s := range instances {
				a, err := s.try("GET", "/api/v1/console/sales/"+c.sale, operator, "")
				c.t.Logf("instance %d sees no rest: %s %v", i+1, a.Text, err)
			}
			last.AtRest = false
			return last
		}
		time.Sleep(20 * time.Millisecond)
		if operator == "" {
			operator = instances[0].operator()
		}
		atRest := true
		for _, s := range instances {
			i, ok := s.look(operator, c.sale)
			if ok && !i.Gate.Loaded {
				c.ask(s, c.buyers[0])
			}
			atRest = atRest && ok && i.AtRest && i.Gate.Loaded
			last = i
		}
		quiet++
		if !atRest {
			quiet = 0
		}
	}
	return last
}

// operator signs the operator in; "" = not now.
func (s *server) operator() string {
	a, _ := s.try("POST", "/api/v1/auth/sessions", "", fmt.Sprintf(`{"phone":%q,"password":"tandian-demo"}`, operatorPhone))
	token, _ := a.Body["token"].(string)
	return token
}

// look is inspect for an instance that may have trouble.
func (s *server) look(operator, saleID string) (i inspection, ok bool) {
	a, err := s.try("GET", "/api/v1/console/sales/"+saleID, operator, "")
	return i, err == nil && a.Status == 200 && json.Unmarshal([]byte(a.Text), &i) == nil
}

// owners finds buyers by their user ids.
func (c *crowd) owners() map[string]*buyer {
	owners := map[string]*buyer{}
	for _, b := range c.buyers {
		owners[b.id] = b
	}
	return owners
}

// mustHold judges and fails the test if a promise was broken. It returns the report for what else a test expects.
func (c *crowd) mustHold(db *store.DB, bound time.Duration, instances ...*server) *history.Report {
	c.t.Helper()
	r := c.judge(db, bound, instances...)
	if len(r.Violations) > 0 {
		for i, s := range instances {
			c.t.Logf("instance %d ends:\n%s", i+1, tail(s.log.String()))
		}
		c.t.Fatalf("broken promises: %v", r)
	}
	c.t.Log(r)
	return r
}

// tail is the end of a log.
func tail(text string) string { return text[max(0, len(text)-4<<10):] }
