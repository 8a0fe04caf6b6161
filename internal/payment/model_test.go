package payment_test

import (
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// drawn lets rapid hear of failures, so that it can look for a shorter way to them.
type drawn struct {
	testing.TB
	rt *rapid.T
}

func (d drawn) Error(args ...any)                 { d.rt.Error(args...) }
func (d drawn) Errorf(format string, args ...any) { d.rt.Errorf(format, args...) }
func (d drawn) Fatal(args ...any)                 { d.rt.Fatal(args...) }
func (d drawn) Fatalf(format string, args ...any) { d.rt.Fatalf(format, args...) }

// I5: whatever buyers, providers, workers and time do, in any order: captured − refunded = price of paid and used orders,
// each capture belongs to one order, and units are where orders say.
func TestMoneyIsConserved(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		const buyers = 6
		w := newTill(t, db, 4)
		runs, steps := 0, 0
		rapid.Check(t, func(rt *rapid.T) {
			if runs++; runs > 6 && isServer(db) { // it is slower, and has the same code
				return
			}
			t := drawn{t, rt}
			var orders []id.ID
			var payments []id.ID
			owner := map[id.ID]id.ID{}
			var drawing sync.Mutex // several are asked at once
			lost := func(string) (bool, bool) {
				drawing.Lock()
				defer drawing.Unlock()
				return rapid.IntRange(0, 3).Draw(rt, "lost") == 0, rapid.IntRange(0, 3).Draw(rt, "unheard") == 0
			}
			one := func(of []id.ID) id.ID {
				if len(of) == 0 {
					rt.Skip("nothing there")
				}
				return rapid.SampledFrom(of).Draw(rt, "which")
			}
			rt.Repeat(map[string]func(*rapid.T){
				"grab": func(rt *rapid.T) {
					user := id.ID(1000 + rapid.IntRange(0, buyers-1).Draw(rt, "buyer"))
					if o, err := w.sales.Grab(t.Context(), user, w.sale, id.ID(1<<20+w.number(t, `SELECT COUNT(*) FROM orders`)).String()); err == nil {
						w.write(t)
						orders, owner[o] = append(orders, o), user
					}
				},
				"begin to pay": func(rt *rapid.T) {
					o := one(orders)
					if p, err := w.payments.Pay(t.Context(), owner[o], o, "sandbox"); err == nil {
						payments = append(payments, p.ID)
					}
				},
				"begin beside": func(rt *rapid.T) {
					o := one(orders)
					if w.status(t, o) == order.Unpaid {
						payments = append(payments, w.second(t, o))
					}
				},
				"money arrives": func(rt *rapid.T) {
					exec(t, db, `UPDATE sandbox_trade SET status = 2, paid_at = ? WHERE payment_id = ? AND paid_at IS NULL`, w.ms.Load(), int64(one(payments)))
				},
				"called back": func(rt *rapid.T) {
					p := one(payments)
					n := w.paidNotice(p)
					n.paidAt = w.number(t, `SELECT COALESCE(MAX(paid_at), 0) FROM sandbox_trade WHERE payment_id = ?`, p)
					if n.paidAt > 0 {
						w.mustTell(t, n)
					}
				},
				"asked":    func(rt *rapid.T) { _ = w.payments.AskOpen(t.Context(), one(orders)) },
				"time":     func(rt *rapid.T) { w.advance(time.Duration(rapid.IntRange(1, 900).Draw(rt, "seconds")) * time.Second) },
				"overdue":  func(rt *rapid.T) { must(t, w.closer.Turn(t.Context())) },
				"given up": func(rt *rapid.T) { _, _ = w.closer.Close(t.Context(), one(orders), order.ReasonBuyer, order.System) },
				"refund": func(rt *rapid.T) {
					_, err := w.payments.Refund(t.Context(), one(orders), order.ReasonBuyer, order.System)
					must(t, err)
				},
				"refunder":  func(rt *rapid.T) { _ = w.payments.SendRefunds(t.Context()); must(t, w.releaser.Turn(t.Context())) },
				"forgotten": func(rt *rapid.T) { _ = w.payments.CloseForgotten(t.Context()) },
				"ended":     func(rt *rapid.T) { _ = w.payments.AskEnded(t.Context()) },
				"provider": func(rt *rapid.T) {
					if rapid.Bool().Draw(rt, "trouble") {
						w.provider.fate.Store(&lost)
					} else {
						w.provider.fate.Store(nil)
					}
				},
				"": func(*rapid.T) { steps++; w.sums(t) },
			})
			// At rest: the provider answers, every callback has come, every order is decided.
			w.provider.fate.Store(nil)
			w.advance(payWindow + time.Minute)
			must(t, w.closer.Turn(t.Context()))
			must(t, w.payments.CloseForgotten(t.Context()))
			w.advance(25 * time.Hour)
			must(t, w.payments.AskEnded(t.Context()))
			for range 3 {
				w.advance(5 * time.Minute)
				must(t, w.payments.SendRefunds(t.Context()))
			}
			must(t, w.releaser.Turn(t.Context()))
			w.sums(t)
			if n := w.number(t, `SELECT COUNT(*) FROM refund WHERE status <> 2`); n != 0 {
				rt.Fatalf("%d refunds are not done", n)
			}
			if n := w.number(t, `SELECT (SELECT COALESCE(SUM(t.amount), 0) FROM sandbox_trade AS t JOIN payment AS p ON p.id = t.payment_id WHERE t.paid_at IS NOT NULL)
				- (SELECT COALESCE(SUM(amount), 0) FROM sandbox_refund) - (SELECT COALESCE(SUM(amount), 0) FROM orders WHERE status IN (2, 3))`); n != 0 {
				rt.Fatalf("by the provider's books %d fen are astray", n)
			}
			for _, o := range orders { // room for the next run
				if w.status(t, o) == order.Paid {
					_, err := w.payments.Refund(t.Context(), o, order.ReasonOperator, order.System)
					must(t, err)
				}
			}
			must(t, w.payments.SendRefunds(t.Context()))
			must(t, w.releaser.Turn(t.Context()))
			if left := w.stock(t); left != 4 {
				rt.Fatalf("%d of 4 units left when nobody holds one", left)
			}
		})
		t.Logf("%d steps", steps)
	})
}

// sums checks at any moment, at rest or not, what may never be wrong.
func (w *till) sums(t testing.TB) {
	t.Helper()
	r, err := w.payments.Reconcile(t.Context())
	must(t, err)
	for _, d := range r.Differences {
		if d.Kind != "stuck" {
			t.Fatalf("%+v, %+v", d, r.Totals)
		}
	}
	if r.Totals.Captured-r.Totals.Refunded-r.Totals.Asked != r.Totals.Paid {
		t.Fatalf("%+v", r.Totals)
	}
}
