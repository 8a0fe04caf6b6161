package order_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/uptrace/bun"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// rounds is how often two meet at a barrier.
func rounds() int {
	if testing.Short() {
		return 100
	}
	return 1000
}

// many makes n orders of n buyers at once, past the gate: what is tested here begins with the rows.
func (w *town) many(t *testing.T, n int) (ids []id.ID) {
	t.Helper()
	rs := make([]order.Reservation, n)
	for i := range rs {
		v := id.ID(i + 1)
		rs[i] = order.Reservation{OrderID: v, SaleID: w.sale, VoucherID: voucherID, UserID: v, Amount: 4750, AdmittedAt: w.ms.Load(), PayBefore: w.ms.Load() + payWindow.Milliseconds()}
		ids = append(ids, v)
	}
	for len(rs) > 0 {
		part := rs[:min(200, len(rs))]
		rs = rs[len(part):]
		body, err := order.Encode(part)
		must(t, err)
		must(t, w.broker.Publish(t.Context(), order.TopicCreate, "m", body))
		w.write(t)
	}
	return ids
}

// meet has the two do it at the same instant, again and again, and returns how often each of them won.
func meet(t *testing.T, ids []id.ID, first, second func(i int, v id.ID) bool, after func(v id.ID, first, second bool)) {
	t.Helper()
	var wins [2]int
	for i, v := range ids {
		var won [2]bool
		var ready, done sync.WaitGroup
		start := make(chan struct{})
		ready.Add(2)
		for side, act := range []func(int, id.ID) bool{first, second} {
			done.Go(func() {
				ready.Done()
				<-start
				won[side] = act(i, v)
			})
		}
		ready.Wait()
		close(start)
		done.Wait()
		after(v, won[0], won[1])
		for side := range won {
			if won[side] {
				wins[side]++
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d and %d of %d rounds", wins[0], wins[1], len(ids))
}

// insist is tx that repeats what the database called off because two were in each other's way.
func (w *town) insist(t *testing.T, fn func(ctx context.Context, tx bun.Tx) (bool, error)) (done bool) {
	for range 10 {
		err := w.db.Tx(t.Context(), func(ctx context.Context, tx bun.Tx) (err error) {
			done, err = fn(ctx, tx)
			return err
		})
		if err == nil {
			return done
		}
		t.Log(err)
	}
	t.Error("ten tries failed")
	return false
}

// F43: a payment and the close of its order at the same instant: exactly one wins, and only a close gives the unit back.
func TestRacePayClose(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds()
		w := newTown(t, db, int64(n), 1)
		ids := w.many(t, n)
		paidAt := w.ms.Load()
		w.advance(payWindow)
		meet(t, ids, func(_ int, v id.ID) bool {
			return w.insist(t, func(ctx context.Context, tx bun.Tx) (bool, error) {
				won, o, err := order.MarkPaid(ctx, db, tx, v, paidAt, w.ms.Load())
				if err == nil && !won && o.Status != order.Closed {
					t.Errorf("lost to an order that is %v", o.Status)
				}
				return won, err
			})
		}, func(_ int, v id.ID) bool {
			won, err := w.closer.Close(t.Context(), v, order.ReasonTimeout, order.System)
			if err != nil {
				t.Error(err)
			}
			return won
		}, func(v id.ID, paid, closed bool) {
			want := order.Paid
			if closed {
				want = order.Closed
			}
			if paid == closed || w.status(t, v) != want {
				t.Errorf("paid %v, closed %v, and it is %v", paid, closed, w.status(t, v))
			}
		})
		w.mustAddUp(t, n)
	})
}

// mustAddUp checks stock, slots, releases, codes and history against the orders' statuses, without a gate.
func (w *town) mustAddUp(t *testing.T, released int) {
	t.Helper()
	for what, query := range map[string]string{
		"units": `SELECT ? - stock - (SELECT COUNT(*) FROM orders WHERE slot IS NOT NULL) FROM sale`,
		"releases without an end, and ends without": `SELECT ? - ? + (SELECT COUNT(*) FROM orders WHERE status IN (4, 6)) - (SELECT COUNT(*) FROM gate_release)`,
		"moves that end an order":                   `SELECT ? - ? + (SELECT COUNT(*) FROM orders WHERE status IN (4, 6)) - (SELECT COUNT(*) FROM order_move WHERE to_status IN (4, 6))`,
		"codes":                                     `SELECT ? - ? + (SELECT COUNT(*) FROM orders WHERE status IN (2, 3, 5, 6)) - (SELECT COUNT(*) FROM redeem_code)`,
		"used codes":                                `SELECT ? - ? + (SELECT COUNT(*) FROM orders WHERE status = 3) - (SELECT COUNT(*) FROM redeem_code WHERE redeemed_at IS NOT NULL)`,
		"orders whose last move leads elsewhere":    `SELECT ? - ? + COUNT(*) FROM orders AS o JOIN order_move AS m ON m.order_id = o.id WHERE m.id = (SELECT MAX(id) FROM order_move WHERE order_id = o.id) AND m.to_status <> o.status`,
	} {
		args := []any{released, released}
		if what == "units" {
			args = args[:1]
		}
		if off := w.number(t, query, args...); off != 0 {
			t.Errorf("%s: off by %d", what, off)
		}
	}
}

// F48: a refund and the redemption of its order at the same instant: exactly one wins, and the clerk is told exactly.
func TestRaceRefundRedeem(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds()
		w := newTown(t, db, int64(n), 1)
		ids := w.many(t, n)
		codes := w.payAll(t, ids)
		ctx := as(t.Context(), clerk, identity.Clerk)
		meet(t, ids, func(_ int, v id.ID) bool {
			return w.insist(t, func(ctx context.Context, tx bun.Tx) (bool, error) {
				return order.MarkRefunding(ctx, tx, v, order.ReasonBuyer, order.ByUser(v), w.ms.Load())
			})
		}, func(i int, _ id.ID) bool { return w.redeems(t, ctx, codes[i], order.ErrCodeRefunded) },
			func(v id.ID, refunding, redeemed bool) {
				if refunding == redeemed {
					t.Errorf("refunding %v, redeemed %v, and it is %v", refunding, redeemed, w.status(t, v))
				}
			})
		w.mustAddUp(t, n)
	})
}

