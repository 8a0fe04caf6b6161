package order_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// turn runs a worker once.
func (w *town) scan(t testing.TB) {
	t.Helper()
	must(t, w.closer.Turn(t.Context()))
}

// mustBalance checks that gate, stock and live orders agree when nothing is under way.
func (w *town) mustBalance(t testing.TB, released int64) {
	t.Helper()
	must(t, w.releaser.Turn(t.Context()))
	live := w.number(t, `SELECT COUNT(*) FROM orders WHERE sale_id = ? AND slot IS NOT NULL`, w.sale)
	if got := w.stock(t) + live; got != released {
		t.Errorf("stock %d and %d live orders make %d, want %d", w.stock(t), live, got, released)
	}
	if n := w.number(t, `SELECT COUNT(*) FROM gate_release`); n != 0 {
		t.Errorf("%d releases wait", n)
	}
	v, err := w.sales.Sale(t.Context(), w.sale)
	must(t, err)
	if v.StockLeft != w.stock(t) {
		t.Errorf("the gate has %d units, SQL %d", v.StockLeft, w.stock(t))
	}
}

// F40, P3: with every delayed message thrown away, the scan alone closes all orders: none before its deadline, each at
// most 30 s after it.
func TestDeadlineByTheScanAlone(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 100, 1)
		w.broker.SetForgetful(true)
		forwarder := &order.Forwarder{DB: db, Broker: w.broker}
		var ids []id.ID
		for user := range id.ID(30) {
			ids = append(ids, w.buy(t, user+1))
			w.advance(time.Second)
		}
		must(t, forwarder.Turn(t.Context()))
		if n := w.number(t, `SELECT COUNT(*) FROM queue_message WHERE topic = ?`, order.TopicCheck); n != 0 {
			t.Fatalf("%d check messages were kept", n)
		}
		closedAt := map[id.ID]int64{}
		for len(closedAt) < len(ids) {
			w.scan(t)
			for _, v := range ids {
				deadline := w.number(t, `SELECT pay_before FROM orders WHERE id = ?`, v)
				if w.status(t, v) == order.Closed && closedAt[v] == 0 {
					closedAt[v] = w.ms.Load()
				}
				if at := closedAt[v]; at != 0 && (at < deadline || at > deadline+30_000) {
					t.Fatalf("closed %d ms after the deadline", at-deadline)
				}
				if closedAt[v] == 0 && w.ms.Load() > deadline+30_000 {
					t.Fatal("still open 30 s after the deadline")
				}
			}
			w.advance(order.CloseEvery)
		}
		w.mustBalance(t, 100)
	})
}

// At its very deadline an order is closed, a millisecond before it isn't, whichever way the question comes up.
func TestDeadlineToTheMillisecond(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 10, 1)
		bought := w.buy(t, 1)
		deadline := w.number(t, `SELECT pay_before FROM orders WHERE id = ?`, bought)
		w.ms.Store(deadline - 1)
		w.scan(t)
		if w.status(t, bought) != order.Unpaid {
			t.Fatal("closed before the deadline")
		}
		w.ms.Store(deadline)
		w.scan(t)
		w.scan(t)
		if w.status(t, bought) != order.Closed || w.pay(t, bought) {
			t.Fatal("not closed at the deadline, or paid after that")
		}
		if n := w.number(t, `SELECT COUNT(*) FROM order_move WHERE order_id = ?`, bought); n != 1 {
			t.Errorf("%d lines of history", n)
		}
		w.mustBalance(t, 10)
	})
}

