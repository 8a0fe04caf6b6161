package payment_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// rounds is how often a race is run: often where a commit is cheap.
func rounds(db *store.DB, often int) int {
	if isServer(db) {
		return often / 20
	}
	return often
}

func isServer(db *store.DB) bool { return strings.HasPrefix(db.Name, "MySQL") }

// F44: money arrives after the deadline, by the provider's own time, whatever is heard when: the order is closed, the
// money goes back once, and the unit isn't taken again.
func TestLateMoney(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 1)
		for i, late := range []time.Duration{0, time.Second, time.Hour} {
			user := buyer + id.ID(i)
			o := w.buy(t, user)
			p := w.begin(t, user, o)
			w.advance(payWindow)
			must(t, w.closer.Turn(t.Context()))
			if got := w.status(t, o); got != order.Closed {
				t.Fatal(got)
			}
			w.advance(late)
			exec(t, db, `UPDATE sandbox_trade SET paid_at = ? WHERE payment_id = ?`, w.ms.Load(), int64(p.ID)) // though it had said closed
			n := w.paidNotice(p.ID)
			for range 3 {
				w.mustTell(t, n)
			}
			if n := w.number(t, `SELECT COUNT(*) FROM refund WHERE order_id = ? AND reason = 'late' AND status = 1`, o); n != 1 {
				t.Fatalf("%d refunds", n)
			}
			w.turns(t)
			if got, left := w.status(t, o), w.stock(t); got != order.Closed || left != 1 {
				t.Errorf("%v, %d left", got, left)
			}
			if n := w.number(t, `SELECT COUNT(*) FROM refund WHERE order_id = ? AND status = 2`, o); n != 1 {
				t.Errorf("%d refunds done", n)
			}
		}
		w.conserved(t)
	})
}

// F44, P5: the whole of it at the cashier: the provider closes the trade and takes the money all the same.
func TestLateMoneyAtTheCashier(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 1)
		o := w.buy(t, buyer)
		p := w.begin(t, buyer, o)
		if state := w.choose(t, p, "late", ""); state != "onItsWay" {
			t.Fatal(state)
		}
		must(t, w.sandbox.Call(t.Context()))
		w.advance(payWindow)
		must(t, w.closer.Turn(t.Context()))
		if got := w.status(t, o); got != order.Closed {
			t.Fatal(got)
		}
		w.advance(time.Second)
		must(t, w.sandbox.Call(t.Context()))
		w.turns(t)
		if got := w.refunds(t); !slices.Equal(got, []string{"late:done"}) || w.status(t, o) != order.Closed || w.stock(t) != 1 {
			t.Error(got, w.status(t, o), w.stock(t))
		}
		_, answer := w.call(t, buyer, "GET", "/orders/"+o.String(), "")
		if refund, _ := answer["refund"].(map[string]any); refund["status"] != "done" || refund["reason"] != "late" || refund["amount"] != float64(price) {
			t.Error(answer)
		}
		w.conserved(t)
	})
}

// F50: paid a millisecond before the deadline and heard of before the close: it counts, however late it is now.
func TestPaidJustInTime(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.buy(t, buyer)
	p := w.begin(t, buyer, o)
	w.advance(payWindow - time.Millisecond)
	n := w.paidNotice(p.ID)
	w.advance(5 * time.Second) // the process stood still
	w.mustTell(t, n)
	must(t, w.closer.Turn(t.Context()))
	if got := w.status(t, o); got != order.Paid {
		t.Error(got)
	}
	w.conserved(t)
}

// F47, D11: two attempts pay one order, and the second callback comes again and again: the second money goes back once.
func TestTwoPaymentsOfOneOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds(db, 50)
		w := newTill(t, db, int64(n))
		for round := range n {
			user := id.ID(1000 + round)
			o := w.buy(t, user)
			first, second := w.begin(t, user, o), w.second(t, o)
			exec(t, db, `UPDATE sandbox_trade SET status = 2, paid_at = ? WHERE payment_id IN (?, ?)`, w.ms.Load(), int64(first.ID), int64(second))
			together(6, func(i int) {
				if status, answer := w.tell(t, w.paidNotice([]id.ID{first.ID, second}[i%2])); status != 200 {
					t.Error(status, answer)
				}
			})
			w.turns(t)
			if got := w.status(t, o); got != order.Paid {
				t.Fatal(got)
			}
			if n := w.number(t, `SELECT COUNT(*) FROM refund WHERE order_id = ? AND reason = 'duplicate' AND status = 2`, o); n != 1 {
				t.Fatalf("round %d: %d refunds, %v", round, n, w.refunds(t))
			}
		}
		w.conserved(t)
	})
}

