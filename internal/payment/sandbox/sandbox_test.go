package sandbox_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/payment"
	"tandian/internal/payment/sandbox"
)

// counter is a shop that the sandbox calls back; it answers with a status of the test's choice.
type counter struct {
	*sandbox.Sandbox
	db     *store.DB
	ms     atomic.Int64 // the clock
	status atomic.Int32 // of the answers
	got    chan delivery
}

type delivery struct {
	header http.Header
	body   []byte
}

const secret = "a secret of the sandbox's"

func (c *counter) Now() time.Time          { return store.Time(c.ms.Load()) }
func (c *counter) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

func newCounter(t *testing.T, db *store.DB) *counter {
	t.Helper()
	c := &counter{db: db, got: make(chan delivery, 100)}
	c.ms.Store(time.Date(2030, 5, 1, 10, 0, 0, 0, time.UTC).UnixMilli())
	c.status.Store(200)
	shop := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		c.got <- delivery{r.Header, body}
		w.WriteHeader(int(c.status.Load()))
	}))
	t.Cleanup(shop.Close)
	c.Sandbox = sandbox.New(sandbox.Options{DB: db, Secret: []byte(secret), NotifyURL: shop.URL, Now: c.Now, NewID: uuid.NewString, Log: slog.New(slog.DiscardHandler)})
	return c
}

// trade opens one and returns the cashier's address.
func (c *counter) trade(t *testing.T, paymentID id.ID) string {
	t.Helper()
	address, err := c.Create(t.Context(), payment.Charge{PaymentID: paymentID, OrderID: 5, Amount: 4750, Description: `100元<代金券> & "茶"`, ExpiresAt: c.Now().Add(30 * time.Minute), ReturnTo: "/order/5"})
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// ask requests a page of the cashier's, with a form if there is one.
func (c *counter) ask(t *testing.T, method, address string, form url.Values) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, address, strings.NewReader(form.Encode()))
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w
}

func (c *counter) turn(t *testing.T) error {
	t.Helper()
	return c.Call(t.Context())
}

func (c *counter) delivered() (list []delivery) {
	for {
		select {
		case d := <-c.got:
			list = append(list, d)
		default:
			return list
		}
	}
}

// A callback is delivered until it is answered, 1, 2, 4… seconds apart, with the same body and a signature of its own;
// each would be believed.
func TestCallbackUntilAnswered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newCounter(t, db)
		c.status.Store(503)
		if w := c.ask(t, "POST", c.trade(t, 7), url.Values{"action": {"pay"}}); w.Code != 303 {
			t.Fatal(w.Code, w.Body)
		}
		var seen []delivery
		for _, pause := range []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second} {
			c.advance(pause - time.Millisecond)
			if pause > 0 {
				if err := c.turn(t); err != nil || len(c.delivered()) != 0 {
					t.Fatal("delivered before its time", err)
				}
			}
			c.advance(time.Millisecond)
			if err := c.turn(t); err == nil {
				t.Error("a refusal is an answer to be told of")
			}
			d := c.delivered()
			if len(d) != 1 {
				t.Fatalf("%d deliveries after %v", len(d), pause)
			}
			n, err := c.Verify(d[0].header, d[0].body)
			if err != nil || n.PaymentID != 7 || n.Trade.Amount != 4750 || n.Trade.State != payment.TradePaid || n.Raw != string(d[0].body) {
				t.Errorf("%+v %v", n, err)
			}
			seen = append(seen, d[0])
		}
		for _, d := range seen[1:] {
			if !bytes.Equal(d.body, seen[0].body) || d.header.Get("X-Sandbox-Nonce") == seen[0].header.Get("X-Sandbox-Nonce") {
				t.Error("not the same message in a new envelope")
			}
		}
		c.status.Store(200)
		c.advance(8 * time.Second)
		if err := c.turn(t); err != nil || len(c.delivered()) != 1 {
			t.Fatal(err)
		}
		c.advance(time.Hour)
		if err := c.turn(t); err != nil || len(c.delivered()) != 0 {
			t.Error("delivered after the answer", err)
		}
	})
}

// Nobody is called back for ever.
func TestCallbackGivesUp(t *testing.T) {
	c := newCounter(t, storetest.SQLite(t))
	c.status.Store(500)
	c.ask(t, "POST", c.trade(t, 7), url.Values{"action": {"pay"}})
	for range 30 {
		_ = c.turn(t)
		c.advance(time.Hour)
	}
	if n := len(c.delivered()); n != 10 {
		t.Errorf("%d deliveries", n)
	}
}

// A callback that was not answered survives a restart, and is believed by whoever has the secret.
func TestCallbackAfterARestart(t *testing.T) {
	db := storetest.SQLite(t)
	c := newCounter(t, db)
	c.ask(t, "POST", c.trade(t, 7), url.Values{"action": {"pay"}})
	next := newCounter(t, db)
	if err := next.turn(t); err != nil {
		t.Fatal(err)
	}
	d := next.delivered()
	if len(d) != 1 {
		t.Fatal(len(d))
	}
	if _, err := c.Verify(d[0].header, d[0].body); err != nil {
		t.Error(err)
	}
}

