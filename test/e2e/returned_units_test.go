package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// P8: orders that ended by a close and by a refund, while the sale ran and after its end, and units that were taken back by
// an operator, make no difference: stock and live orders are what was released. A unit that is missing makes one, after the
// sale's end too, and so does an order that was ended by hand.
func TestReconcileAfterUnitsCameBack(t *testing.T) {
	onOperated(t, func(t *testing.T, o *operated) {
		o.startConsuming(t)
		operator := o.signIn(t, operatorPhone)
		sale := o.newSale(t, operator, 8, 1)
		buyers := o.testUsers(t, 5)
		var orders []string
		for _, buyer := range buyers {
			until(t, "the order is accepted", func() bool { // the server has only just begun, and may say "try again"
				a := o.do(t, "POST", "/api/v1/sales/"+sale+"/orders", buyer, "")
				if a.Status == 202 {
					orders = append(orders, a.Body["orderId"].(string))
				}
				return a.Status == 202
			})
		}
		for i, buyer := range buyers {
			o.becomes(t, orders[i], buyer, "unpaid")
		}
		for i := range 3 {
			o.pays(t, buyers[i], orders[i])
		}
		refund := func(i int) {
			t.Helper()
			o.must(t, 202, "POST", "/api/v1/orders/"+orders[i]+"/refund", buyers[i], `{}`)
			o.becomes(t, orders[i], buyers[i], "refunded")
		}
		giveUp := func(i int) {
			t.Helper()
			o.must(t, 200, "POST", "/api/v1/orders/"+orders[i]+"/close", buyers[i], "")
		}
		agrees := func(when string) {
			t.Helper()
			if out, code := o.run(t, "reconcile", "--sale", sale); code != 0 || !strings.Contains(out, "no differences") {
				t.Fatalf("%s: exit %d\n%s", when, code, out)
			}
		}
		refund(0)
		giveUp(3)
		o.must(t, 200, "POST", "/api/v1/sales/"+sale+"/stock", operator, `{"delta":-2,"reason":"taken back"}`)
		agrees("while the sale runs")
		o.must(t, 200, "PATCH", "/api/v1/sales/"+sale, operator, fmt.Sprintf(`{"endsAt":%q}`, time.Now().Add(-time.Millisecond).Format(time.RFC3339Nano)))
		refund(1)
		giveUp(4)
		agrees("after its end")
		if i := o.inspect(t, operator, sale); i.Released != 6 || i.DB.Live != 1 || i.DB.Stock != 5 {
			t.Fatalf("%+v", i)
		}

		differs := func(when, want string, statements ...string) (plan string) {
			t.Helper()
			for _, statement := range statements {
				if _, err := o.db.Write.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			out, code := o.run(t, "reconcile", "--sale", sale, "--json")
			var run struct {
				ID    string
				Found []struct {
					Kind         string
					Is, ShouldBe int64
				}
			}
			if err := json.Unmarshal([]byte(out), &run); err != nil || code != 3 {
				t.Fatalf("%s: exit %d, %v\n%s", when, code, err, out)
			}
			var found []string
			for _, d := range run.Found {
				found = append(found, fmt.Sprintf("%s %d→%d", d.Kind, d.Is, d.ShouldBe))
			}
			if got := strings.Join(found, ", "); got != want {
				t.Fatalf("%s: found %s, want %s", when, got, want)
			}
			return run.ID
		}
		mend := func(plan string) {
			t.Helper()
			if out, code := o.run(t, "reconcile", "--apply", plan); code != 0 {
				t.Fatalf("exit %d\n%s", code, out)
			}
		}
		mend(differs("a unit is missing", "sql_stock 4→5", `UPDATE sale SET stock = stock - 1 WHERE id = `+sale))
		agrees("mended")
		mend(differs("a refund by hand", "sql_stock 5→6, ended_held 1→0", `UPDATE orders SET status = 6, slot = NULL WHERE id = `+orders[2]))
		agrees("mended again")
		if i := o.inspect(t, operator, sale); i.Released != 6 || i.DB.Live != 0 || i.DB.Stock != 6 || i.Gate.Stock != 6 {
			t.Fatalf("%+v", i)
		}
	})
}
