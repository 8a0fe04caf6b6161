package payment_test

import (
	"bytes"
	"net/http"
	"sync"
	"testing"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
	"tandian/internal/payment"
	"tandian/internal/payment/sandbox"
)

const buyer id.ID = 100

// together lets n calls loose at one instant and waits for them.
func together(n int, call func(i int)) {
	var ready, done sync.WaitGroup
	gate := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-gate
			call(i)
		})
	}
	ready.Wait()
	close(gate)
	done.Wait()
}

// F42: a callback comes a hundred times at once, and once more the next day: one change, a hundred and one equal answers.
func TestCallbackAHundredTimes(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 1)
		o := w.buy(t, buyer)
		p := w.begin(t, buyer, o)
		n := w.paidNotice(p.ID)
		together(100, func(int) {
			if status, answer := w.tell(t, n); status != 200 || answer != `{"ok":true}` {
				t.Error(status, answer)
			}
		})
		w.advance(24 * time.Hour)
		n.sentAt = w.Now() // a delivery is signed anew
		w.mustTell(t, n)
		w.turns(t)
		if got := w.status(t, o); got != order.Paid {
			t.Fatal(got)
		}
		if moves := w.number(t, `SELECT COUNT(*) FROM order_move WHERE order_id = ?`, o); moves != 1 {
			t.Errorf("%d moves", moves)
		}
		if codes := w.number(t, `SELECT COUNT(*) FROM redeem_code`); codes != 1 {
			t.Errorf("%d redeem codes", codes)
		}
		if got := w.counted(t, "tandian_payments_total", "paid"); got != 1 {
			t.Errorf("counted as paid %v times", got)
		}
		if notices, waiting := w.number(t, `SELECT COUNT(*) FROM payment_notice`), w.number(t, `SELECT COUNT(*) FROM payment_notice WHERE applied_at IS NULL`); notices != 1 || waiting != 0 {
			t.Errorf("%d notices kept, %d waiting", notices, waiting)
		}
		if len(w.refunds(t)) != 0 {
			t.Error(w.refunds(t))
		}
		w.conserved(t)
	})
}

// F42: each callback with a number of its own: the conditional update is the guard, not the number.
func TestCallbacksOfManyNumbers(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.buy(t, buyer)
	p := w.begin(t, buyer, o)
	together(20, func(i int) {
		n := w.paidNotice(p.ID)
		n.id += "-" + id.ID(i+1).String()
		if status, answer := w.tell(t, n); status != 200 {
			t.Error(status, answer)
		}
	})
	if got := w.status(t, o); got != order.Paid || len(w.refunds(t)) != 0 {
		t.Error(got, w.refunds(t))
	}
	w.conserved(t)
}

// F45: the callback comes before the order's row, and even before the payment's: kept, and applied when they are there.
func TestCallbackBeforeItsRows(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 2)
		o, err := w.sales.Grab(t.Context(), buyer, w.sale, "key-of-the-buyer")
		must(t, err)
		if _, err := w.payments.Pay(t.Context(), buyer, o, sandbox.Name); err == nil {
			t.Fatal("an order in the queue can't be paid yet")
		}
		const unknown = 77
		w.mustTell(t, w.paidNotice(unknown))
		w.turns(t)
		if n := w.number(t, `SELECT COUNT(*) FROM payment_notice WHERE applied_at IS NULL`); n != 1 {
			t.Fatalf("%d notices wait", n)
		}
		exec(t, db, `INSERT INTO payment (id, order_id, provider, amount, status, created_at, updated_at) VALUES (?, ?, 'sandbox', ?, 1, 1, 1)`, unknown, int64(o), price)
		w.turns(t)
		w.mustTell(t, w.paidNotice(unknown)) // again, with the payment and without the order
		if n := w.number(t, `SELECT COUNT(*) FROM payment WHERE status = 1`); n != 1 {
			t.Fatal("captured without an order")
		}
		w.advance(2 * time.Minute)
		if r, err := w.payments.Reconcile(t.Context()); err != nil || len(r.Differences) != 1 || r.Differences[0].Kind != payment.KindNotice {
			t.Errorf("%+v %v", r, err)
		}
		w.write(t)
		w.turns(t)
		if got := w.status(t, o); got != order.Paid {
			t.Fatal(got)
		}
		w.conserved(t)
	})
}

// F45, F46: a notice that came before its payment is compared with it all the same.
func TestEarlyNoticeIsCompared(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	o := w.buy(t, buyer)
	early := w.paidNotice(1)
	early.amount = 1
	w.mustTell(t, early)
	if p := w.begin(t, buyer, o); p.ID != 1 {
		t.Fatal(p.ID)
	}
	w.turns(t)
	if got := w.status(t, o); got != order.Unpaid || w.number(t, `SELECT status FROM payment`) != 1 {
		t.Error(got)
	}
	if r, err := w.payments.Reconcile(t.Context()); err != nil || len(r.Differences) != 1 || r.Differences[0].Kind != payment.KindNotice {
		t.Errorf("%+v %v", r, err)
	}
}

