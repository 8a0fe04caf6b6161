package payment_test

import (
	"errors"
	"strings"
	"testing"

	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
	"tandian/internal/payment"
)

// P5: from the click to the voucher, over HTTP all the way: cashier, signed callback, redeem code.
func TestPayAtTheCashier(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 1)
		o := w.buy(t, buyer)
		path := "/orders/" + o.String() + "/payments"
		status, first := w.call(t, buyer, "POST", path, `{"provider":"sandbox"}`)
		if status != 201 || first["amount"] != float64(price) || !strings.HasPrefix(first["payUrl"].(string), "/sandbox/pay/") || first["payBefore"] != "2030-05-01T18:30:00+08:00" {
			t.Fatal(status, first)
		}
		if status, again := w.call(t, buyer, "POST", path, `{"provider":"sandbox"}`); status != 201 || again["paymentId"] != first["paymentId"] || again["payUrl"] != first["payUrl"] {
			t.Error("a second click begins anew:", status, again)
		}
		w.choose(t, w.begin(t, buyer, o), "pay", "")
		must(t, w.sandbox.Call(t.Context()))
		_, answer := w.call(t, buyer, "GET", "/orders/"+o.String(), "")
		tries, _ := answer["payments"].([]any)
		if answer["status"] != "paid" || len(answer["redeemCode"].(string)) != 12 || len(tries) != 1 || tries[0].(map[string]any)["status"] != "captured" || answer["refund"] != nil {
			t.Error(answer)
		}
		if status, answer := w.call(t, buyer, "POST", path, `{"provider":"sandbox"}`); status != 409 || answer["code"] != "order.not_payable" {
			t.Error("paid twice:", status, answer)
		}
		w.conserved(t)
	})
}

// A payment that failed at the cashier is no end: the next attempt is another one.
func TestPayAgainAfterAFailure(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.buy(t, buyer)
	failed := w.begin(t, buyer, o)
	w.choose(t, failed, "fail", "")
	must(t, w.sandbox.Call(t.Context()))
	second := w.begin(t, buyer, o)
	if second.ID == failed.ID {
		t.Fatal("the failed attempt goes on")
	}
	w.choose(t, second, "pay", "")
	must(t, w.sandbox.Call(t.Context()))
	if got := w.status(t, o); got != order.Paid || len(w.refunds(t)) != 0 {
		t.Error(got, w.refunds(t))
	}
	w.conserved(t)
}

// What the provider knows and hasn't told counts when the buyer comes back: a failed trade is no cashier to send him to,
// and what is paid isn't paid again.
func TestPayAgainBeforeTheCallback(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.buy(t, buyer)
	failed := w.begin(t, buyer, o)
	w.choose(t, failed, "fail", "")
	second := w.begin(t, buyer, o)
	if second.ID == failed.ID {
		t.Fatal("sent to a cashier that takes no money")
	}
	w.choose(t, second, "silent", "")
	if _, err := w.payments.Pay(t.Context(), buyer, o, "sandbox"); !errors.Is(err, payment.ErrNotPayable) || w.status(t, o) != order.Paid {
		t.Error(err, w.status(t, o))
	}
	w.conserved(t)
}

// A provider that doesn't answer doesn't keep a buyer from the cashier that he was at.
func TestPayOnWithASilentProvider(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.buy(t, buyer)
	first := w.begin(t, buyer, o)
	silent := func(string) (bool, bool) { return true, false }
	w.provider.fate.Store(&silent)
	if again := w.begin(t, buyer, o); again.ID != first.ID || again.PayURL != first.PayURL {
		t.Errorf("%+v", again)
	}
}

// Who may pay what, and when. W21: nobody but the database says how much.
func TestWhatCanBePaid(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 2)
	o := w.buy(t, buyer)
	path := "/orders/" + o.String() + "/payments"
	for name, tc := range map[string]struct {
		user   int64
		path   string
		body   string
		status int
		code   string
	}{
		"nobody":               {0, path, `{"provider":"sandbox"}`, 401, "auth.required"},
		"another buyer's":      {101, path, `{"provider":"sandbox"}`, 404, "order.not_found"},
		"no such order":        {100, "/orders/5/payments", `{"provider":"sandbox"}`, 404, "order.not_found"},
		"no such provider":     {100, path, `{"provider":"cash"}`, 422, "payment.no_provider"},
		"an amount of one fen": {100, path, `{"provider":"sandbox","amount":1}`, 422, "request.invalid"},
		"no body":              {100, path, ``, 400, "request.malformed"},
	} {
		if status, answer := w.call(t, idOf(tc.user), "POST", tc.path, tc.body); status != tc.status || answer["code"] != tc.code {
			t.Errorf("%s: %d %v", name, status, answer)
		}
	}
	queued, err := w.sales.Grab(t.Context(), 102, w.sale, "key-of-another")
	must(t, err)
	if status, answer := w.call(t, 102, "POST", "/orders/"+queued.String()+"/payments", `{"provider":"sandbox"}`); status != 409 || answer["code"] != "order.queued" || answer["retryAfterMs"] != 500.0 {
		t.Error(status, answer)
	}
	w.advance(payWindow) // overdue, though nobody has closed it yet
	if status, answer := w.call(t, buyer, "POST", path, `{"provider":"sandbox"}`); status != 409 || answer["code"] != "order.not_payable" {
		t.Error(status, answer)
	}
	if n := w.number(t, `SELECT COUNT(*) FROM payment`); n != 0 {
		t.Errorf("%d attempts", n)
	}
}
