package order_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

const (
	planRows  = 10_000
	planSales = 20 // a sale has 500 orders
	planUsers = 500
)

// What a buyer, a writer or a worker asks finds its rows by an index, in both dialects, however many there are. The
// statements are those that the code sends: they are overheard, and explained when the tables have grown.
func TestEveryQueryHasAnIndex(t *testing.T) {
	db := storetest.MySQL(t)
	lite := storetest.SQLite(t)
	fillTables(t, db, 0, 100)
	paths := overhear(t, db)
	fillTables(t, db, 100, planRows)
	fillTables(t, lite, 0, planRows)
	statements := 0
	for name, sent := range paths {
		most := int64(2 * planRows / planSales)
		if slices.Contains([]string{"release", "forward", "consume"}, name) {
			most = planRows // they begin at the beginning, and stop at their limit
		}
		for _, s := range sent {
			statements++
			for _, fault := range slices.Concat(explainMySQL(t, db, s, most), explainSQLite(t, lite, s)) {
				t.Errorf("%s: %s\n\t%.300s", name, fault, s)
			}
		}
	}
	if statements < 20 {
		t.Errorf("only %d statements were overheard", statements)
	}
}

// fillTables adds the rows from the one number to the other and brings the statistics up to date.
func fillTables(t *testing.T, db *store.DB, from, to int) {
	t.Helper()
	exec := func(query string) {
		t.Helper()
		if _, err := db.Write.DB.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	for table, row := range map[string]func(i int) string{
		"voucher (id, shop_id, title, pay_value, face_value, created_at, updated_at)": func(i int) string { return fmt.Sprintf("%d, 1, 'v', 1, 1, 1, 1", i+1) },
		"sale (id, voucher_id, stock, stock_released, begins_at, ends_at, created_at, updated_at)": func(i int) string {
			return fmt.Sprintf("%d, %d, 1000, 2000, 1800000000000, 1800000000001, 1, 1", i+1, i+1)
		},
		"orders (id, sale_id, voucher_id, user_id, slot, request_id, status, amount, admitted_at, pay_before, created_at, updated_at)": orderRow,
		"order_move (order_id, to_status, from_status, at)":                                                                            func(i int) string { return fmt.Sprintf("%d, 2, 1, 1", i+1) },
		"gate_release (order_id, sale_id, forget_request, created_at)":                                                                 func(i int) string { return fmt.Sprintf("%d, %d, 0, 1", 1<<40+i, i%planSales+1) },
		"pay_check (order_id, check_index)":                                                                                            func(i int) string { return fmt.Sprintf("%d, 1", i+1) },
		"redeem_code (order_id, code, shop_id, valid_until, open_until)": func(i int) string {
			until := int64(4_000_000_000_000)
			if i < 3 {
				until = 1
			}
			return fmt.Sprintf("%d, '%012d', %d, %d, %d", i+1, i, i%planSales+1, until, until)
		},
		"outbox (topic, message_id, body, created_at)":                    func(i int) string { return fmt.Sprintf("'%s', 'm%d', x'78', 1", order.TopicCreated, i) },
		"queue_message (topic, message_id, body, visible_at, created_at)": func(i int) string { return fmt.Sprintf("'topic %d', 'm%d', x'78', 1, 1", i%20, i) },
		"dead_letter (topic, message_id, body, reason, attempts, created_at)": func(i int) string {
			return fmt.Sprintf("'%s', 'order-%d', x'78', 'y', 1, 1", order.TopicCreate, 1<<50+i)
		},
	} {
		for first := from; first < to; first += 1000 {
			var rows []string
			for i := first; i < min(to, first+1000); i++ {
				rows = append(rows, "("+row(i)+")")
			}
			exec("INSERT INTO " + table + " VALUES " + strings.Join(rows, ","))
		}
		name, _, _ := strings.Cut(table, " ")
		if strings.HasPrefix(db.Name, "MySQL") {
			name = "TABLE " + name
		}
		exec("ANALYZE " + name)
	}
}

// orderRow is the values of an order: no buyer holds two of a sale, and one in ten is a tombstone.
func orderRow(i int) string {
	sale := i % planSales
	user := (i/planSales + 37*sale) % planUsers
	slot, status := fmt.Sprint(i/planSales/planUsers), i%3+1
	if i%10 == 0 {
		slot, status = "NULL", int(order.Failed)
	}
	payBefore := int64(2)
	if i >= 200 { // few are overdue
		payBefore = 4_000_000_000_000
	}
	return fmt.Sprintf("%d, %d, %d, %d, %s, 'key-%d', %d, 1, 1, %d, 1, 1", i+1, sale+1, sale+1, user+1, slot, i, status, payBefore)
}

// overhear returns the queries, updates and deletions that each path sends.
func overhear(t *testing.T, db *store.DB) map[string][]string {
	t.Helper()
	faulty := storetest.Behind(t, db, nil)
	var mu sync.Mutex
	var path string
	sent := map[string][]string{}
	faulty.OnStatement(func(_ uint32, statement string) storetest.Fate {
		mu.Lock()
		defer mu.Unlock()
		if slices.Contains([]string{"SELECT", "UPDATE", "DELETE"}, strings.Fields(statement)[0]) {
			sent[path] = append(sent[path], statement)
		}
		return storetest.Pass
	})
	for name, walk := range pathsOf(t, faulty.DB) {
		mu.Lock()
		path = name
		mu.Unlock()
		if err := walk(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return sent
}

func pathsOf(t *testing.T, db *store.DB) map[string]func(ctx context.Context) error {
	broker, watch := sqlqueue.New(db, time.Now), order.NewWatch(db)
	service := &order.Service{DB: db, Seats: noGate{}, Now: time.Now, Watch: watch}
	w := &order.Writer{DB: db, Seats: noGate{}, Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: order.NewMetrics(prometheus.NewRegistry()),
		Batch: 200, NewID: func() string { return "event" }, Broker: broker, Written: func([]id.ID) {}, Ended: func() {}}
	closer := &order.Closer{DB: db, Now: time.Now, Log: w.Log, Closed: func([]id.ID) {}, Ended: func() {}}
	checker := &order.Checker{Closer: closer, Broker: broker}
	redeemer := &order.Redeemer{DB: db, Shops: staff{}, Buyers: staff{}, Now: time.Now, Changed: func([]id.ID) {}}
	list := func(status *order.Status, before id.ID) func(context.Context) error {
		return func(ctx context.Context) error { _, err := service.List(ctx, 1, status, before, 21); return err }
	}
	write := func(batch []queue.Message) func(context.Context) error {
		return func(ctx context.Context) error {
			for range 2 { // new, and again
				if v := w.Handle(ctx, batch); v[0] != queue.Ack() {
					return fmt.Errorf("%+v", v)
				}
			}
			return nil
		}
	}
	// Both slots proposed are the same: the second has to look for another.
	same, err := order.Encode([]order.Reservation{{OrderID: 1 << 45, SaleID: 3, VoucherID: 3, UserID: 1 << 45, RequestID: "a", AdmittedAt: 1, PayBefore: 2},
		{OrderID: 1<<45 + 1, SaleID: 3, VoucherID: 3, UserID: 1 << 45, RequestID: "b", AdmittedAt: 1, PayBefore: 2}})
	if err != nil {
		t.Fatal(err)
	}
	unpaid, two := order.Unpaid, []order.Reservation{{OrderID: 1}, {OrderID: 1 << 44}}
	return map[string]func(ctx context.Context) error{
		"find":           func(ctx context.Context) error { _, err := service.Find(ctx, 38, 2); return err },
		"list":           list(nil, 0),
		"list on":        list(nil, 50),
		"list by status": list(&unpaid, 0),
		"watch": func(ctx context.Context) error {
			for i := range 50 {
				if _, _, err := watch.On(id.ID(i+1), id.ID(i+1)); err != nil {
					return err
				}
			}
			return watch.Turn(ctx)
		},
		"write":         write(batchOf(t, 1, 200)),
		"write singly":  write([]queue.Message{{ID: "m", Body: same}}),
		"without a row": func(ctx context.Context) error { _, err := order.WithoutRow(ctx, db.Read, two); return err },
		"dead-lettered": func(ctx context.Context) error { _, err := order.DeadLettered(ctx, db.Read, two); return err },
		"of a buyer":    func(ctx context.Context) error { _, err := order.FindOfBuyer(ctx, db.Read, 3, 3); return err },
		"load a gate":   func(ctx context.Context) error { _, err := order.FindHolding(ctx, db.Read, 3); return err },
		"inspect":       func(ctx context.Context) error { _, err := order.Count(ctx, db.Read, 3, 1); return err },
		"release":       (&order.Releaser{DB: db, Seats: noGate{}}).Turn,
		"forward":       (&order.Forwarder{DB: db, Broker: broker}).Turn,
		"close":         closer.Turn,
		"check": func(ctx context.Context) error {
			if v := checker.Handle(ctx, []queue.Message{{Body: []byte(`{"v":1,"msgId":"m","orderIds":["4","5","7"],"checkIndex":0}`)}}); v[0] != queue.Ack() {
				return fmt.Errorf("%+v", v)
			}
			return nil
		},
		"expire": (&order.Expirer{DB: db, Payments: noMoney{}, Now: time.Now, Log: w.Log}).Turn,
		"redeem": func(ctx context.Context) error { // the 23rd order is paid, and shop 3's
			ctx = as(ctx, clerk, identity.Clerk)
			if _, err := redeemer.Redeem(ctx, "000000000022"); err != nil {
				return err
			}
			if _, err := redeemer.Since(ctx, time.UnixMilli(1), order.Place{At: 1 << 50, ID: 1}, 21); err != nil {
				return err
			}
			_, err := redeemer.Undo(ctx, 23)
			return err
		},
		"depth":   func(ctx context.Context) error { _, err := broker.Depth(ctx, "topic 1"); return err },
		"backlog": func(ctx context.Context) error { _, err := sqlqueue.Backlog(ctx, db.Read, "topic 1"); return err },
		"consume": func(ctx context.Context) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return broker.Consume(ctx, "topic 1", queue.Batch{Max: 100}, func(_ context.Context, batch []queue.Message) []queue.Verdict {
				cancel()
				return slices.Repeat([]queue.Verdict{queue.Ack()}, len(batch))
			})
		},
	}
}

// noMoney stands in for package payment: all there is to refund is refunded.
type noMoney struct{ order.Payments }

func (noMoney) Refund(context.Context, id.ID, string, order.Actor) (bool, error) { return true, nil }

// explainMySQL returns what is wrong with the server's plan: no key, or more rows than most.
func explainMySQL(t *testing.T, db *store.DB, statement string, most int64) (faults []string) {
	t.Helper()
	rows, err := db.Read.DB.QueryContext(t.Context(), "EXPLAIN "+statement)
	if err != nil {
		t.Fatalf("%v\n%s", err, statement)
	}
	defer rows.Close()
	for rows.Next() {
		var step, kind, table, access, possible, key, length, ref, extra sql.NullString
		var estimate sql.NullInt64
		if err := rows.Scan(&step, &kind, &table, &access, &possible, &key, &length, &ref, &estimate, &extra); err != nil {
			t.Fatal(err)
		}
		// A table without a name is none; one in brackets is another step's result.
		if table.Valid && table.String[0] != '<' && (key.String == "" || estimate.Int64 > most) {
			faults = append(faults, fmt.Sprintf("MySQL reads %d rows of %s by key %q (%s)", estimate.Int64, table.String, key.String, access.String))
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return faults
}

// explainSQLite does the same with SQLite. A scan in the order of the key up to a limit is none.
func explainSQLite(t *testing.T, db *store.DB, statement string) (faults []string) {
	t.Helper()
	rows, err := db.Read.DB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement)
	if err != nil {
		t.Fatalf("%v\n%s", err, statement)
	}
	defer rows.Close()
	for rows.Next() {
		var step, parent, unused int
		var detail string
		if err := rows.Scan(&step, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		first := strings.Contains(statement, "LIMIT") && !strings.Contains(statement, "WHERE")
		if table, scan := strings.CutPrefix(detail, "SCAN "); scan && !first && table != "CONSTANT ROW" && table != "over_limit" {
			faults = append(faults, "SQLite: "+detail)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return faults
}
