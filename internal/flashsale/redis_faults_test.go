package flashsale_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tandian/internal/flashsale"
	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// F11: the script has run, and the reply is lost with the connection. The buyer gets the id under which he was admitted,
// one unit is taken, and his order is handed over at once.
func TestReplyOfTheGateIsLost(t *testing.T) {
	server := privateRedis(t, "redis")
	l := newLink(server.addr)
	w := newTown(t)
	p := w.process(t, l.option())
	p.open(t, 100, 1)
	sold := p.buy(t, 1, 1) // the server knows the script
	for user := range 5 {
		l.loseReplies("EVALSHA", 1)
		for user, orderID := range p.buy(t, 10+user, 1) {
			sold[user] = orderID
		}
	}
	st, err := p.gate.Standing(t.Context(), p.sale)
	if err != nil || st.Stock != 94 || st.Pending != 6 {
		t.Fatalf("%+v %v", st, err)
	}
	p.drain(t) // without a sweeper's help
	p.atRest(t, sold)

	l.loseReplies("EVALSHA", 1) // with whatever else is under way on the connection
	many := rush(t, 100, 50, p)
	if len(many) != 50 {
		t.Fatal(len(many))
	}
	p.drain(t)
	p.atRest(t, sold, many)

	l.loseReplies("EVALSHA", 2) // the second answer too: the buyer asks again himself
	if _, err := p.Grab(t.Context(), 200, p.sale, key(200)); !errors.Is(err, flashsale.ErrUnknown) {
		t.Fatal(err)
	}
	p.settle(t)
	again := p.buy(t, 200, 1)
	if st, err := p.gate.Standing(t.Context(), p.sale); err != nil || st.Stock != 43 {
		t.Fatalf("%+v %v", st, err)
	}
	p.atRest(t, sold, many, again)
}

// F12: the server has no memory left. Nothing is taken, and the buyer is told that there is no order.
func TestServerIsFull(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	p := w.process(t, newLink(server.addr).option())
	p.open(t, 10, 1)
	sold := p.buy(t, 1, 2)
	server.do(t, "CONFIG", "SET", "maxmemory", "1")
	t.Cleanup(func() { server.do(t, "CONFIG", "SET", "maxmemory", "0") })
	for range 3 {
		if _, err := p.Grab(t.Context(), 3, p.sale, key(3)); !errors.Is(err, flashsale.ErrBusy) {
			t.Fatal(err)
		}
	}
	if st, err := p.gate.Standing(t.Context(), p.sale); err != nil || !st.Loaded || st.Stock != 8 || st.Orders != 2 {
		t.Fatalf("%+v %v", st, err)
	}
	p.drain(t) // orders are written, the gate can't be told
	server.do(t, "CONFIG", "SET", "maxmemory", "0")
	more := p.buy(t, 3, 1)
	p.settle(t)
	p.atRest(t, sold, more)
}

// F68: no server is reached. Nothing is sold, what was accepted is looked up in SQL or not known for now, pages are
// served, and nothing is missing afterwards.
func TestServerIsDown(t *testing.T) {
	server := privateRedis(t, "redis")
	l := newLink(server.addr)
	w := newTown(t)
	p := w.process(t, l.option())
	p.open(t, 10, 1)
	written := p.buy(t, 1, 1)
	p.drain(t)
	queued := p.buy(t, 2, 1)
	l.turn(nowhere)
	for range 3 {
		if _, err := p.Grab(t.Context(), 3, p.sale, key(3)); !errors.Is(err, flashsale.ErrBusy) {
			t.Fatal("it is certain that there is no order:", err)
		}
	}
	if v, err := p.orders.Find(t.Context(), 1, written[1]); err != nil || v.Status != order.Unpaid {
		t.Fatal(v, err)
	}
	if _, err := p.orders.Find(t.Context(), 2, queued[2]); !errors.Is(err, order.ErrUnknown) {
		t.Fatal(err)
	}
	if sale, err := p.Sale(t.Context(), p.sale); err != nil || sale.StockLeft != 9 {
		t.Fatal("the page is served from SQL:", sale, err)
	}
	p.drain(t) // the gate is not told
	if v, err := p.orders.Find(t.Context(), 2, queued[2]); err != nil || v.Status != order.Unpaid {
		t.Fatal(v, err)
	}
	l.turn(server.addr)
	more := p.buy(t, 3, 1)
	p.settle(t)
	p.atRest(t, written, queued, more)
}

