package payment_test

import (
	"testing"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
	"tandian/internal/payment"
)

// P8, I5: each way in which money and orders can disagree is seen, named and laid at the right door; and a till in order
// shows none.
func TestReconcileSeesEachKind(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 12)
		next := buyer
		buyPaid := func() id.ID { next++; return w.paid(t, next, "") }
		unpaid, amount, kept, noRefund, asOrder, uncaptured := buyPaid(), buyPaid(), buyPaid(), buyPaid(), buyPaid(), buyPaid()
		fine, refunded := buyPaid(), buyPaid()
		if ok, err := w.payments.Refund(t.Context(), refunded, order.ReasonBuyer, order.System); err != nil || !ok {
			t.Fatal(err)
		}
		w.turns(t)
		w.conserved(t)
		before, err := w.payments.Reconcile(t.Context())
		must(t, err)
		if s := before.Totals; s.Captured != 8*price || s.Refunded != price || s.Asked != 0 || s.Paid != 7*price || s.Payments != 8 || s.Orders != 7 {
			t.Errorf("%+v", s)
		}
		exec(t, db, `UPDATE payment SET status = 1 WHERE order_id = ?`, int64(unpaid))
		exec(t, db, `UPDATE payment SET amount = 1 WHERE order_id = ?`, int64(amount))
		exec(t, db, `UPDATE orders SET status = 4, slot = NULL WHERE id = ?`, int64(kept))
		exec(t, db, `UPDATE orders SET status = 5 WHERE id = ?`, int64(noRefund))
		insert := func(o id.ID, amount int64, reason string) {
			exec(t, db, `INSERT INTO refund (order_id, payment_id, amount, reason, status, next_at, created_at, updated_at)
				SELECT order_id, id, ?, ?, 1, 9000000000000, ?, 1 FROM payment WHERE order_id = ?`, amount, reason, w.ms.Load(), int64(o))
		}
		insert(asOrder, price, "buyer")
		insert(uncaptured, 1, "duplicate")
		r, err := w.payments.Reconcile(t.Context())
		must(t, err)
		want := map[payment.Kind]id.ID{payment.KindUnpaid: unpaid, payment.KindAmount: amount, payment.KindKept: kept, payment.KindNoRefund: noRefund,
			payment.KindOrder: asOrder, payment.KindUncaptured: uncaptured}
		for kind, o := range want {
			seen := false
			for _, d := range r.Differences {
				seen = seen || d.Kind == kind && d.OrderID == o
				if d.OrderID == fine || d.OrderID == refunded {
					t.Errorf("nothing is wrong with order %d: %+v", d.OrderID, d)
				}
			}
			if !seen {
				t.Errorf("%s of order %d isn't seen: %+v", kind, o, r.Differences)
			}
		}
		w.advance(2 * time.Hour)
		if r, err = w.payments.Reconcile(t.Context()); err != nil || !has(r, payment.KindStuck) {
			t.Errorf("%+v %v", r, err)
		}
	})
}

func has(r *payment.Report, kind payment.Kind) bool {
	for _, d := range r.Differences {
		if d.Kind == kind {
			return true
		}
	}
	return false
}

// Sums that disagree are told even where no order shows why.
func TestReconcileSums(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	w.paid(t, buyer, "")
	exec(t, w.db, `INSERT INTO refund (order_id, payment_id, amount, reason, status, next_at, created_at, updated_at) VALUES (1, 999, 5, 'late', 2, 1, 1, 1)`)
	r, err := w.payments.Reconcile(t.Context())
	must(t, err)
	if !has(r, payment.KindUncaptured) || has(r, payment.KindTotals) {
		t.Errorf("%+v", r)
	}
	if r.Totals.Captured-r.Totals.Refunded-r.Totals.Asked == r.Totals.Paid {
		t.Error("the sums agree")
	}
}
