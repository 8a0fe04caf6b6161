package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// grabOne makes a sale of one unit, buys it and waits for the order.
func (s *server) grabOne(t *testing.T, operator, token string) (orderID string) {
	t.Helper()
	sale := s.newSale(t, operator, 1, 1)
	orderID = s.must(t, 202, "POST", "/api/v1/sales/"+sale+"/orders", token, "").Body["orderId"].(string)
	s.reaches(t, token, orderID, "unpaid")
	return orderID
}

func (s *server) reaches(t *testing.T, token, orderID, status string) {
	t.Helper()
	until(t, "the order is "+status, func() bool {
		return s.must(t, 200, "GET", "/api/v1/orders/"+orderID, token, "").Body["status"] == status
	})
}

// toCashier begins to pay and returns the cashier's address.
func (s *server) toCashier(t *testing.T, token, orderID string) (payURL string) {
	t.Helper()
	return s.must(t, 201, "POST", "/api/v1/orders/"+orderID+"/payments", token, `{"provider":"sandbox"}`).Body["payUrl"].(string)
}

// P5, P6: bought, paid at the cashier, refunded, bought again; and a callback that nobody had answered when the server
// was killed comes after its restart. The books agree, and a command says so, or not.
func TestBuyPayRefund(t *testing.T) {
	dir := t.TempDir()
	s := start(t, binary(t, ""), dir, "--demo")
	operator, token := s.signIn(t, operatorPhone), s.signIn(t, shopperPhone)
	waitForJournal(t, dir, 2)
	bought := s.grabOne(t, operator, token)
	address := s.toCashier(t, token, bought)
	if page := s.must(t, 200, "GET", address, "", "", "Accept-Language", "en"); !strings.Contains(page.Text, "Pay now") || !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error(page.Header, page.Text)
	}
	s.must(t, 200, "POST", address, "", `{"action":"pay"}`)
	s.reaches(t, token, bought, "paid")
	s.must(t, 202, "POST", "/api/v1/orders/"+bought+"/refund", token, `{"reason":"不想要了"}`)
	s.reaches(t, token, bought, "refunded")

	again := s.grabOne(t, operator, token)
	address = s.toCashier(t, token, again)
	s.must(t, 200, "POST", address, "", `{"action":"pay"}`)
	s.kill(t)
	key, err := os.ReadFile(filepath.Join(dir, "sandbox.key"))
	if err != nil || len(key) < 16 {
		t.Fatal(key, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "sandbox.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	s = start(t, binary(t, ""), dir, "--demo")
	s.reaches(t, token, again, "paid")
	if page := s.must(t, 200, "GET", address, "", ""); !strings.Contains(page.Text, "支付成功") {
		t.Error("the address from before the restart opens nothing:", page.Text)
	}

	if out, code := output(t, "reconcile", "--money", "--data-dir", dir); code != 0 || !strings.Contains(out, "no differences") || !strings.Contains(out, "¥47.50") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if _, err := openSQLite(t, dir).Write.ExecContext(t.Context(), `UPDATE payment SET amount = 1 WHERE order_id = `+again); err != nil {
		t.Fatal(err)
	}
	if out, code := output(t, "reconcile", "--money", "--data-dir", dir); code != 3 || !strings.Contains(out, "amount: The order has kept ¥0.01; its price is ¥47.50") || !strings.Contains(out, again) {
		t.Errorf("exit %d\n%s", code, out)
	}
	a := s.must(t, 200, "GET", "/api/v1/console/reconciliations/money", operator, "")
	if found := a.Body["found"].([]any); len(found) != 1 || a.Body["orders"] != 1.0 {
		t.Error(a.Text)
	}
	s.must(t, 403, "GET", "/api/v1/console/reconciliations/money", token, "")
	if out, code := output(t, "reconcile", "--money", "--sale", "1", "--data-dir", dir); code != 2 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// A server that wasn't asked for it has no sandbox, and one that was has it without demo data.
func TestSandboxOnlyOnRequest(t *testing.T) {
	dir := t.TempDir()
	s := start(t, binary(t, ""), dir, "--allow-test-users")
	token := s.testUsers(t, 1)[0]
	if a := s.do(t, "POST", "/api/v1/orders/1/payments", token, `{"provider":"sandbox"}`); a.Status != 422 || a.Body["code"] != "payment.no_provider" {
		t.Error(a.Status, a.Text)
	}
	if a := s.do(t, "POST", "/api/v1/payments/sandbox/notify", "", `{}`); a.Status != 422 {
		t.Error(a.Status, a.Text)
	}
	if a := s.do(t, "GET", "/sandbox/cashier.css", "", ""); a.Status == 200 && strings.HasPrefix(a.Header.Get("Content-Type"), "text/css") {
		t.Error("the cashier is there")
	}
	if err := s.stop(t); err != nil {
		t.Fatal(err)
	}
	s = start(t, binary(t, ""), dir, "--allow-test-users", "--payment-sandbox")
	if a := s.do(t, "POST", "/api/v1/orders/1/payments", s.testUsers(t, 1)[0], `{"provider":"sandbox"}`); a.Status != 404 || a.Body["code"] != "order.not_found" {
		t.Error(a.Status, a.Text)
	}
	if a := s.do(t, "GET", "/sandbox/cashier.css", "", ""); a.Status != 200 {
		t.Error(a.Status)
	}
}

// Two instances: a payment begun on one is paid at the other's cashier and called back to either.
func TestPayOnTwoInstances(t *testing.T) {
	w := production(t).streaming(t)
	first, second := w.launch(t, binary(t, ""), nil), w.launch(t, binary(t, ""), nil)
	operator, token := first.signIn(t, operatorPhone), first.signIn(t, shopperPhone)
	bought := first.grabOne(t, operator, token)
	address := first.toCashier(t, token, bought)
	second.must(t, http.StatusOK, "POST", address, "", `{"action":"pay","refunds":"slow"}`)
	second.reaches(t, token, bought, "paid")
	first.must(t, 202, "POST", "/api/v1/orders/"+bought+"/refund", token, "")
	second.reaches(t, token, bought, "refunded")
	if a := second.must(t, 200, "GET", "/api/v1/console/reconciliations/money", operator, ""); len(a.Body["found"].([]any)) != 0 {
		t.Error(a.Text)
	}
}