// W20, F46: what isn't the provider's, isn't for us, isn't fresh or isn't what we asked for changes nothing.
func TestRefusedNotices(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTill(t, db, 2)
		o := w.buy(t, buyer)
		p := w.begin(t, buyer, o)
		other := w.begin(t, 101, w.buy(t, 101))
		good := w.paidNotice(p.ID)
		without := func(names ...string) func(http.Header, []byte) []byte {
			return func(h http.Header, body []byte) []byte {
				for _, name := range names {
					h.Del(name)
				}
				return body
			}
		}
		set := func(name, value string) func(http.Header, []byte) []byte {
			return func(h http.Header, body []byte) []byte { h.Set(name, value); return body }
		}
		for name, tc := range map[string]struct {
			edit   func(n *notice)
			status int
			reason string
		}{
			"no signature":       {func(n *notice) { n.edit = without("X-Sandbox-Signature") }, 401, "signature"},
			"an empty signature": {func(n *notice) { n.edit = set("X-Sandbox-Signature", "") }, 401, "signature"},
			"no headers at all":  {func(n *notice) { n.edit = without("X-Sandbox-Signature", "X-Sandbox-Nonce", "X-Sandbox-Timestamp") }, 401, "signature"},
			"no nonce":           {func(n *notice) { n.edit = without("X-Sandbox-Nonce") }, 401, "signature"},
			"another nonce":      {func(n *notice) { n.edit = set("X-Sandbox-Nonce", "another") }, 401, "signature"},
			"another secret":     {func(n *notice) { n.secret = "guessed" }, 401, "signature"},
			"half a signature": {func(n *notice) {
				n.edit = func(h http.Header, b []byte) []byte {
					h.Set("X-Sandbox-Signature", h.Get("X-Sandbox-Signature")[:32])
					return b
				}
			}, 401, "signature"},
			"not hex": {func(n *notice) { n.edit = set("X-Sandbox-Signature", "zz") }, 401, "signature"},
			"the body of another": {func(n *notice) {
				n.edit = func(_ http.Header, b []byte) []byte { return bytes.Replace(b, []byte("4750"), []byte("4751"), 1) }
			}, 401, "signature"},
			"a younger timestamp":     {func(n *notice) { n.sentAt = w.Now().Add(-time.Hour); n.edit = set("X-Sandbox-Timestamp", "1903860000") }, 401, "signature"},
			"stale":                   {func(n *notice) { n.sentAt = w.Now().Add(-5*time.Minute - time.Second) }, 401, "stale"},
			"from the future":         {func(n *notice) { n.sentAt = w.Now().Add(5*time.Minute + time.Second) }, 401, "stale"},
			"another merchant":        {func(n *notice) { n.merchant = "somebody" }, 401, "merchant"},
			"another currency":        {func(n *notice) { n.currency = "IDR" }, 401, "currency"},
			"an unknown state":        {func(n *notice) { n.state = "maybe" }, 401, "body"},
			"no number":               {func(n *notice) { n.id = "" }, 401, "body"},
			"one fen":                 {func(n *notice) { n.amount = 1 }, 400, "amount"},
			"a fen too much":          {func(n *notice) { n.amount = price + 1 }, 400, "amount"},
			"less than nothing":       {func(n *notice) { n.amount = -price }, 400, "amount"},
			"never paid":              {func(n *notice) { n.paidAt = 0 }, 400, "body"},
			"of another order, wrong": {func(n *notice) { n.payment, n.amount = other.ID, 1 }, 400, "amount"},
		} {
			t.Run(name, func(t *testing.T) {
				n := good
				tc.edit(&n)
				before := w.counted(t, "tandian_payment_notices_refused_total", tc.reason)
				if status, answer := w.tell(t, n); status != tc.status {
					t.Errorf("%d %s", status, answer)
				}
				if got := w.counted(t, "tandian_payment_notices_refused_total", tc.reason); got != before+1 {
					t.Errorf("counted %v times as %s", got-before, tc.reason)
				}
			})
		}
		if rows := w.number(t, `SELECT (SELECT COUNT(*) FROM payment_notice) + (SELECT COUNT(*) FROM order_move) + (SELECT COUNT(*) FROM refund) + (SELECT COUNT(*) FROM payment WHERE status <> 1)`); rows != 0 {
			t.Fatalf("something changed: %d", rows)
		}
		w.mustTell(t, good) // and the right one is believed
		if got := w.status(t, o); got != order.Paid {
			t.Error(got)
		}
	})
}

// A provider that isn't offered, and a body that is no document, are refused like everything else.
func TestNoticeOfNobody(t *testing.T) {
	w := newTill(t, storetest.SQLite(t), 1)
	if status, answer := w.call(t, 0, "POST", "/payments/nobody/notify", `{}`); status != 422 || answer["code"] != "payment.no_provider" {
		t.Error(status, answer)
	}
	if status, answer := w.call(t, 0, "POST", "/payments/sandbox/notify", `{"state":"paid"}`); status != 401 || answer["code"] != "payment.notice_invalid" {
		t.Error(status, answer)
	}
}
