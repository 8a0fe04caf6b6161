package payment_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
	"tandian/internal/payment"
)

// paid buys and pays; refunds is how refunds of it will go at the provider.
func (w *till) paid(t testing.TB, user id.ID, refunds string) id.ID {
	t.Helper()
	o := w.buy(t, user)
	w.choose(t, w.begin(t, user, o), "pay", refunds)
	must(t, w.sandbox.Call(t.Context()))
	if got := w.status(t, o); got != order.Paid {
		t.Fatal(got)
	}
	return o
}

// P6: the buyer wants his money back: the order is refunding at once, refunded when the provider says so, the unit is
// for sale again, and asking twice changes nothing.
func TestRefundByTheBuyer(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 1)
		o := w.paid(t, buyer, "")
		path := "/orders/" + o.String() + "/refund"
		if status, answer := w.call(t, 101, "POST", path, `{}`); status != 404 || answer["code"] != "order.not_found" {
			t.Error("somebody else:", status, answer)
		}
		for range 2 {
			status, answer := w.call(t, buyer, "POST", path, `{"reason":"不想要了"}`)
			if status != 202 || answer["status"] != "refunding" || answer["redeemCode"] != nil {
				t.Fatal(status, answer)
			}
		}
		if r, err := w.payments.Reconcile(t.Context()); err != nil || len(r.Differences) != 0 {
			t.Errorf("%+v %v", r, err)
		}
		w.turns(t)
		if got, left := w.status(t, o), w.stock(t); got != order.Refunded || left != 1 {
			t.Fatal(got, left)
		}
		if status, answer := w.call(t, buyer, "POST", path, `{}`); status != 409 || answer["code"] != "order.not_refundable" {
			t.Error("once more:", status, answer)
		}
		if n := w.number(t, `SELECT COUNT(*) FROM audit_log WHERE action = 'order.refund'`); n != 1 {
			t.Errorf("%d lines in the audit log", n)
		}
		w.conserved(t)
		w.paid(t, 102, "") // the unit is for sale again
		w.conserved(t)
	})
}

// P6: an operator may, and the order says that it was one.
func TestRefundByAnOperator(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.paid(t, buyer, "")
	if status, answer := w.call(t, operatorID, "POST", "/orders/"+o.String()+"/refund", ""); status != 202 {
		t.Fatal(status, answer)
	}
	w.turns(t)
	if got := w.refunds(t); !slices.Equal(got, []string{"operator:done"}) {
		t.Error(got)
	}
	w.conserved(t)
}

// What isn't paid, or is used, has no money to give back.
func TestNotRefundable(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 2)
	unpaid, used := w.buy(t, buyer), w.paid(t, 101, "")
	exec(t, w.db, `UPDATE orders SET status = 3 WHERE id = ?`, int64(used))
	for o, user := range map[id.ID]id.ID{unpaid: buyer, used: 101} {
		if status, answer := w.call(t, user, "POST", "/orders/"+o.String()+"/refund", `{}`); status != 409 || answer["code"] != "order.not_refundable" {
			t.Error(status, answer)
		}
	}
	if got := w.refunds(t); len(got) != 0 {
		t.Error(got)
	}
}

// F48: ten wishes at one instant make one refund.
func TestDoubleRefund(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 1)
		o := w.paid(t, buyer, "")
		together(10, func(int) {
			if status, answer := w.call(t, buyer, "POST", "/orders/"+o.String()+"/refund", `{}`); status != 202 {
				t.Error(status, answer)
			}
		})
		together(3, func(int) { // several instances
			if err := w.payments.SendRefunds(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if got := w.refunds(t); !slices.Equal(got, []string{"buyer:done"}) {
			t.Error(got)
		}
		if n := w.number(t, `SELECT COUNT(*) FROM sandbox_refund`); n != 1 {
			t.Errorf("%d refunds at the provider", n)
		}
		w.conserved(t)
	})
}

// staff lets user 2 redeem for shop 3.
type staff struct{}

func (staff) RedeemsFor(context.Context, *identity.User) ([]id.ID, error) { return []id.ID{3}, nil }
func (staff) Names(context.Context, []id.ID) (map[id.ID]string, error)    { return nil, nil }
func (staff) PhoneTails(context.Context, []id.ID) (map[id.ID]string, error) {
	return nil, nil
}

// F48: the refund and the clerk at one instant: one wins, and what is used isn't refunded.
func TestRefundAgainstUse(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		n := rounds(db, 200)
		w := newTill(t, db, int64(n))
		redeemer := &order.Redeemer{DB: db, Shops: staff{}, Buyers: staff{}, Now: w.Now, Changed: func([]id.ID) {}}
		clerk := identity.With(t.Context(), &identity.Caller{User: &identity.User{ID: 2, Roles: []identity.Role{identity.Merchant}}})
		wins := 0
		for round := range n {
			user := id.ID(1000 + round)
			o := w.paid(t, user, "")
			var code string
			must(t, db.Read.NewRaw(`SELECT code FROM redeem_code WHERE order_id = ?`, o).Scan(t.Context(), &code))
			var refunded, used bool
			together(2, func(i int) {
				if i == 1 {
					_, err := redeemer.Redeem(clerk, code)
					if used = err == nil; !used && !errors.Is(err, order.ErrCodeRefunded) {
						t.Error(err)
					}
					return
				}
				for range round % 4 { // a redemption reads more before it writes
					_ = w.number(t, `SELECT COUNT(*) FROM redeem_code`)
				}
				var err error
				if refunded, err = w.payments.Refund(t.Context(), o, order.ReasonBuyer, order.ByUser(user)); err != nil {
					t.Error(err)
				}
			})
			if refunded == used {
				t.Fatalf("round %d: refunded %v, used %v", round, refunded, used)
			}
			if used {
				wins++
			}
		}
		t.Logf("%d of %d used", wins, n)
		w.turns(t)
		w.conserved(t)
	})
}