// The page in both languages: nothing inline, nothing from elsewhere, nothing that isn't escaped; only for whoever has
// its key.
func TestCashierPage(t *testing.T) {
	c := newCounter(t, storetest.SQLite(t))
	address := c.trade(t, 7)
	for lang, words := range map[string][]string{"zh": {"立即支付", "模拟支付", "¥47.50", "支付失败", "超时后才到账", "支付成功但不通知", `lang="zh-CN"`}, "en": {"Pay now", "Sandbox", "¥47.50", `lang="en"`}} {
		w := c.ask(t, "GET", address+"&lang="+lang, nil)
		page := w.Body.String()
		for _, word := range append(words, `data-left="1800000"`, "100元&lt;代金券&gt;", `href="/order/5"`, "18:30:00") {
			if w.Code != 200 || !strings.Contains(page, word) {
				t.Errorf("%s: %d, no %q in\n%s", lang, w.Code, word, page)
			}
		}
		if inline := regexp.MustCompile(`(?i)<style|style=|<script>|\son[a-z]+=|javascript:|https?://|//[a-z]`).FindString(page); inline != "" {
			t.Errorf("the page holds %q", inline)
		}
		policy := w.Header().Get("Content-Security-Policy")
		if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") || w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Cache-Control") != "no-store" {
			t.Error(w.Header())
		}
	}
	for _, file := range []string{"/sandbox/cashier.css", "/sandbox/cashier.js"} {
		if w := c.ask(t, "GET", file, nil); w.Code != 200 || w.Body.Len() == 0 {
			t.Error(file, w.Code)
		}
	}
	other := c.trade(t, 8)
	_, key, _ := strings.Cut(other, "?")
	for _, strange := range []string{"/sandbox/pay/7", "/sandbox/pay/7?k=", "/sandbox/pay/7?" + key, "/sandbox/pay/9?" + key, "/sandbox/pay/x?" + key, "/sandbox/pay/0?k=x", "/sandbox/cashier.html", "/sandbox/"} {
		for _, method := range []string{"GET", "POST"} {
			if w := c.ask(t, method, strange, url.Values{"action": {"pay"}}); w.Code != 404 && w.Code != 405 {
				t.Errorf("%s %s: %d", method, strange, w.Code)
			}
		}
	}
	if trade, err := c.Query(t.Context(), 7); err != nil || trade.State != payment.TradeOpen {
		t.Error(trade, err)
	}
}

// What a buyer can do at the cashier, and what is shown and told afterwards.
func TestChoicesAtTheCashier(t *testing.T) {
	for action, want := range map[string]struct {
		state payment.TradeState
		page  string
		calls int
	}{
		"pay":    {payment.TradePaid, "支付成功", 1},
		"silent": {payment.TradePaid, "支付成功", 0},
		"fail":   {payment.TradeFailed, "支付失败", 1},
		"late":   {payment.TradeOpen, "款项在路上", 0},
		"steal":  {payment.TradeOpen, "立即支付", 0},
		"":       {payment.TradeOpen, "立即支付", 0},
	} {
		t.Run(action, func(t *testing.T) {
			c := newCounter(t, storetest.SQLite(t))
			address := c.trade(t, 7)
			for range 2 { // the second changes nothing
				c.ask(t, "POST", address, url.Values{"action": {action}})
			}
			if err := c.turn(t); err != nil {
				t.Fatal(err)
			}
			trade, err := c.Query(t.Context(), 7)
			if page := c.ask(t, "GET", address, nil).Body.String(); err != nil || trade.State != want.state || !strings.Contains(page, want.page) {
				t.Errorf("%v %v, page\n%s", trade, err, page)
			}
			if n := len(c.delivered()); n != want.calls {
				t.Errorf("%d callbacks", n)
			}
		})
	}
	t.Run("after the deadline", func(t *testing.T) {
		c := newCounter(t, storetest.SQLite(t))
		address := c.trade(t, 7)
		c.advance(30 * time.Minute)
		c.ask(t, "POST", address, url.Values{"action": {"pay"}})
		if trade, err := c.Query(t.Context(), 7); err != nil || trade.State == payment.TradePaid || !strings.Contains(c.ask(t, "GET", address, nil).Body.String(), "支付超时") {
			t.Error(trade, err)
		}
	})
}

// The port: what may be repeated may be, and what isn't known is told apart from no.
func TestPort(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		c := newCounter(t, db)
		if trade, err := c.Query(t.Context(), 7); err != nil || trade.State != payment.TradeAbsent {
			t.Error(trade, err)
		}
		if first, again := c.trade(t, 7), c.trade(t, 7); first != again {
			t.Error("another trade for the same payment")
		}
		if trade, err := c.Close(t.Context(), 7); err != nil || trade.State != payment.TradeClosed {
			t.Error(trade, err)
		}
		c.ask(t, "POST", c.trade(t, 8), url.Values{"action": {"pay"}})
		if trade, err := c.Close(t.Context(), 8); err != nil || trade.State != payment.TradePaid || trade.PaidAt != c.ms.Load() || trade.Amount != 4750 {
			t.Error(trade, err)
		}
		for name, tc := range map[string]struct {
			request payment.RefundRequest
			want    payment.RefundState
		}{
			"of nothing paid": {payment.RefundRequest{RefundID: 1, PaymentID: 7, Amount: 4750}, payment.RefundRefused},
			"of nothing":      {payment.RefundRequest{RefundID: 2, PaymentID: 9, Amount: 4750}, payment.RefundRefused},
			"too much":        {payment.RefundRequest{RefundID: 3, PaymentID: 8, Amount: 4751}, payment.RefundRefused},
			"all of it":       {payment.RefundRequest{RefundID: 4, PaymentID: 8, Amount: 4750}, payment.RefundDone},
		} {
			for range 2 {
				if got, err := c.Refund(t.Context(), tc.request); err != nil || got != tc.want {
					t.Errorf("%s: %v %v", name, got, err)
				}
			}
		}
		if got, err := c.QueryRefund(t.Context(), 99); err != nil || got != payment.RefundAbsent {
			t.Error(got, err)
		}
		if _, err := c.Verify(http.Header{}, nil); !errors.As(err, new(*payment.RefusedNoticeError)) {
			t.Error(err)
		}
	})
}
