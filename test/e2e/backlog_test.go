package e2e

import (
	"fmt"
	"testing"
	"time"
)

// F34: while nobody writes orders a sale is sold and ends, and the deadline of all its orders passes. Then the backlog is
// written. Each order is told as what it is, nobody can pay it any more, it is closed, and its unit comes back.
func TestBacklogOlderThanItsDeadline(t *testing.T) {
	for name, launcher := range map[string]func(t *testing.T) func(args ...string) *server{
		"embedded": func(t *testing.T) func(args ...string) *server {
			dir := t.TempDir()
			return func(args ...string) *server { return start(t, binary(t, ""), dir, append(args, "--demo")...) }
		},
		"rabbit": func(t *testing.T) func(args ...string) *server {
			w := production(t)
			return func(args ...string) *server { return w.launch(t, binary(t, ""), nil, args...) }
		},
		"streams": func(t *testing.T) func(args ...string) *server {
			w := production(t).streaming(t)
			return func(args ...string) *server { return w.launch(t, binary(t, ""), nil, args...) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			const units = 30
			launch := launcher(t)
			s := launch("--writers", "0", "--pay-window", "2s")
			operator := s.signIn(t, operatorPhone)
			sale := s.newSale(t, operator, units, 1)
			buyers := s.testUsers(t, units)
			orders := make([]string, units)
			each(units, func(i int) {
				a := s.do(t, "POST", "/api/v1/sales/"+sale+"/orders", buyers[i], "")
				if orders[i], _ = a.Body["orderId"].(string); a.Status != 202 {
					t.Errorf("buyer %d: %d %s", i, a.Status, a.Text)
				}
			})
			s.must(t, 200, "PATCH", "/api/v1/sales/"+sale, operator, fmt.Sprintf(`{"endsAt":%q}`, time.Now().Add(time.Second).Format(time.RFC3339Nano)))
			until(t, "the sale has ended and the deadline has passed", func() bool {
				now := s.must(t, 200, "GET", "/api/v1/time", "", "").Body["now"].(string)
				last := s.must(t, 200, "GET", "/api/v1/orders/"+orders[units-1], buyers[units-1], "")
				if last.Body["status"] != "queued" {
					t.Fatalf("nobody writes orders: %s", last.Text)
				}
				return s.must(t, 200, "GET", "/api/v1/sales/"+sale, "", "").Body["phase"] == "ended" && instant(t, now).After(instant(t, last.Body["payBefore"].(string)))
			})
			if err := s.stop(t); err != nil {
				t.Fatalf("ended with %v\n%s", err, s.log)
			}
			s = launch("--pay-window", "2s")
			each(units, func(i int) {
				until(t, "the order is closed", func() bool {
					a := s.do(t, "GET", "/api/v1/orders/"+orders[i], buyers[i], "")
					if pay := s.do(t, "POST", "/api/v1/orders/"+orders[i]+"/payments", buyers[i], `{"provider":"sandbox"}`); pay.Status == 201 {
						t.Errorf("order %s can be paid after its deadline: %s", orders[i], pay.Text)
						return true
					}
					switch a.Body["status"] {
					case "closed":
						if moves := a.Body["history"].([]any); len(moves) != 2 {
							t.Errorf("order %s: %v", orders[i], moves)
						}
						return true
					case "queued", "unpaid":
						return false
					}
					if a.Status != 429 {
						t.Errorf("order %s: %d %s", orders[i], a.Status, a.Text)
					}
					return false
				})
			})
			operator = s.signIn(t, operatorPhone)
			until(t, "all units are back", func() bool {
				i := s.inspect(t, operator, sale)
				return i.AtRest && i.DB.Stock == units && i.DB.Live == 0 && (!i.Gate.Loaded || i.Gate.Stock == units)
			})
		})
	}
}

func instant(t *testing.T, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