// payAll pays the orders and returns their codes.
func (w *town) payAll(t *testing.T, ids []id.ID) (codes []string) {
	t.Helper()
	w.tx(t, func(ctx context.Context, tx bun.Tx) (bool, error) {
		for _, v := range ids {
			won, _, err := order.MarkPaid(ctx, w.db, tx, v, w.ms.Load(), w.ms.Load())
			if err != nil || !won {
				return false, fmt.Errorf("order %d: paid %v: %w", v, won, err)
			}
		}
		return true, nil
	})
	must(t, w.db.Read.NewRaw(`SELECT code FROM redeem_code ORDER BY order_id`).Scan(t.Context(), &codes))
	return codes
}

// redeems reports whether the code was redeemed; if it wasn't, the reason must be the one wanted.
func (w *town) redeems(t *testing.T, ctx context.Context, code string, refusal error) bool {
	for range 10 {
		_, err := w.redeemer.Redeem(ctx, code)
		switch {
		case err == nil:
			return true
		case errors.Is(err, refusal):
			return false
		case errs.From(err).Kind != errs.Internal:
			t.Errorf("refused with %v, want %v", err, refusal)
			return false
		}
		t.Log(err) // called off by the database
	}
	t.Error("ten tries failed")
	return false
}

// Two clerks redeem one code at the same instant: one of them does, the other hears when.
func TestRaceRedeemRedeem(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds()
		w := newTown(t, db, int64(n), 1)
		ids := w.many(t, n)
		codes := w.payAll(t, ids)
		redeem := func(ctx context.Context) func(int, id.ID) bool {
			return func(i int, _ id.ID) bool { return w.redeems(t, ctx, codes[i], order.ErrRedeemed) }
		}
		meet(t, ids, redeem(as(t.Context(), clerk, identity.Clerk)), redeem(as(t.Context(), owner, identity.Merchant)), func(v id.ID, first, second bool) {
			if first == second {
				t.Errorf("order %d: %v and %v", v, first, second)
			}
		})
		w.mustAddUp(t, n)
	})
}

// Clerks of two shops redeem one code at the same instant: only the shop's own can, and the other hears that it isn't his,
// whoever is first.
func TestRaceRedeemTwoShops(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds()
		w := newTown(t, db, int64(n), 1)
		ids := w.many(t, n)
		codes := w.payAll(t, ids)
		own, other := as(t.Context(), clerk, identity.Clerk), as(t.Context(), otherClerk, identity.Clerk)
		meet(t, ids, func(i int, _ id.ID) bool { return w.redeems(t, own, codes[i], order.ErrRedeemed) },
			func(i int, _ id.ID) bool { return w.redeems(t, other, codes[i], order.ErrOtherShop) },
			func(v id.ID, own, other bool) {
				if !own || other || w.status(t, v) != order.Used {
					t.Errorf("order %d: its shop %v, another %v, and it is %v", v, own, other, w.status(t, v))
				}
			})
		w.mustAddUp(t, n)
		if by := w.number(t, `SELECT COUNT(*) FROM redeem_code WHERE redeemed_by <> ?`, clerk); by != 0 {
			t.Errorf("%d were redeemed by somebody else", by)
		}
	})
}

// A scan and the buyer close at the same instant: one move, one unit.
func TestRaceScanBuyer(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds()
		w := newTown(t, db, int64(n), 1)
		ids := w.many(t, n)
		w.advance(payWindow)
		meet(t, ids, func(_ int, v id.ID) bool {
			won, err := w.closer.Close(t.Context(), v, order.ReasonBuyer, order.ByUser(v))
			if err != nil {
				t.Error(err)
			}
			return won
		}, func(_ int, v id.ID) bool {
			won, err := w.closer.Close(t.Context(), v, order.ReasonTimeout, order.System)
			if err != nil {
				t.Error(err)
			}
			return won
		}, func(v id.ID, buyer, scan bool) {
			if buyer == scan {
				t.Errorf("order %d: buyer %v, scan %v", v, buyer, scan)
			}
		})
		w.mustAddUp(t, n)
	})
}
