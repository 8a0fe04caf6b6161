package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// merchantName is whom the sandbox takes us for.
const merchantName = "tandian-sandbox"

// callback is a notification of the sandbox's that a test signs itself, or gets wrong.
type callback struct {
	body   string
	at     time.Time
	secret []byte
	header []string // instead of the right ones
}

// paidCallback says that a payment of 47.50 is paid.
func paidCallback(secret []byte, paymentID string) callback {
	return callback{at: time.Now(), secret: secret,
		body: fmt.Sprintf(`{"noticeId":"by-hand-%[1]s","merchantId":%[2]q,"paymentId":%[1]q,"tradeNo":"trade-%[1]s","state":"paid","amount":4750,"currency":"CNY","paidAt":%[3]d}`,
			paymentID, merchantName, time.Now().UnixMilli())}
}

// sandboxSecret is what an embedded server's sandbox signs with.
func sandboxSecret(t *testing.T, dir string) []byte {
	t.Helper()
	secret, err := os.ReadFile(filepath.Join(dir, "sandbox.key"))
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

// notify delivers a callback.
func (s *server) notify(t *testing.T, c callback) answer {
	t.Helper()
	at := strconv.FormatInt(c.at.Unix(), 10)
	sum := hmac.New(sha256.New, c.secret)
	fmt.Fprintf(sum, "%s\n%s\n%s", at, "nonce-1", c.body)
	header := append([]string{"X-Sandbox-Timestamp", at, "X-Sandbox-Nonce", "nonce-1", "X-Sandbox-Signature", hex.EncodeToString(sum.Sum(nil))}, c.header...)
	return s.do(t, "POST", "/api/v1/payments/sandbox/notify", "", c.body, header...)
}

// begin begins to pay and returns the payment's id.
func (s *server) begin(t *testing.T, token, orderID string) (paymentID string) {
	t.Helper()
	return s.must(t, 201, "POST", "/api/v1/orders/"+orderID+"/payments", token, `{"provider":"sandbox"}`).Body["paymentId"].(string)
}

// W20, F46: what isn't the provider's, isn't for us, isn't fresh or isn't what was asked for is refused and changes nothing;
// then the right one is believed, once, however often it comes (F42).
func TestForgedCallbacks(t *testing.T) {
	dir := t.TempDir()
	s := start(t, binary(t, ""), dir, "--demo")
	operator, token := s.signIn(t, operatorPhone), s.signIn(t, shopperPhone)
	secret := sandboxSecret(t, dir)
	order, other := s.grabOne(t, operator, token), s.grabOne(t, operator, token)
	payment, dearer := s.begin(t, token, order), s.begin(t, token, other)
	edit := func(old, with string) func(c *callback) {
		return func(c *callback) { c.body = strings.Replace(c.body, old, with, 1) }
	}
	set := func(name, value string) func(c *callback) {
		return func(c *callback) { c.header = []string{name, value} }
	}
	for name, tc := range map[string]struct {
		change func(c *callback)
		status int
	}{
		"an empty signature":       {set("X-Sandbox-Signature", ""), 401},
		"a signature of nothing":   {set("X-Sandbox-Signature", hex.EncodeToString(make([]byte, 32))), 401},
		"of another secret":        {func(c *callback) { c.secret = []byte("0123456789abcdef0123456789abcdef") }, 401},
		"of another delivery":      {set("X-Sandbox-Nonce", "nonce-2"), 401},
		"of another time":          {set("X-Sandbox-Timestamp", strconv.FormatInt(time.Now().Unix()+60, 10)), 401},
		"six minutes old":          {func(c *callback) { c.at = c.at.Add(-6 * time.Minute) }, 401},
		"from the future":          {func(c *callback) { c.at = c.at.Add(6 * time.Minute) }, 401},
		"another merchant":         {edit(merchantName, "somebody-else"), 401},
		"another currency":         {edit("CNY", "USD"), 401},
		"one fen":                  {edit("4750", "1"), 400},
		"a cent of a yuan":         {edit("4750", "0.01"), 401},
		"a negative amount":        {edit("4750", "-4750"), 400},
		"too much":                 {edit("4750", "475000"), 400},
		"a field that isn't known": {edit(`{`, `{"status":2,`), 401},
		"two documents":            {func(c *callback) { c.body += c.body }, 401},
		"no document":              {func(c *callback) { c.body = "state=paid&amount=4750" }, 401},
		"of another order, wrong":  {func(c *callback) { *c = paidCallback(secret, dearer); edit("4750", "4751")(c) }, 400},
		"ten megabytes":            {func(c *callback) { c.body = strings.Repeat(" ", 10<<20) + c.body }, 413},
	} {
		c := paidCallback(secret, payment)
		tc.change(&c)
		if a := s.notify(t, c); a.Status != tc.status || a.Body["code"] == nil {
			t.Errorf("%s: %d %.200s, want %d", name, a.Status, a.Text, tc.status)
		}
	}
	good := paidCallback(secret, payment)
	if a := s.do(t, "POST", "/api/v1/payments/sandbox/notify", "", good.body); a.Status != 401 {
		t.Errorf("without a signature: %d %s", a.Status, a.Text)
	}
	if a := s.do(t, "POST", "/api/v1/payments/sandbox/notify", token, good.body, "Cookie", "tandian_session="+token, "Content-Type", "application/x-www-form-urlencoded"); a.Status != 401 {
		t.Errorf("with a session instead: %d %s", a.Status, a.Text)
	}
	for _, o := range []string{order, other} {
		a := s.must(t, 200, "GET", "/api/v1/orders/"+o, token, "")
		if tries := a.Body["payments"].([]any); a.Body["status"] != "unpaid" || len(a.Body["history"].([]any)) != 1 || tries[0].(map[string]any)["status"] != "open" {
			t.Errorf("something changed: %s", a.Text)
		}
	}
	for range 3 { // byte for byte the same: a replay
		if a := s.notify(t, good); a.Status != 200 {
			t.Fatal(a.Status, a.Text)
		}
	}
	a := s.must(t, 200, "GET", "/api/v1/orders/"+order, token, "")
	if a.Body["status"] != "paid" || len(a.Body["history"].([]any)) != 2 || a.Body["refund"] != nil {
		t.Error(a.Text)
	}
	if a := s.must(t, 200, "GET", "/api/v1/orders/"+other, token, ""); a.Body["status"] != "unpaid" {
		t.Error(a.Text)
	}
	if out, code := output(t, "reconcile", "--money", "--data-dir", dir); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// F45: the consumer stands still and the provider calls back about what has no row yet: kept over a restart, and applied
// when the rows are there.
func TestCallbackBeforeTheOrder(t *testing.T) {
	dir := t.TempDir()
	s := start(t, binary(t, ""), dir, "--demo", "--writers", "0")
	operator, token := s.signIn(t, operatorPhone), s.signIn(t, shopperPhone)
	sale := s.newSale(t, operator, 1, 1)
	waitForJournal(t, dir, 2)
	order := s.must(t, 202, "POST", "/api/v1/sales/"+sale+"/orders", token, "").Body["orderId"].(string)
	if a := s.do(t, "POST", "/api/v1/orders/"+order+"/payments", token, `{"provider":"sandbox"}`); a.Status != 409 || a.Body["code"] != "order.queued" {
		t.Error(a.Status, a.Text)
	}
	if a := s.notify(t, paidCallback(sandboxSecret(t, dir), "1")); a.Status != 200 {
		t.Fatal(a.Status, a.Text)
	}
	if err := s.stop(t); err != nil {
		t.Fatal(err)
	}
	s = start(t, binary(t, ""), dir, "--demo")
	s.reaches(t, token, order, "unpaid")
	if payment := s.begin(t, token, order); payment != "1" {
		t.Fatalf("the first payment is %s", payment)
	}
	s.reaches(t, token, order, "paid")
}

// W21: how much, and how many, is nobody's to say but the database's.
func TestAmountsAreTheDatabases(t *testing.T) {
	s := start(t, binary(t, ""), t.TempDir(), "--demo")
	operator, token := s.signIn(t, operatorPhone), s.signIn(t, shopperPhone)
	sale := s.newSale(t, operator, 5, 1)
	for _, body := range []string{`{"quantity":-1}`, `{"quantity":0}`, `{"quantity":2147483648}`, `{"quantity":1.5}`, `{"quantity":1}`, `{"amount":1}`, `{"price":1}`, `{"payValue":1}`} {
		if a := s.do(t, "POST", "/api/v1/sales/"+sale+"/orders", token, body); a.Status != 422 && a.Status != 400 {
			t.Errorf("%s: %d %s", body, a.Status, a.Text)
		}
	}
	if i := s.inspect(t, operator, sale); i.Gate.Stock != 5 || i.Gate.Orders != 0 {
		t.Errorf("%+v", i)
	}
	order := s.must(t, 202, "POST", "/api/v1/sales/"+sale+"/orders", token, "").Body["orderId"].(string)
	s.reaches(t, token, order, "unpaid")
	for _, body := range []string{`{"provider":"sandbox","amount":1}`, `{"provider":"sandbox","amount":0}`, `{"provider":"sandbox","price":"0.01"}`, `{"provider":"sandbox","orderId":"1"}`} {
		if a := s.do(t, "POST", "/api/v1/orders/"+order+"/payments", token, body); a.Status != 422 {
			t.Errorf("%s: %d %s", body, a.Status, a.Text)
		}
	}
	if a := s.must(t, 201, "POST", "/api/v1/orders/"+order+"/payments", token, `{"provider":"sandbox"}`); a.Body["amount"] != 4750.0 {
		t.Error(a.Text)
	}
}