// F49: the provider is down for many turns, its answers are lost, it takes its time: asked again and again with one id,
// ever more seldom, and the money goes once.
func TestRefundUntilKnown(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 3)
		var mu sync.Mutex
		ids := map[id.ID]map[id.ID]int{} // refund ids by payment
		seen := func(r payment.RefundRequest) {
			mu.Lock()
			defer mu.Unlock()
			if ids[r.PaymentID] == nil {
				ids[r.PaymentID] = map[id.ID]int{}
			}
			ids[r.PaymentID][r.RefundID]++
		}
		w.provider.refs.Store(&seen)
		orders := []id.ID{w.paid(t, buyer, ""), w.paid(t, 101, "unknown"), w.paid(t, 102, "slow")}
		for i, o := range orders {
			if ok, err := w.payments.Refund(t.Context(), o, order.ReasonBuyer, order.ByUser(buyer+id.ID(i))); err != nil || !ok {
				t.Fatal(ok, err)
			}
		}
		down := func(string) (bool, bool) { return true, false }
		w.provider.fate.Store(&down)
		turns := 0
		for range 600 { // ten minutes, a turn each second
			if err := w.payments.SendRefunds(t.Context()); err != nil {
				turns++
			}
			w.advance(time.Second)
		}
		if attempts := w.number(t, `SELECT MAX(attempts) FROM refund`); attempts < 8 || attempts > 12 {
			t.Errorf("%d attempts in ten minutes", attempts)
		}
		if turns == 0 || w.counted(t, "tandian_payment_unknown_total", "refund") == 0 {
			t.Error("a provider that is down isn't noticed")
		}
		unheard := func(string) (bool, bool) { return false, true }
		w.provider.fate.Store(&unheard) // it hears, and isn't heard
		for range 10 {
			_ = w.payments.SendRefunds(t.Context())
			w.advance(5 * time.Minute)
		}
		if n := w.number(t, `SELECT COUNT(*) FROM refund WHERE status = 1`); n != 3 {
			t.Errorf("%d refunds wait for an answer", n)
		}
		if r, err := w.payments.Reconcile(t.Context()); err != nil || len(r.Differences) != 3 || r.Differences[0].Kind != payment.KindStuck {
			t.Errorf("%+v %v", r, err)
		}
		w.provider.fate.Store(nil)
		for range 10 {
			_ = w.payments.SendRefunds(t.Context())
			w.advance(5 * time.Minute)
		}
		must(t, w.releaser.Turn(t.Context()))
		for _, o := range orders {
			if got := w.status(t, o); got != order.Refunded {
				t.Error(got)
			}
		}
		for p, refunds := range ids {
			if len(refunds) != 1 {
				t.Errorf("payment %d was refunded under %v", p, refunds)
			}
		}
		if n := w.number(t, `SELECT COUNT(*) FROM sandbox_refund`); n != 3 || w.stock(t) != 3 {
			t.Error(n, w.stock(t))
		}
		w.conserved(t)
	})
}

// A refund that the provider refuses is for a person: told, counted, and not tried for ever.
func TestRefundRefused(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.paid(t, buyer, "refused")
	if status, answer := w.call(t, buyer, "POST", "/orders/"+o.String()+"/refund", `{}`); status != 202 {
		t.Fatal(status, answer)
	}
	w.turns(t)
	w.advance(time.Hour)
	w.turns(t)
	_, answer := w.call(t, buyer, "GET", "/orders/"+o.String(), "")
	if refund, _ := answer["refund"].(map[string]any); answer["status"] != "refunding" || refund["status"] != "refused" {
		t.Error(answer)
	}
	if n := w.number(t, `SELECT attempts FROM refund`); n != 1 || w.counted(t, "tandian_refunds_total", "refused") != 1 {
		t.Error(n)
	}
	if r, err := w.payments.Reconcile(t.Context()); err != nil || len(r.Differences) != 1 || r.Differences[0].Kind != payment.KindRefused {
		t.Errorf("%+v %v", r, err)
	}
	again := "/orders/" + o.String() + "/refund"
	w.call(t, buyer, "POST", again, `{}`)
	if got := w.refunds(t); !slices.Equal(got, []string{"buyer:refused"}) {
		t.Error("the buyer can't have it tried again:", got)
	}
	exec(t, w.db, `UPDATE sandbox_refund SET status = 2`) // the provider has been talked to
	if status, answer := w.call(t, operatorID, "POST", again, `{}`); status != 202 {
		t.Error(status, answer)
	}
	w.turns(t)
	if got := w.refunds(t); !slices.Equal(got, []string{"buyer:done"}) || w.status(t, o) != order.Refunded {
		t.Error(got, w.status(t, o))
	}
	w.conserved(t)
}

