package flashsale_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// reconciled is the path with somebody who compares its stores: the memory gate with SQLite, the one in Redis with MySQL.
type reconciled struct {
	*pipeline
	reconciler *flashsale.Reconciler
	reg        *prometheus.Registry
}

func newReconciled(t *testing.T, stock int64, limit int) *reconciled {
	t.Helper()
	p := newPipeline(t, stock, limit)
	census := p.gate.(flashsale.Census)
	if strings.Contains(t.Name(), "/mysql") {
		g := openRedisGate(t, p.clock)
		p.gate, p.Gate, census = g, g, g.Gate.(flashsale.Census)
		if err := p.WarmUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reg := prometheus.NewRegistry()
	return &reconciled{p, flashsale.NewReconciler(p.Service, census, 0, reg), reg}
}

func (r *reconciled) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := r.db.Write.Exec(query, args...); err != nil {
		t.Fatal(err)
	}
}

// found runs a comparison and returns its id and what it found, as "kind is→shouldBe action orders".
func (r *reconciled) found(t *testing.T) (id.ID, []string) {
	t.Helper()
	run, err := r.reconciler.Run(t.Context(), r.sale, 9)
	if err != nil {
		t.Fatal(err)
	}
	report, err := run.Report()
	if err != nil || len(report.Accounts) != 1 || run.Differences != len(report.Differences) {
		t.Fatalf("%+v %v", report, err)
	}
	var all []string
	for _, d := range report.Differences {
		all = append(all, fmt.Sprintf("%s %d→%d %s %v", d.Kind, d.Is, d.ShouldBe, d.Action, d.Orders))
	}
	return run.ID, all
}

// outcomes carries out a plan and returns what became of each step.
func (r *reconciled) outcomes(t *testing.T, plan id.ID) (all []flashsale.Outcome) {
	t.Helper()
	run, err := r.reconciler.Apply(t.Context(), plan, 9)
	if err != nil {
		t.Fatal(err)
	}
	report, err := run.Report()
	if err != nil || run.AppliedBy != 9 || run.AppliedAt == 0 {
		t.Fatalf("%+v %v", run, err)
	}
	for _, d := range report.Differences {
		all = append(all, d.Outcome)
	}
	return all
}

// P8: a drift of each kind, made by hand, is seen with its numbers, mended by its plan, and then gone.
func TestReconcileMendsEachKind(t *testing.T) { onBoth(t, testReconcileMendsEachKind) }

func testReconcileMendsEachKind(t *testing.T) {
	r := newReconciled(t, 10, 2)
	one, two := r.grab(t, 1, "key-00000001"), r.grab(t, 2, "key-00000002")
	r.drain(t)
	if _, found := r.found(t); found != nil {
		t.Fatal("at rest there is nothing:", found)
	}
	for _, tc := range []struct {
		name  string
		drift func() (want string)
	}{
		{"a stock written by hand", func() string {
			r.exec(t, `UPDATE sale SET stock = stock - 3`)
			return "sql_stock 5→8 set_stock []"
		}},
		{"an order ended behind the gate's back", func() string {
			r.exec(t, `UPDATE orders SET status = 4, slot = NULL WHERE id = ?`, one)
			r.exec(t, `UPDATE sale SET stock = stock + 1`)
			return fmt.Sprintf("ended_held 1→0 release [%d]", one)
		}},
		{"an order written behind the gate's back", func() string {
			r.exec(t, `INSERT INTO orders (id, sale_id, voucher_id, user_id, slot, status, amount, admitted_at, pay_before, created_at, updated_at) VALUES (900, ?, 7, 5, 0, 1, 4750, 1, 2, 1, 1)`, r.sale)
			r.exec(t, `UPDATE sale SET stock = stock - 1`)
			return "live_unheld 1→0 settle [900]"
		}},
		{"a row of which the gate was not told", func() string {
			three := r.grab(t, 3, "key-00000003")
			seats := r.writer.Seats
			r.writer.Seats = deaf{seats}
			r.drain(t)
			r.writer.Seats = seats
			return fmt.Sprintf("not_settled 1→0 settle [%d]", three)
		}},
		{"a row that was deleted", func() string {
			r.exec(t, `DELETE FROM orders WHERE id = ?`, two)
			r.exec(t, `UPDATE sale SET stock = stock + 1`)
			return fmt.Sprintf("no_row 1→0 release [%d]", two)
		}},
		{"units set aside for ever", func() string {
			if ok, err := r.gate.Withdraw(t.Context(), r.sale, 2); !ok || err != nil {
				t.Fatal(ok, err)
			}
			return "withdrawn 2→0 put_back []"
		}},
		{"terms changed by hand", func() string {
			r.exec(t, `UPDATE sale SET version = version + 5, limit_per_user = 3`)
			return "terms 2→7 tell []"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := tc.drift()
			plan, found := r.found(t)
			if len(found) != 1 || found[0] != want {
				t.Fatalf("found %q, want %q", found, want)
			}
			if got := r.outcomes(t, plan); len(got) != 1 || got[0] != flashsale.Done {
				t.Fatal(got)
			}
			if _, found := r.found(t); found != nil {
				t.Fatal("still there:", found)
			}
			if _, err := r.reconciler.Apply(t.Context(), plan, 9); !errors.Is(err, flashsale.ErrPlanUsed) {
				t.Fatal("a plan is used once", err)
			}
		})
	}
	r.want(t, 8, 0, 8, 2)
	if st, err := r.gate.Standing(t.Context(), r.sale); err != nil || st.Terms.Limit != 3 {
		t.Fatalf("%+v %v", st, err)
	}
	if n, err := r.db.Read.NewSelect().Table("audit_log").Where("action IN ('reconciliation.apply', 'sale.stock_corrected')").Count(t.Context()); n != 8 || err != nil {
		t.Fatal("audit lines:", n, err)
	}
}