// F43: the callback and the close at one instant, a thousand times: exactly one wins, and money that lost goes back.
func TestCallbackAgainstClose(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds(db, 1000)
		w := newTill(t, db, int64(n))
		paid, closed := 0, 0
		for round := range n {
			user := id.ID(1000 + round)
			o := w.buy(t, user)
			p := w.begin(t, user, o)
			exec(t, db, `UPDATE sandbox_trade SET status = 2, paid_at = ? WHERE payment_id = ?`, w.ms.Load(), int64(p.ID))
			w.closer.Payments = nil // it closes without the provider's word
			note := w.paidNotice(p.ID)
			together(2, func(i int) {
				switch {
				case i == 0 && round%2 == 0:
					if status, answer := w.tell(t, note); status != 200 {
						t.Error(status, answer)
					}
					return
				case i == 0: // the same news, asked for
					if err := w.payments.AskOpen(t.Context(), o); err != nil {
						t.Error(err)
					}
					return
				}
				for range round % 8 { // a callback reads more before it writes than a close does
					_ = w.number(t, `SELECT COUNT(*) FROM payment_notice WHERE payment_id = ?`, p.ID)
				}
				if _, err := w.closer.Close(t.Context(), o, order.ReasonBuyer, order.ByUser(user)); err != nil {
					t.Error(err)
				}
			})
			switch got := w.status(t, o); got {
			case order.Paid:
				paid++
			case order.Closed:
				closed++
				if n := w.number(t, `SELECT COUNT(*) FROM refund WHERE order_id = ? AND reason = 'late'`, o); n != 1 {
					t.Fatalf("round %d: closed with %d refunds", round, n)
				}
			default:
				t.Fatal(got)
			}
		}
		w.turns(t)
		t.Logf("%d paid, %d closed", paid, closed)
		if paid == 0 || closed == 0 {
			t.Error("nothing raced")
		}
		w.conserved(t)
	})
}

// P4, P5: the buyer pays at the cashier while his other hand gives the order up: the provider's word decides, so no money
// has to go back.
func TestCashierAgainstClose(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds(db, 200)
		w := newTill(t, db, int64(n))
		paid := 0
		for round := range n {
			user := id.ID(1000 + round)
			o := w.buy(t, user)
			p := w.begin(t, user, o)
			together(2, func(i int) {
				if i == 0 {
					w.choose(t, p, "pay", "")
					if err := w.sandbox.Call(t.Context()); err != nil {
						t.Error(err)
					}
					return
				}
				for range round % 3 {
					_ = w.status(t, o)
				}
				if _, err := w.closer.Close(t.Context(), o, order.ReasonBuyer, order.ByUser(user)); err != nil {
					t.Error(err)
				}
			})
			switch got := w.status(t, o); got {
			case order.Paid:
				paid++
			case order.Closed:
			default:
				t.Fatal(got)
			}
		}
		t.Logf("%d of %d paid", paid, n)
		if got := w.refunds(t); len(got) != 0 {
			t.Error(got)
		}
		w.conserved(t)
	})
}

// F44: late money, and another buyer's grab of the unit that the close gave back, at the same instant: the unit is sold
// once, to him.
func TestRaceLateMoneyNextBuyer(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 1)
		holder := id.ID(1000)
		o := w.buy(t, holder)
		for round := range rounds(db, 1000) {
			p := w.begin(t, holder, o)
			exec(t, db, `UPDATE sandbox_trade SET status = 2, paid_at = ? WHERE payment_id = ?`, w.ms.Load()+payWindow.Milliseconds(), int64(p.ID))
			w.advance(payWindow)
			w.closer.Payments = nil
			must(t, w.closer.Turn(t.Context()))
			if got := w.status(t, o); got != order.Closed {
				t.Fatal(got)
			}
			next, note := holder+1, w.paidNotice(p.ID)
			var sold id.ID
			together(2, func(i int) {
				if i == 0 {
					if status, answer := w.tell(t, note); status != 200 {
						t.Error(status, answer)
					}
					return
				}
				if err := w.releaser.Turn(t.Context()); err != nil {
					t.Error(err)
				}
				var err error
				if sold, err = w.sales.Grab(t.Context(), next, w.sale, "key-"+next.String()); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
			if t.Failed() {
				return
			}
			w.write(t)
			if w.status(t, sold) != order.Unpaid || w.status(t, o) != order.Closed || w.stock(t) != 0 {
				t.Fatal(w.status(t, sold), w.status(t, o), w.stock(t))
			}
			if _, err := w.sales.Grab(t.Context(), 1, w.sale, "one too many"); !errors.Is(err, flashsale.ErrSoldOut) {
				t.Fatal(err)
			}
			holder, o = next, sold
		}
		w.turns(t)
		w.conserved(t)
	})
}