// F49: a provider that takes so long that another instance has asked and been answered meanwhile: counted once.
func TestRefundAnsweredTwice(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.paid(t, buyer, "")
	if ok, err := w.payments.Refund(t.Context(), o, order.ReasonBuyer, order.System); err != nil || !ok {
		t.Fatal(ok, err)
	}
	nested := false
	slow := func(payment.RefundRequest) {
		if !nested {
			nested = true
			w.advance(10 * time.Second)
			if err := w.payments.SendRefunds(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	w.provider.refs.Store(&slow)
	must(t, w.payments.SendRefunds(t.Context()))
	if n := w.counted(t, "tandian_refunds_total", "done"); n != 1 || w.status(t, o) != order.Refunded {
		t.Error(n, w.status(t, o))
	}
	w.conserved(t)
}

// F49: a refund that the provider thinks about holds up no other.
func TestRefundsWaitBesideEachOther(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 2)
	orders := []id.ID{w.paid(t, buyer, ""), w.paid(t, 101, "")}
	for i, o := range orders {
		if moved, err := w.payments.Refund(t.Context(), o, order.ReasonBuyer, order.ByUser(buyer+id.ID(i))); err != nil || !moved {
			t.Fatal(moved, err)
		}
	}
	first := idOf(w.number(t, `SELECT payment_id FROM refund ORDER BY id LIMIT 1`))
	second := make(chan struct{})
	thinking := func(r payment.RefundRequest) {
		if r.PaymentID != first {
			close(second)
			return
		}
		select {
		case <-second:
		case <-time.After(10 * time.Second):
			t.Error("the second waits for the first")
		}
	}
	w.provider.refs.Store(&thinking)
	must(t, w.payments.SendRefunds(t.Context()))
	for _, o := range orders {
		if got := w.status(t, o); got != order.Refunded {
			t.Error(got)
		}
	}
	w.conserved(t)
}

// A database that can be read and not written: a turn says so and ends, however many refunds are due.
func TestRefundsThatNobodyCanClaim(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	for i := range 150 {
		exec(t, w.db, `INSERT INTO refund (order_id, payment_id, amount, reason, status, attempts, next_at, created_at, updated_at) VALUES (?, ?, 1, 'late', 1, 0, 1, 1, 1)`, i+1, i+1)
	}
	exec(t, w.db, `CREATE TRIGGER readonly BEFORE UPDATE ON refund BEGIN SELECT RAISE(ABORT, 'read-only'); END`)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := w.payments.SendRefunds(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// Nobody knows whether the wish for a refund was committed: the buyer is told so, not that something is broken.
func TestRefundOfWhichNobodyKnows(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.paid(t, buyer, "")
	exec(t, w.db, `CREATE TABLE nobody (id INTEGER PRIMARY KEY)`)
	exec(t, w.db, `CREATE TABLE wants (id INTEGER REFERENCES nobody (id) DEFERRABLE INITIALLY DEFERRED)`)
	exec(t, w.db, `CREATE TRIGGER unsure AFTER INSERT ON refund BEGIN INSERT INTO wants VALUES (1); END`) // seen when it is committed
	if status, answer := w.call(t, buyer, "POST", "/orders/"+o.String()+"/refund", `{}`); status != 503 || answer["code"] != "order.unknown" {
		t.Error(status, answer)
	}
}

// F48: a refund is the whole of what was paid, whatever is asked for.
func TestPartialRefund(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.paid(t, buyer, "")
	path := "/orders/" + o.String() + "/refund"
	for _, body := range []string{`{"amount":60}`, `{"amount":-1}`, `{"reason":"r","amount":4750}`, `{"refundId":"1"}`} {
		if status, answer := w.call(t, buyer, "POST", path, body); status != 422 || answer["code"] != "request.invalid" || w.status(t, o) != order.Paid {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	for range 2 {
		if status, answer := w.call(t, buyer, "POST", path, `{}`); status != 202 {
			t.Error(status, answer)
		}
	}
	w.turns(t)
	if n := w.number(t, `SELECT SUM(amount) FROM sandbox_refund`); n != price {
		t.Errorf("%d of %d went back", n, price)
	}
	w.conserved(t)
}

// P9: the expirer's refund goes the same way.
func TestExpiredIsRefunded(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.paid(t, buyer, "")
	w.advance(11 * 24 * time.Hour)
	expirer := &order.Expirer{DB: w.db, Payments: w.payments, Now: w.Now, Log: w.closer.Log}
	must(t, expirer.Turn(t.Context()))
	w.turns(t)
	if got := w.refunds(t); !slices.Equal(got, []string{"expired:done"}) || w.status(t, o) != order.Refunded {
		t.Error(got, w.status(t, o))
	}
	w.conserved(t)
}