// deaf is a gate that isn't told of rows.
type deaf struct{ order.Seats }

func (deaf) Settle(context.Context, []order.Reservation) error { return errors.New("nobody there") }

// P8: a gate that was loaded from a wrong stock can only be built anew, and that waits until nobody is admitted.
func TestReconcileReloadsOnlyAQuietGate(t *testing.T) { onBoth(t, testReconcileReloadsOnlyAQuietGate) }

func testReconcileReloadsOnlyAQuietGate(t *testing.T) {
	r := newReconciled(t, 10, 2)
	orderID := r.grab(t, 1, "key-00000001")
	r.drain(t)
	r.exec(t, `UPDATE orders SET slot = 1 WHERE id = ?`, orderID)
	r.exec(t, `UPDATE sale SET stock = stock - 3`)
	if err := r.gate.Unload(t.Context(), r.sale); err != nil {
		t.Fatal(err)
	}
	if err := r.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.exec(t, `UPDATE orders SET slot = 0 WHERE id = ?`, orderID)
	plan, found := r.found(t)
	if want := fmt.Sprintf("[sql_stock 6→9 set_stock [] gate_units 7→10 reload [] slot 1→0 reload [%d]]", orderID); fmt.Sprint(found) != want {
		t.Fatalf("%v, want %s", found, want)
	}
	if got := fmt.Sprint(r.outcomes(t, plan)); got != "[done blocked blocked]" {
		t.Fatal(got)
	}
	if _, err := r.SetPaused(t.Context(), r.sale, true); err != nil {
		t.Fatal(err)
	}
	plan, _ = r.found(t)
	if got := fmt.Sprint(r.outcomes(t, plan)); got != "[done changed]" { // one reload mends both
		t.Fatal(got)
	}
	if _, found := r.found(t); found != nil {
		t.Fatal("still there:", found)
	}
	r.want(t, 9, 0, 9, 1)
}

// P8: what is on its way is no difference, and a difference that has changed since its plan was shown isn't touched.
func TestReconcileWaitsForWhatIsOnItsWay(t *testing.T) {
	onBoth(t, testReconcileWaitsForWhatIsOnItsWay)
}

func testReconcileWaitsForWhatIsOnItsWay(t *testing.T) {
	r := newReconciled(t, 10, 1)
	refuseOrdersOf(t, r.db, 3)
	r.grab(t, 1, "key-00000001")
	r.drain(t)
	r.grab(t, 2, "key-00000002") // queued
	dead := r.grab(t, 3, "key-00000003")
	reservation, _, err := r.gate.Find(t.Context(), dead)
	if err != nil || reservation == nil {
		t.Fatal(err)
	}
	r.grab(t, 4, "key-00000004")
	tombstone := *reservation
	tombstone.OrderID, tombstone.UserID, tombstone.RequestID = 901, 8, "key-00000008"
	if _, err := r.writer.Tombstone(t.Context(), tombstone, order.ReasonRefused); err != nil { // its gate_release row waits
		t.Fatal(err)
	}
	if _, found := r.found(t); found != nil {
		t.Fatal("nothing has drifted:", found)
	}
	run, err := r.reconciler.Run(t.Context(), 0, 9)
	if err != nil {
		t.Fatal(err)
	}
	report, err := run.Report()
	if err != nil || len(report.Accounts) != 1 || report.Accounts[0].Pending != 3 || report.Accounts[0].Releases != 1 || report.QueueReady == 0 {
		t.Fatalf("%+v %v", report, err)
	}

	r.exec(t, `UPDATE sale SET stock = stock - 3`)
	plan, found := r.found(t)
	if len(found) != 1 {
		t.Fatal(found)
	}
	if err := r.reconciler.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := metric(t, r.reg, "tandian_reconcile_differences", "sql_stock"); got != 3 {
		t.Fatal("the worker shows it:", got)
	}
	r.exec(t, `UPDATE sale SET stock = stock - 1`)
	if got := r.outcomes(t, plan); len(got) != 1 || got[0] != flashsale.Changed {
		t.Fatal("what was not previewed is not done:", got)
	}
	r.exec(t, `UPDATE sale SET stock = stock + 4`)
	if err := r.reconciler.Turn(t.Context()); err != nil || metric(t, r.reg, "tandian_reconcile_differences", "sql_stock") != 0 {
		t.Fatal(err)
	}

	r.exec(t, `UPDATE sale SET stock = 0, stock_released = 0`)
	plan, found = r.found(t)
	if fmt.Sprint(found) != "[oversold 1→0  []]" {
		t.Fatal(found)
	}
	if got := r.outcomes(t, plan); len(got) != 1 || got[0] != flashsale.NoStep {
		t.Fatal(got)
	}
	if _, err := r.reconciler.Run(t.Context(), 999, 9); !errors.Is(err, voucher.ErrSaleNotFound) {
		t.Fatal(err)
	}
	if _, err := r.reconciler.Apply(t.Context(), 999, 9); !errors.Is(err, flashsale.ErrNoReconciliation) {
		t.Fatal(err)
	}
}
