package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tandian/test/history"
)

// together calls fn for 0…n-1, all at once.
func together(n int, fn func(i int)) {
	var wg sync.WaitGroup
	barrier := make(chan struct{})
	for i := range n {
		wg.Go(func() { <-barrier; fn(i) })
	}
	close(barrier)
	wg.Wait()
}

// F01, B7, D03: one buyer clicks a hundred times on two instances, with one key and then with others: it is one order,
// and whoever is refused is shown it. His clicks cost the others nothing: all remaining units go to them.
func TestOneBuyerClicksAHundredTimes(t *testing.T) {
	const stock = 100
	w := production(t)
	s := w.pair(t)
	saleID := s[0].newSale(t, s[0].signIn(t, operatorPhone), stock, 1)
	c := gather(t, s[0], saleID, stock)
	greedy := c.buyers[0]

	together(100, func(i int) { c.ask(s[i%2], greedy) })
	ops := c.Ops()
	for _, op := range ops {
		if op.Outcome != history.OK || op.OrderID != ops[0].OrderID {
			t.Errorf("the same key was told %s and %s %s %s", ops[0].OrderID, op.Outcome, op.OrderID, op.Code)
		}
	}
	together(100, func(i int) {
		other := *greedy
		other.key = fmt.Sprintf("again-%08d", i)
		if op := c.ask(s[i%2], &other); op.Code != "sale.limit_reached" || len(op.Named) != 1 || op.Named[0] != ops[0].OrderID {
			t.Errorf("another key: %+v", op)
		}
	})
	// Another buyer, all of whose keys are new.
	eager := c.buyers[1]
	together(100, func(i int) {
		wish := *eager
		wish.key = fmt.Sprintf("eager-%08d", i)
		c.ask(s[i%2], &wish)
	})
	each(len(c.buyers)-2, func(i int) {
		if op := c.ask(s[i%2], c.buyers[i+2]); op.Outcome != history.OK {
			t.Errorf("a unit is missing: %+v", op)
		}
	})
	if r := c.mustHold(w.db, afterAnInstance, s[:]...); len(c.Told()) != stock {
		t.Errorf("%d orders of %d units: %v", len(c.Told()), stock, r)
	}
}

// F02, B8: the reply is lost on the way. Whoever asks again with the same key gets the same order, on either instance,
// every time.
func TestALostReplyIsAskedForAgain(t *testing.T) {
	w := production(t)
	s := w.pair(t)
	c := gather(t, s[0], s[0].newSale(t, s[0].signIn(t, operatorPhone), 5, 1), 3)
	lossy := loseReplies(t, s[0])
	for _, b := range c.buyers {
		if op := c.ask(lossy, b); op.Outcome != history.Info {
			t.Fatalf("the reply was not lost: %+v", op)
		}
		first := c.ask(s[1], b)
		again := c.ask(s[0], b)
		if first.Outcome != history.OK || again.OrderID != first.OrderID {
			t.Errorf("asked again: %+v, %+v", first, again)
		}
	}
	c.mustHold(w.db, afterAnInstance, s[:]...)
}

// loseReplies is a way to an instance on which requests get through and replies don't.
func loseReplies(t *testing.T, s *server) *server {
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			if a, err := s.try(r.Method, r.URL.Path, r.Header.Get("Authorization"), string(body), "Idempotency-Key", r.Header.Get("Idempotency-Key")); err != nil || a.Status != 202 {
				t.Errorf("behind the proxy: %v %s", err, a.Text)
			}
		}
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(proxy.Close)
	return &server{URL: proxy.URL, log: s.log}
}

// F03: an instance is killed the moment its answer has been read. The other one knows the order.
func TestKilledRightAfterTheAnswer(t *testing.T) {
	const rounds = 5
	w := production(t)
	stays := w.launch(t, binary(t, ""), nil)
	c := gather(t, stays, stays.newSale(t, stays.signIn(t, operatorPhone), 2*rounds, 1), rounds)
	for _, b := range c.buyers {
		dies := w.launch(t, binary(t, ""), nil)
		op := c.insist(b, func(int) *server { return dies })
		dies.kill(t)
		if status, known := stays.shown(t.Context(), b.token, op.OrderID); op.Outcome != history.OK || !known || status == "" {
			t.Errorf("%+v is %q to the other instance", op, status)
		}
	}
	c.mustHold(w.db, afterAnInstance, stays)
}

