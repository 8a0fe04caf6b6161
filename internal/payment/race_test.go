package payment_test

import (
	"testing"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// F42: two callbacks of one payment at the same instant, of one delivery and of two, and a provider's answer to a question
// beside a callback: one of them is the change, all are answered alike.
func TestRaceCallbackCallback(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds(db, 1000)
		w := newTill(t, db, int64(n))
		for round := range n {
			user := id.ID(1000 + round)
			o := w.buy(t, user)
			p := w.begin(t, user, o)
			exec(t, db, `UPDATE sandbox_trade SET status = 2, paid_at = ? WHERE payment_id = ?`, w.ms.Load(), int64(p.ID))
			first, second := w.paidNotice(p.ID), w.paidNotice(p.ID)
			if round%3 == 1 {
				second.id += "-again"
			}
			together(2, func(i int) {
				if i == 1 && round%3 == 2 {
					if err := w.payments.AskOpen(t.Context(), o); err != nil {
						t.Error(err)
					}
					return
				}
				if status, answer := w.tell(t, []notice{first, second}[i]); status != 200 || answer != `{"ok":true}` {
					t.Error(status, answer)
				}
			})
			if t.Failed() {
				return
			}
		}
		w.turns(t)
		for what, query := range map[string]string{
			"paid orders": `SELECT COUNT(*) FROM orders WHERE status = 2`, "moves": `SELECT COUNT(*) FROM order_move`, "codes": `SELECT COUNT(*) FROM redeem_code`,
		} {
			if got := w.number(t, query); got != int64(n) {
				t.Errorf("%d %s of %d", got, what, n)
			}
		}
		if got := w.counted(t, "tandian_payments_total", "paid"); got != float64(n) {
			t.Errorf("counted as paid %v times of %d", got, n)
		}
		if got := w.refunds(t); len(got) != 0 {
			t.Error(got)
		}
		w.conserved(t)
	})
}

// F45: a provider's words in another order than they were said. What ended an attempt doesn't undo money, money undoes what
// ended it, and a callback that comes after its own refund changes nothing.
func TestNoticesOutOfOrder(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 3)
		failed := func(p id.ID) notice {
			n := w.paidNotice(p)
			n.id, n.state, n.amount, n.paidAt = n.id+"-failed", "failed", price, 0
			return n
		}

		o := w.buy(t, buyer)
		p := w.begin(t, buyer, o)
		w.mustTell(t, w.paidNotice(p.ID))
		w.mustTell(t, failed(p.ID))
		if got := w.status(t, o); got != order.Paid || w.number(t, `SELECT status FROM payment WHERE id = ?`, p.ID) != 2 {
			t.Errorf("paid, then failed: %v", got)
		}

		o = w.buy(t, 101)
		p = w.begin(t, 101, o)
		w.mustTell(t, failed(p.ID))
		if got := w.status(t, o); got != order.Unpaid || w.number(t, `SELECT status FROM payment WHERE id = ?`, p.ID) != 4 {
			t.Errorf("failed: %v", got)
		}
		w.mustTell(t, w.paidNotice(p.ID))
		if got := w.status(t, o); got != order.Paid || w.number(t, `SELECT status FROM payment WHERE id = ?`, p.ID) != 2 {
			t.Errorf("failed, then paid: %v", got)
		}
		if got := w.refunds(t); len(got) != 0 {
			t.Fatal(got)
		}

		o = w.buy(t, 102)
		p = w.begin(t, 102, o)
		w.choose(t, p, "silent", "")
		must(t, w.payments.AskOpen(t.Context(), o))
		if moved, err := w.payments.Refund(t.Context(), o, order.ReasonBuyer, order.ByUser(102)); err != nil || !moved {
			t.Fatal(moved, err)
		}
		w.turns(t)
		moves := w.number(t, `SELECT COUNT(*) FROM order_move WHERE order_id = ?`, o)
		for range 3 {
			w.mustTell(t, w.paidNotice(p.ID))
		}
		w.turns(t)
		if got := w.status(t, o); got != order.Refunded || w.number(t, `SELECT COUNT(*) FROM order_move WHERE order_id = ?`, o) != moves || w.stock(t) != 1 {
			t.Errorf("refunded, then paid: %v, %d left", got, w.stock(t))
		}
		if n := w.number(t, `SELECT COUNT(*) FROM refund`); n != 1 {
			t.Errorf("%d refunds", n)
		}
		w.conserved(t)
	})
}
