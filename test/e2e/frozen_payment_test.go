package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"
)

// freeze stops the process as a long pause of its machine would.
func (s *server) freeze(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.frozen(t)
}

// deadline is when an order's time to be paid is over.
func (s *server) deadline(t *testing.T, token, orderID string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s.must(t, 200, "GET", "/api/v1/orders/"+orderID, token, "").Body["payBefore"].(string))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// F50: paid in time, and the process stands still until five seconds after the deadline: the provider's time counts, for
// one that was paid, and nothing else for one that wasn't. What was under way when it froze is decided when it goes on.
func TestFrozenAcrossTheDeadline(t *testing.T) {
	dir := t.TempDir()
	s := start(t, binary(t, ""), dir, "--demo", "--pay-window", "6s")
	operator, token := s.signIn(t, operatorPhone), s.signIn(t, shopperPhone)
	paid, idle := s.grabOne(t, operator, token), s.grabOne(t, operator, token)
	deadline := s.deadline(t, token, idle)
	s.toCashier(t, token, idle)
	if a := s.must(t, 200, "POST", s.toCashier(t, token, paid), "", `{"action":"silent"}`); a.Body["state"] != "paid" {
		t.Fatal(a.Text)
	}
	s.freeze(t)
	var asking sync.WaitGroup
	asking.Go(func() { // asks to pay while nothing moves
		if a, err := s.try("POST", "/api/v1/orders/"+idle+"/payments", token, `{"provider":"sandbox"}`); err != nil || a.Status != 409 || a.Body["code"] != "order.not_payable" {
			t.Error(a.Status, a.Text, err)
		}
	})
	time.Sleep(time.Until(deadline.Add(5 * time.Second)))
	s.thaw(t)
	asking.Wait()
	s.reaches(t, token, paid, "paid")
	s.reaches(t, token, idle, "closed")
	if out, code := output(t, "reconcile", "--money", "--data-dir", dir); code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// F50: an instance freezes in the middle of the callback of an order that was paid in time; the other one asks the provider
// at the deadline. When the first goes on it finds the order paid, and so does nothing. A cashier's request that waited in
// the frozen one comes too late for an order that the other has closed.
func TestFrozenInTheCallback(t *testing.T) {
	w := production(t)
	awake := w.launch(t, binary(t, ""), nil, "--pay-window", "8s")
	stale := w.launch(t, binary(t, "fault"), []string{"FAILPOINT=before_capture:stop"}, "--pay-window", "8s")
	operator, token := awake.signIn(t, operatorPhone), awake.signIn(t, shopperPhone)
	paid, late := awake.grabOne(t, operator, token), awake.grabOne(t, operator, token)
	payment, address := awake.begin(t, token, paid), awake.toCashier(t, token, late)
	if a := awake.must(t, 200, "POST", awake.toCashier(t, token, paid), "", `{"action":"silent"}`); a.Body["state"] != "paid" {
		t.Fatal(a.Text)
	}
	secret := hmac.New(sha256.New, []byte("0123456789abcdef0123456789abcdef"))
	fmt.Fprint(secret, "tandian secret\nsandbox")
	news := paidCallback(secret.Sum(nil), payment)
	var asking sync.WaitGroup
	asking.Go(func() {
		if a := stale.notify(t, news); a.Status != 200 {
			t.Error(a.Status, a.Text)
		}
	})
	stale.frozen(t)
	asking.Go(func() {
		if a, err := stale.try("POST", address, "", `{"action":"pay"}`); err != nil || a.Status != 200 || a.Body["state"] == "paid" {
			t.Error(a.Status, a.Text, err)
		}
	})
	awake.reaches(t, token, paid, "paid")
	awake.reaches(t, token, late, "closed")
	stale.thaw(t)
	asking.Wait()
	stale.reaches(t, token, paid, "paid")
	stale.reaches(t, token, late, "closed")
	for id, moves := range map[string]int{paid: 2, late: 2} {
		if a := awake.must(t, 200, "GET", "/api/v1/orders/"+id, token, ""); len(a.Body["history"].([]any)) != moves || a.Body["refund"] != nil {
			t.Error(a.Text)
		}
	}
	if a := awake.must(t, 200, "GET", "/api/v1/console/reconciliations/money", operator, ""); len(a.Body["found"].([]any)) != 0 || a.Body["orders"] != 1.0 {
		t.Error(a.Text)
	}
}
