package e2e

import (
	"strings"
	"testing"
)

// pays pays an order at the cashier and returns its redeem code.
func (s *server) pays(t *testing.T, token, orderID string) (code string) {
	t.Helper()
	s.must(t, 200, "POST", s.toCashier(t, token, orderID), "", `{"action":"pay"}`)
	s.reaches(t, token, orderID, "paid")
	code, _ = s.must(t, 200, "GET", "/api/v1/orders/"+orderID, token, "").Body["redeemCode"].(string)
	if len(code) != 12 {
		t.Fatalf("the code is %q", code)
	}
	return code
}

// grabOneOf makes a sale of one unit at a shop, buys it and waits for the order.
func (s *server) grabOneOf(t *testing.T, operator, token, shopID string) (orderID string) {
	t.Helper()
	sale := s.newSaleOf(t, operator, shopID, 1, 1)
	orderID = s.must(t, 202, "POST", "/api/v1/sales/"+sale+"/orders", token, "").Body["orderId"].(string)
	s.reaches(t, token, orderID, "unpaid")
	return orderID
}

// P7: a clerk, made and bound to a shop by the command line, looks at a code, redeems it, takes that back and redeems it
// again; whoever isn't the shop's hears so and changes nothing. What is used isn't refunded, what is refunded isn't used.
func TestRedeemAtTheCounter(t *testing.T) {
	dir := t.TempDir()
	if out, code := output(t, "seed", "--data-dir", dir); code != 0 {
		t.Fatal(out)
	}
	clerks := map[string]string{"1": "13900000001", "2": "13900000002"} // by shop
	passwords := map[string]string{}
	for shop, phone := range clerks {
		out, code := output(t, "admin", "create", "--data-dir", dir, "--phone", phone, "--role", "clerk", "--shop", shop)
		_, passwords[shop], _ = strings.Cut(strings.TrimSpace(out), "shown only here: ")
		if code != 0 || passwords[shop] == "" {
			t.Fatal(code, out)
		}
	}
	s := start(t, binary(t, ""), dir, "--demo")
	operator, buyer := s.signIn(t, operatorPhone), s.signIn(t, shopperPhone)
	clerk := s.must(t, 201, "POST", "/api/v1/auth/sessions", "", `{"phone":"`+clerks["1"]+`","password":"`+passwords["1"]+`"}`).Body["token"].(string)
	stranger := s.must(t, 201, "POST", "/api/v1/auth/sessions", "", `{"phone":"`+clerks["2"]+`","password":"`+passwords["2"]+`"}`).Body["token"].(string)
	order := s.grabOneOf(t, operator, buyer, "1")
	code := s.pays(t, buyer, order)

	for name, token := range map[string]string{"nobody": "", "the buyer": buyer} {
		want := map[string]int{"nobody": 401, "the buyer": 403}[name]
		for _, op := range []string{"GET /redemptions/" + code, "POST /redemptions", "POST /redemptions/" + order + "/undo", "GET /redemptions"} {
			method, path, _ := strings.Cut(op, " ")
			body := map[bool]string{true: `{"code":"` + code + `"}`}[op == "POST /redemptions"]
			if a := s.do(t, method, "/api/v1"+path, token, body); a.Status != want {
				t.Errorf("%s, %s: %d %s", name, op, a.Status, a.Text)
			}
		}
	}
	if a := s.must(t, 200, "GET", "/api/v1/redemptions/"+code, stranger, ""); a.Body["refusal"] != "other_shop" || a.Body["orderId"] != nil || a.Body["buyer"] != nil || a.Body["redeemable"] != false {
		t.Error(a.Text)
	}
	if a := s.do(t, "POST", "/api/v1/redemptions", stranger, `{"code":"`+code+`"}`); a.Status != 403 || a.Body["code"] != "redeem.other_shop" {
		t.Error(a.Status, a.Text)
	}
	grouped := code[:4] + " " + code[4:8] + "-" + code[8:]
	if a := s.must(t, 200, "GET", "/api/v1/redemptions/"+strings.ReplaceAll(grouped, " ", "%20"), clerk, ""); a.Body["redeemable"] != true || a.Body["status"] != "paid" || a.Body["buyer"] != "尾号 0004" {
		t.Error(a.Text)
	}
	redeem := func(token string) answer {
		return s.do(t, "POST", "/api/v1/redemptions", token, `{"code":"`+grouped+`"}`)
	}
	if a := redeem(clerk); a.Status != 201 || a.Body["status"] != "used" || a.Body["undoBefore"] == nil {
		t.Fatal(a.Status, a.Text)
	}
	if a := redeem(clerk); a.Status != 409 || a.Body["code"] != "redeem.used" || a.Body["redeemedAt"] == nil {
		t.Error(a.Status, a.Text)
	}
	if a := s.do(t, "POST", "/api/v1/orders/"+order+"/refund", buyer, `{}`); a.Status != 409 || a.Body["code"] != "order.not_refundable" {
		t.Error("a used one was refunded", a.Status, a.Text)
	}
	if a := s.do(t, "POST", "/api/v1/redemptions/"+order+"/undo", stranger, ""); a.Status != 403 {
		t.Error(a.Status, a.Text)
	}
	for range 2 { // a repeat does nothing
		if a := s.must(t, 200, "POST", "/api/v1/redemptions/"+order+"/undo", clerk, ""); a.Body["status"] != "paid" {
			t.Error(a.Text)
		}
	}
	if a := redeem(s.signIn(t, operatorPhone)); a.Status != 201 {
		t.Error("an operator:", a.Status, a.Text)
	}
	if a := s.must(t, 200, "GET", "/api/v1/orders/"+order, buyer, ""); a.Body["status"] != "used" || a.Body["redeemCode"] != nil || len(a.Body["history"].([]any)) != 5 {
		t.Error(a.Text)
	}
	if a := s.must(t, 200, "GET", "/api/v1/redemptions", clerk, ""); len(a.Body["items"].([]any)) != 1 {
		t.Error(a.Text)
	}

	refunded := s.grabOneOf(t, operator, buyer, "1")
	code = s.pays(t, buyer, refunded)
	s.must(t, 202, "POST", "/api/v1/orders/"+refunded+"/refund", buyer, `{}`)
	if a := s.do(t, "POST", "/api/v1/redemptions", clerk, `{"code":"`+code+`"}`); a.Status != 409 || a.Body["code"] != "redeem.refunded" {
		t.Error(a.Status, a.Text)
	}
	s.reaches(t, buyer, refunded, "refunded")
	if out, code := output(t, "reconcile", "--money", "--data-dir", dir); code != 0 || !strings.Contains(out, "no differences") {
		t.Errorf("exit %d\n%s", code, out)
	}
}