// An overdue order waits for a provider's word, but not for ever, and holds up no other.
func TestDeadlineWhileAProviderIsSilent(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 10, 1)
		waiting, plain, unclaimed := w.buy(t, 1), w.buy(t, 2), w.buy(t, 3)
		w.till.set(waiting, silent)
		w.till.set(plain, open)
		w.till.set(unclaimed, paid)
		w.advance(payWindow)
		w.scan(t)
		if w.status(t, waiting) != order.Unpaid || w.status(t, plain) != order.Closed || w.status(t, unclaimed) != order.Paid {
			t.Fatal(w.status(t, waiting), w.status(t, plain), w.status(t, unclaimed))
		}
		w.advance(19 * time.Second)
		w.scan(t)
		if w.status(t, waiting) != order.Unpaid {
			t.Fatal("closed while its money may be on its way")
		}
		w.advance(time.Second)
		w.scan(t)
		if w.status(t, waiting) != order.Closed {
			t.Fatal("still open 20 s after the deadline")
		}
		w.mustBalance(t, 10)
	})
}

// A buyer gives his order up and may buy again; what is paid or somebody else's he can't (W16, D12).
func TestCloseByTheBuyer(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 10, 1)
		first := w.buy(t, 1)
		for _, stranger := range []id.ID{2, 0, -1} {
			if _, err := w.orders.Close(t.Context(), stranger, first); !errors.Is(err, order.ErrNotFound) {
				t.Errorf("user %d: %v", stranger, err)
			}
			if _, err := w.orders.Find(t.Context(), stranger, first); !errors.Is(err, order.ErrNotFound) {
				t.Errorf("user %d: %v", stranger, err)
			}
		}
		for range 2 {
			if v, err := w.orders.Close(t.Context(), 1, first); err != nil || v.Status != order.Closed {
				t.Fatal(v, err)
			}
		}
		v, err := w.orders.Find(t.Context(), 1, first)
		must(t, err)
		if last := v.History[len(v.History)-1]; len(v.History) != 2 || last.Reason != order.ReasonBuyer || last.Actor != order.ByUser(1) {
			t.Errorf("history %+v", v.History)
		}
		w.mustBalance(t, 10)
		second := w.buy(t, 1)
		w.pay(t, second)
		if _, err := w.orders.Close(t.Context(), 1, second); !errors.Is(err, order.ErrNotClosable) || w.status(t, second) != order.Paid {
			t.Errorf("a paid order was given up: %v", err)
		}
		third := w.buy(t, 3)
		w.till.set(third, paid)
		if _, err := w.orders.Close(t.Context(), 3, third); !errors.Is(err, order.ErrNotClosable) || w.status(t, third) != order.Paid {
			t.Errorf("money that was on its way didn't count: %v", err)
		}
		fourth := w.buy(t, 4)
		w.till.set(fourth, silent)
		if _, err := w.orders.Close(t.Context(), 4, fourth); !errors.Is(err, order.ErrUnknown) || w.status(t, fourth) != order.Unpaid {
			t.Errorf("closed while its money may be on its way: %v", err)
		}
	})
}

// F41: fifty close the same orders, in scans, by messages and by hand; the process ends before the gate hears of it. Each
// unit goes back once, at the gate and in SQL.
func TestRaceCloseClose(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 40, 1)
		var ids []id.ID
		for user := range id.ID(40) {
			ids = append(ids, w.buy(t, user+1))
		}
		w.advance(payWindow)
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range 50 {
			wg.Go(func() {
				<-start
				var err error
				if i%2 == 0 {
					err = w.closer.Turn(t.Context())
				} else {
					_, err = w.closer.Close(t.Context(), ids[i%len(ids)], order.ReasonBuyer, order.System)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		wg.Wait()
		w.scan(t)
		if n := w.number(t, `SELECT COUNT(*) FROM order_move WHERE to_status = ?`, order.Closed); n != 40 {
			t.Errorf("%d moves of 40 orders", n)
		}
		if n := w.number(t, `SELECT COUNT(*) FROM gate_release`); n != 40 {
			t.Errorf("%d releases of 40 orders", n)
		}
		again := &order.Releaser{DB: db, Seats: w.sales} // of the process that comes after
		for range 2 {
			must(t, again.Turn(t.Context()))
		}
		w.mustBalance(t, 40)
	})
}