// P2: a lost callback is found by asking, before the deadline and at it.
func TestLostCallback(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 2)
		asked, closed := w.buy(t, buyer), w.buy(t, 101)
		w.choose(t, w.begin(t, buyer, asked), "silent", "")
		w.choose(t, w.begin(t, 101, closed), "silent", "")
		must(t, w.sandbox.Call(t.Context()))
		if w.status(t, asked) != order.Unpaid || w.status(t, closed) != order.Unpaid {
			t.Fatal("somebody has called back")
		}
		must(t, w.payments.AskOpen(t.Context(), asked))
		if got := w.status(t, asked); got != order.Paid {
			t.Error(got)
		}
		w.advance(payWindow)
		must(t, w.closer.Turn(t.Context()))
		if got := w.status(t, closed); got != order.Paid || w.stock(t) != 0 {
			t.Error(got)
		}
		w.conserved(t)
	})
}

// F44: late money of which nobody ever hears is found by asking about attempts that ended, twice in their life.
func TestLateMoneyUnheard(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 2)
		o, idle := w.buy(t, buyer), w.buy(t, 101)
		w.choose(t, w.begin(t, buyer, o), "late", "")
		w.begin(t, 101, idle)
		exec(t, db, `UPDATE sandbox_trade SET call_at = NULL`)
		w.advance(payWindow)
		must(t, w.closer.Turn(t.Context()))
		must(t, w.payments.AskEnded(t.Context()))
		if n := w.number(t, `SELECT COUNT(*) FROM payment WHERE status = 3`); n != 2 {
			t.Fatal("not closed, or asked too early")
		}
		w.advance(10 * time.Minute)
		silent := func(string) (bool, bool) { return true, false }
		w.provider.fate.Store(&silent)
		if err := w.payments.AskEnded(t.Context()); err == nil {
			t.Error("the provider is silent")
		}
		w.provider.fate.Store(nil)
		w.advance(10 * time.Minute)
		must(t, w.payments.AskEnded(t.Context()))
		if got := w.refunds(t); !slices.Equal(got, []string{"late:asked"}) {
			t.Fatal(got)
		}
		w.turns(t)
		for range 2 {
			if n := w.number(t, `SELECT COUNT(*) FROM payment WHERE ask_at > ?`, w.ms.Load()); n != 1 {
				t.Errorf("%d attempts are asked about again", n)
			}
			must(t, w.payments.AskEnded(t.Context()))
		}
		w.advance(24 * time.Hour)
		must(t, w.payments.AskEnded(t.Context()))
		if n := w.number(t, `SELECT COUNT(*) FROM payment WHERE ask_at IS NOT NULL`); n != 0 {
			t.Errorf("%d attempts are asked about for ever", n)
		}
		w.conserved(t)
	})
}

// P4: a provider that doesn't answer postpones the close, not for ever; the attempt is closed when it answers again.
func TestProviderSilentAtTheDeadline(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.buy(t, buyer)
	w.begin(t, buyer, o)
	silent := func(string) (bool, bool) { return true, false }
	w.provider.fate.Store(&silent)
	w.advance(payWindow)
	must(t, w.closer.Turn(t.Context()))
	if got := w.status(t, o); got != order.Unpaid {
		t.Fatal("closed without the provider's word:", got)
	}
	w.advance(20 * time.Second)
	must(t, w.closer.Turn(t.Context()))
	if got := w.status(t, o); got != order.Closed {
		t.Fatal(got)
	}
	w.advance(2 * time.Minute)
	if err := w.payments.CloseForgotten(t.Context()); err == nil {
		t.Error("the provider is still silent")
	}
	w.provider.fate.Store(nil)
	must(t, w.payments.CloseForgotten(t.Context())) // looked at a moment ago
	if n := w.number(t, `SELECT COUNT(*) FROM payment WHERE status = 1`); n != 1 {
		t.Error("asked again at once")
	}
	w.advance(2 * time.Minute)
	must(t, w.payments.CloseForgotten(t.Context()))
	if n := w.number(t, `SELECT COUNT(*) FROM payment WHERE status = 3`); n != 1 {
		t.Error("the attempt is still open")
	}
	w.conserved(t)
}

// The buyer gives up: his attempts are closed at the provider first, and if he has paid, he has paid.
func TestBuyerClosesAndPays(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 2)
	o := w.buy(t, buyer)
	p := w.begin(t, buyer, o)
	if closed, err := w.closer.Close(t.Context(), o, order.ReasonBuyer, order.ByUser(buyer)); err != nil || !closed {
		t.Fatal(closed, err)
	}
	if state := w.choose(t, p, "pay", ""); state != "closed" {
		t.Error(state)
	}
	other := w.buy(t, 101)
	w.choose(t, w.begin(t, 101, other), "silent", "")
	if closed, err := w.closer.Close(t.Context(), other, order.ReasonBuyer, order.ByUser(101)); err != nil || closed || w.status(t, other) != order.Paid {
		t.Error(closed, err, w.status(t, other))
	}
	w.conserved(t)
}