// F05: whoever asks for sales that don't exist leaves nothing behind.
func TestUnknownSalesAreNotRemembered(t *testing.T) {
	p := newTown(t).process(t, newLink(privateRedis(t, "redis").addr).option())
	for saleID := range id.ID(20) {
		if _, err := p.Grab(t.Context(), 1, 1000+saleID, key(1)); !errors.Is(err, voucher.ErrSaleNotFound) {
			t.Fatal(err)
		}
	}
	if n := p.gate.Remembered(); n != 0 {
		t.Fatalf("%d sales that don't exist are remembered", n)
	}
}

// F65: a change that is committed and can't be told to the gate is told within a turn of the sweeper, on any process.
func TestGateIsToldLate(t *testing.T) {
	server := privateRedis(t, "redis")
	l := newLink(server.addr)
	w := newTown(t)
	p, other := w.process(t, l.option()), w.process(t, newLink(server.addr).option())
	p.open(t, 10, 1)
	l.turn(nowhere)
	if _, err := p.SetPaused(t.Context(), p.sale, true); err == nil {
		t.Fatal("it must be told that the gate doesn't know")
	}
	if _, err := p.AddStock(t.Context(), p.sale, -1, "test"); !errors.Is(err, api.ErrAway) {
		t.Fatal("no word of an order to who takes stock away: ", err)
	}
	more, err := p.Open(t.Context(), p.voucher(t), 5, time.Now().Add(-time.Minute), time.Now().Add(time.Hour), 1)
	if err != nil || more.StockLeft != 5 {
		t.Fatalf("the sale is there, whether its gate is or not: %+v %v", more, err)
	}
	other.sweep(t)
	if _, err := other.Grab(t.Context(), 1, more.ID, key(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Grab(t.Context(), 1, p.sale, key(1)); !errors.Is(err, flashsale.ErrPaused) {
		t.Fatal(err)
	}
}

// F65: the end is moved to now, and the limit and the price change, while a crowd buys. Nobody is admitted by a call
// that began after the change was done, and what an order costs was fixed when it was admitted.
func TestTermsChangeDuringASale(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	one, two := w.process(t, newLink(server.addr).option()), w.process(t, newLink(server.addr).option())
	one.open(t, 1_000_000, 1)
	var done atomic.Bool // the change
	var mu sync.Mutex
	sold := map[id.ID]id.ID{}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				user := id.ID(next.Add(1))
				p := []*process{one, two}[user%2]
				after := done.Load()
				orderID, err := p.Grab(t.Context(), user, p.sale, key(user))
				switch {
				case err == nil && after:
					t.Error("accepted after the end was moved", user)
					return
				case err == nil:
					mu.Lock()
					sold[user] = orderID
					mu.Unlock()
				case errors.Is(err, flashsale.ErrEnded):
					return
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	enough := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(sold) >= n }
	}
	eventually(t, "some have bought", enough(100))
	if _, err := w.db.Write.Exec(`UPDATE voucher SET pay_value = 1`); err != nil { // past the check that refuses this
		t.Fatal(err)
	}
	limit := 2
	if _, err := one.Edit(t.Context(), w.sale, flashsale.Draft{Limit: &limit}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	told := len(sold)
	mu.Unlock()
	eventually(t, "more have bought", enough(told+100))
	end := time.Now()
	if _, err := two.Edit(t.Context(), w.sale, flashsale.Draft{EndsAt: &end}); err != nil {
		t.Fatal(err)
	}
	changed := time.Now()
	done.Store(true)
	wg.Wait()
	one.settle(t)
	one.atRest(t, sold)
	amounts := map[int64]int{}
	for user, orderID := range sold {
		v, err := one.orders.Find(t.Context(), user, orderID)
		if err != nil {
			t.Fatal(err)
		}
		if v.AdmittedAt > changed.UnixMilli() {
			t.Fatalf("I10: admitted %d ms after the change was done", v.AdmittedAt-changed.UnixMilli())
		}
		amounts[int64(v.Amount)]++
	}
	if amounts[4750] < 100 || amounts[1] < 100 || len(amounts) != 2 {
		t.Fatal("each pays the price at which he was admitted", amounts)
	}
}

// F64: units are added and taken away on two processes while both sell. The sum is exact.
func TestStockChangesDuringASale(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	one, two := w.process(t, newLink(server.addr).option()), w.process(t, newLink(server.addr).option())
	one.open(t, 50, 1)
	stop := one.write(t)
	var released atomic.Int64
	released.Store(50)
	var wg sync.WaitGroup
	for i, p := range []*process{one, two, one, two} {
		delta := []int64{5, 7, -3, -2}[i]
		wg.Go(func() {
			for range 10 {
				_, err := p.AddStock(t.Context(), p.sale, delta, "test")
				switch {
				case err == nil:
					released.Add(delta)
				case !errors.Is(err, flashsale.ErrStockShort):
					t.Error(err)
				}
			}
		})
	}
	sold := rush(t, 1, 400, one, two)
	wg.Wait()
	for user, orderID := range rush(t, 1001, 200, one, two) { // to the last piece
		sold[user] = orderID
	}
	stop()
	one.settle(t)
	live, failed := one.atRest(t, sold)
	offer, err := voucher.FindOffer(t.Context(), w.db, w.db.Read, w.sale)
	if err != nil || offer.StockReleased != released.Load() || int64(live) != released.Load() || failed != 0 || offer.Stock != 0 {
		t.Fatalf("released %d, %d live, %d failed, row %+v, %v", released.Load(), live, failed, offer, err)
	}
}

// Units that a process had set aside when it died come back.
func TestUnitsSetAsideComeBack(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	p := w.process(t, newLink(server.addr).option())
	p.open(t, 10, 1)
	if ok, err := p.gate.Withdraw(t.Context(), p.sale, 4); !ok || err != nil {
		t.Fatal(ok, err)
	}
	want := func(stock int64) {
		t.Helper()
		p.sweep(t)
		if st, err := p.gate.Standing(t.Context(), p.sale); err != nil || st.Stock != stock {
			t.Fatalf("%+v %v", st, err)
		}
	}
	want(6)
	w.ahead.Add(int64(29 * time.Second)) // a change may still be on its way
	want(6)
	w.ahead.Add(int64(2 * time.Second))
	want(10)
	want(10)
}

// S11: what a process knows costs the server nothing, and a unit that comes back is on sale everywhere within a second.
func TestRefusalsCostNothing(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	one, two := w.process(t, newLink(server.addr).option()), w.process(t, newLink(server.addr).option())
	open := func(begins, ends time.Duration) id.ID {
		t.Helper()
		sale, err := one.Open(t.Context(), one.voucher(t), 1, time.Now().Add(begins), time.Now().Add(ends), 1)
		if err != nil {
			t.Fatal(err)
		}
		return sale.ID
	}
	soldOut, ended, coming := open(-time.Minute, time.Hour), open(-time.Hour, -time.Minute), open(time.Hour, 2*time.Hour)
	w.sale = soldOut
	sold := one.buy(t, 1, 1)
	want := map[id.ID]error{soldOut: flashsale.ErrSoldOut, ended: flashsale.ErrEnded, coming: flashsale.ErrNotStarted}
	for _, p := range []*process{one, two} {
		for saleID, refusal := range want {
			eventually(t, "the process knows", func() bool {
				if _, err := p.Grab(t.Context(), 2, saleID, key(2)); !errors.Is(err, refusal) {
					t.Fatal(err)
				}
				_, ok := p.gate.Peek(saleID, 3)
				return ok
			})
		}
	}
	before := server.commands(t)
	for i := range 10_000 {
		saleID, user := []id.ID{soldOut, ended, coming}[i%3], id.ID(1000+i)
		if _, err := []*process{one, two}[i%2].Grab(t.Context(), user, saleID, key(user)); !errors.Is(err, want[saleID]) {
			t.Fatal(err)
		}
	}
	for range 10_000 { // he clicks again, where he has been answered
		if again, err := one.Grab(t.Context(), 1, soldOut, key(1)); err != nil || again != sold[1] {
			t.Fatal(again, err)
		}
	}
	if n := server.commands(t) - before; n != 0 {
		t.Fatalf("%d commands for 10,000 refusals and 10,000 repeats", n)
	}
	// A holder may have lost an answer: he is heard, elsewhere and with another key.
	asked := server.stats(t)["evalsha"]
	if again, err := two.Grab(t.Context(), 1, soldOut, key(1)); err != nil || again != sold[1] {
		t.Fatal(again, err)
	}
	if _, err := one.Grab(t.Context(), 1, soldOut, key(2)); !errors.Is(err, flashsale.ErrLimit) {
		t.Fatal(err)
	}
	if n := server.stats(t)["evalsha"] - asked; n != 2 {
		t.Fatalf("the gate was asked %d times by two who may hold something", n)
	}
	if err := one.Release(t.Context(), soldOut, sold[1], false); err != nil {
		t.Fatal(err)
	}
	returned := time.Now()
	eventually(t, "the unit is on sale at the other process", func() bool {
		_, err := two.Grab(t.Context(), 5, soldOut, key(5))
		if err != nil && !errors.Is(err, flashsale.ErrSoldOut) {
			t.Fatal(err)
		}
		return err == nil
	})
	if took := time.Since(returned); took > time.Second {
		t.Fatal("that took", took)
	}
}

// A sale whose units keep coming back and being sold again is not read each time: all its buyers are read.
func TestReadingASaleTakesATenthOfTheTime(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	p := w.process(t, newLink(server.addr).option())
	p.open(t, 1, 1)
	var ticks atomic.Int64 // a clock by which everything takes a second
	slow, err := flashsale.OpenRedisGate(newLink(server.addr).option(), func() time.Time {
		return time.Now().Add(time.Duration(ticks.Add(1)) * time.Second)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slow.Close)
	const rounds = 30
	before := server.stats(t)["hkeys"]
	for i := range id.ID(rounds) {
		for n, want := range []flashsale.Result{flashsale.Admitted, flashsale.SoldOut} {
			r := flashsale.Request{OrderID: 2*i + id.ID(n) + 1, UserID: 2*i + id.ID(n) + 1, RequestID: "a"}
			if v, err := slow.Admit(t.Context(), p.sale, r); err != nil || v.Result != want {
				t.Fatal(v, err)
			}
		}
		if err := slow.Release(t.Context(), p.sale, 2*i+1, false); err != nil {
			t.Fatal(err)
		}
	}
	if n := (server.stats(t)["hkeys"] - before) / 2; n == 0 || n > rounds/5 {
		t.Fatalf("the sale was read %d times in %d rounds", n, rounds)
	}
}

// Looking for an order or a buyer costs as many round trips with twenty sales as with one, and a sale whose keys are
// broken keeps nobody from the others.
func TestLookingIntoManySales(t *testing.T) {
	server := privateRedis(t, "redis")
	l := newLink(server.addr)
	w := newTown(t)
	p := w.process(t, l.option())
	var sales []id.ID
	for range 20 {
		sales = append(sales, p.open(t, 5, 1))
	}
	sold := p.buy(t, 1, 1)
	cost := func(look func()) int64 {
		look() // the scripts are known
		before := l.writes.Load()
		look()
		return l.writes.Load() - before
	}
	find := func(want bool) func() {
		return func() {
			t.Helper()
			if r, pending, err := p.gate.Find(t.Context(), sold[1]); err != nil || pending != want || (r != nil) != want {
				t.Fatal(r, pending, err)
			}
		}
	}
	waiting := func(want int) func() {
		return func() {
			t.Helper()
			if rs, err := p.gate.Waiting(t.Context(), 1); err != nil || len(rs) != want {
				t.Fatal(rs, err)
			}
		}
	}
	if n := cost(find(true)); n > 4 {
		t.Errorf("Find took %d sendings for 20 sales", n)
	}
	if n := cost(waiting(1)); n > 8 {
		t.Errorf("Waiting took %d sendings for 20 sales", n)
	}
	if n := cost(func() {
		if _, err := p.gate.Standings(t.Context(), sales); err != nil {
			t.Fatal(err)
		}
	}); n > 4 {
		t.Errorf("Standings took %d sendings for 20 sales", n)
	}
	for _, name := range []string{"orders", "buyers"} {
		server.do(t, "SET", fmt.Sprintf("{sale:%d}:%s", sales[3], name), "x")
	}
	find(true)()
	waiting(1)()
	server.do(t, "SET", fmt.Sprintf("{sale:%d}:stock", w.sale), "9999")
	find(true)() // it was admitted, whatever has become of the gate
	waiting(0)()
	if rs, err := p.gate.Waiting(t.Context(), 1, sales[0], sales[3]); err != nil || len(rs) != 0 {
		t.Fatal(rs, err)
	}
}
