package order_test

import (
	"context"
	"testing"

	"github.com/uptrace/bun"

	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

func TestMoves(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 10, 1)
		paid := w.buy(t, 1)
		deadline := w.number(t, `SELECT pay_before FROM orders WHERE id = ?`, paid)
		if w.payAt(t, paid, deadline) {
			t.Error("paid at the deadline, which is not before it")
		}
		if w.refunding(t, paid) || w.refunded(t, paid) {
			t.Error("an unpaid order was refunded")
		}
		if !w.payAt(t, paid, deadline-1) || w.payAt(t, paid, deadline-1) {
			t.Error("a payment in time counts once")
		}
		if code := w.code(t, paid); len(code) != 12 {
			t.Errorf("redeem code %q", code)
		}
		if !w.refunding(t, paid) || w.refunding(t, paid) || !w.refunded(t, paid) || w.refunded(t, paid) {
			t.Error("a refund goes through once")
		}
		if w.stock(t) != 10 || w.status(t, paid) != order.Refunded {
			t.Errorf("stock %d, %v", w.stock(t), w.status(t, paid))
		}
		if n := w.number(t, `SELECT COUNT(*) FROM order_move WHERE order_id = ?`, paid); n != 3 {
			t.Errorf("%d lines of history", n)
		}
		must(t, w.releaser.Turn(t.Context()))
		w.buy(t, 1) // the slot is free again
		if w.stock(t) != 9 {
			t.Errorf("stock %d", w.stock(t))
		}
	})
}

// F45: a payment whose order has no row yet is told apart from one that came too late.
func TestPaidBeforeTheRow(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 10, 1)
		queued, err := w.sales.Grab(t.Context(), 1, w.sale, "key-12345")
		must(t, err)
		w.tx(t, func(ctx context.Context, tx bun.Tx) (bool, error) {
			won, o, err := order.MarkPaid(ctx, db, tx, queued, w.ms.Load(), w.ms.Load())
			if won || o != nil {
				t.Errorf("won %v: %+v", won, o)
			}
			return won, err
		})
		w.write(t)
		if !w.pay(t, queued) {
			t.Error("it can be paid once it has a row")
		}
	})
}