// F04, I10: a sale begins and ends at the same instants wherever the instances believe to be, and whatever zone the
// database has by default (scripts/services gives it one of its own). The instants themselves are in the gate's
// contract; here nobody gets in a moment too early or too late while two instances are being stormed.
func TestTheWindowIsTheSameInAllZones(t *testing.T) {
	w := production(t)
	s := [2]*server{w.launch(t, binary(t, ""), []string{"TZ=UTC"}), w.launch(t, binary(t, ""), []string{"TZ=Asia/Shanghai"})}
	operator := s[0].signIn(t, operatorPhone)
	saleID := s[0].newSale(t, operator, 10_000, 1)
	c := gather(t, s[0], saleID, 1500)
	begin := time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
	end := begin.Add(500 * time.Millisecond)
	shanghai := time.FixedZone("", 8*3600)
	s[1].must(t, 200, "PATCH", "/api/v1/sales/"+saleID, operator, fmt.Sprintf(`{"beginsAt":%q,"endsAt":%q}`, begin.In(shanghai).Format(time.RFC3339Nano), end.UTC().Format(time.RFC3339Nano)))
	for i, instance := range s {
		got := instance.must(t, 200, "GET", "/api/v1/sales/"+saleID, "", "").Body
		for field, want := range map[string]time.Time{"beginsAt": begin, "endsAt": end} {
			if shown, err := time.Parse(time.RFC3339Nano, got[field].(string)); err != nil || !shown.Equal(want) {
				t.Errorf("instance %d shows %s %v, want %v", i+1, field, got[field], want)
			}
		}
	}
	var next atomic.Int64
	time.Sleep(time.Until(begin.Add(-300 * time.Millisecond)))
	together(4, func(client int) {
		for time.Now().Before(end.Add(100 * time.Millisecond)) {
			i := int(next.Add(1)) - 1
			if i >= len(c.buyers) {
				t.Error("not enough buyers for the time")
				return
			}
			c.ask(s[(i+client)%2], c.buyers[i])
			time.Sleep(2 * time.Millisecond)
		}
	})
	const skew = 2 * time.Millisecond // of a clock read before or after the request, in whole milliseconds
	codes := map[string]int{}
	for _, op := range c.Ops() {
		codes[string(op.Outcome)+" "+op.Code]++
		switch {
		case op.Code == "sale.not_started" && op.Start.Before(begin.Add(skew)):
		case op.Code == "sale.ended" && op.End.After(end.Add(-skew)):
		case op.Outcome == history.OK && op.End.After(begin.Add(-skew)) && op.Start.Before(end.Add(skew)):
		default:
			t.Errorf("%s %s at %v … %v after the begin", op.Outcome, op.Code, op.Start.Sub(begin), op.End.Sub(begin))
		}
	}
	if len(codes) != 3 {
		t.Errorf("the storm missed a part of the window: %v", codes)
	}
	c.mustHold(w.db, afterAnInstance, s[:]...)
}

// F05, F63, D02: a sale whose gate was never opened, or has lost its stock or everything, is rebuilt from SQL by the
// first buyers: once, however many they are and on however many instances. Nobody is told 500, and nobody that a sale
// with units left is sold out.
func TestAGateThatLostItsKeys(t *testing.T) {
	w := production(t)
	s := w.pair(t)
	operator := s[0].signIn(t, operatorPhone)
	if a := s[0].do(t, "POST", "/api/v1/sales/999999/orders", operator, ""); a.Status != 404 || a.Body["code"] != "sale.not_found" {
		t.Errorf("an unknown sale: %d %s", a.Status, a.Text)
	}
	for name, suffix := range map[string]string{"the stock": ":stock", "everything": ""} {
		t.Run(name, func(t *testing.T) {
			c := gather(t, s[0], s[0].newSale(t, operator, 150, 1), 200)
			each(50, func(i int) { c.ask(s[i%2], c.buyers[i]) })
			c.mustHold(w.db, afterAnInstance, s[:]...)
			keys, err := w.do(t, "KEYS", "*{sale:"+c.sale+"}*").AsStrSlice()
			if err != nil || len(keys) == 0 {
				t.Fatal(keys, err)
			}
			before := w.epoch(t, c.sale)
			w.do(t, append([]string{"DEL"}, matching(keys, suffix)...)...)
			together(100, func(i int) { c.insist(c.buyers[50+i], func(try int) *server { return s[(i+try)%2] }) })
			if loads := w.epoch(t, c.sale) - before; loads != 1 {
				t.Errorf("the gate was loaded %d times", loads)
			}
			each(50, func(i int) { // they hold their units as before, whatever the key
				again := *c.buyers[i]
				again.key = "after-the-loss"
				if op := c.ask(s[i%2], &again); op.Code != "sale.limit_reached" {
					t.Errorf("%+v", op)
				}
			})
			c.mustHold(w.db, afterAStore, s[:]...)
			if n := len(c.Told()); n != 150 {
				t.Errorf("%d orders of 150 units", n)
			}
		})
	}
}

func matching(keys []string, suffix string) (some []string) {
	for _, k := range keys {
		if strings.HasSuffix(k, suffix) {
			some = append(some, k)
		}
	}
	return some
}

// epoch counts how often a sale's gate has been loaded.
func (w *town) epoch(t *testing.T, saleID string) (n int64) {
	t.Helper()
	if err := w.db.Read.NewRaw(`SELECT epoch FROM sale WHERE id = ?`, saleID).Scan(t.Context(), &n); err != nil {
		t.Fatal(err)
	}
	return n
}
