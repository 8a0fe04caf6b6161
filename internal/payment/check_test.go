package payment_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
	"tandian/internal/payment"
)

// P2: of many unpaid orders hardly any has an open attempt. Which have one is one query for all of a check, and only these
// cost more; an answer that is lost keeps no other from being heard. At the deadline a provider that hangs until nobody waits
// for it any more keeps no order open but the one it was asked about.
func TestManyOrdersAreCheckedAtOnce(t *testing.T) {
	const many, batch = 500, 200 // orders, and how many the scan takes at once
	faulty, lite := storetest.Behind(t, storetest.MySQL(t), nil), storetest.SQLite(t)
	w := newTill(t, faulty.DB, many)
	ids := w.unpaid(t, many)
	for _, o := range ids[:3] {
		exec(t, w.db, `UPDATE sandbox_trade SET status = 2, paid_at = ? WHERE payment_id = ?`, w.ms.Load(), int64(w.second(t, o)))
	}
	var mu sync.Mutex
	var sent []string
	faulty.OnStatement(func(_ uint32, statement string) storetest.Fate {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, statement)
		return storetest.Pass
	})
	overheard := func() (all int, asked []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range sent {
			if strings.HasPrefix(s, "SELECT") && strings.Contains(s, "FROM payment ") {
				asked = append(asked, s)
			}
		}
		all, sent = len(sent), nil
		return all, asked
	}
	var queries atomic.Int64
	firstIsLost := func(string) (bool, bool) { return queries.Add(1) == 1, false }
	w.provider.fate.Store(&firstIsLost)

	checker := &order.Checker{Closer: w.closer, Broker: w.broker}
	body, err := json.Marshal(map[string]any{"v": 1, "msgId": "m", "orderIds": ids})
	must(t, err)
	check := func() {
		t.Helper()
		if v := checker.Handle(t.Context(), []queue.Message{{ID: "m-0", Body: body}}); v[0] != queue.Ack() {
			t.Fatalf("%+v", v)
		}
	}
	check()
	all, asked := overheard()
	if t.Log(all, "statements for a check"); all > 60 || len(asked) != 1+3 {
		t.Errorf("%d statements for a check, %d of them for payments", all, len(asked))
	}
	for _, s := range asked {
		if plan := explain(t, lite, s); !strings.Contains(plan, "payment_order") {
			t.Errorf("SQLite: %s\n\t%.300s", plan, s)
		}
	}
	if n := w.number(t, `SELECT COUNT(*) FROM orders WHERE status = ?`, order.Paid); n != 2 || queries.Load() != 3 {
		t.Errorf("%d orders are paid after %d questions, want 2 of 3", n, queries.Load())
	}
	if n := w.number(t, `SELECT COUNT(*) FROM queue_message WHERE topic = ?`, order.TopicCheck); n != 1 {
		t.Errorf("%d messages for the next check, want one", n)
	}

	w.advance(payWindow)
	overheard()
	w.provider.Provider = hanging{w.sandbox}
	must(t, w.closer.Turn(t.Context()))
	if _, asked = overheard(); len(asked) > many/batch+2 {
		t.Errorf("closing asked %d times for payments", len(asked))
	}
	if n := w.number(t, `SELECT COUNT(*) FROM orders WHERE status = ?`, order.Closed); n != many-3 {
		t.Errorf("%d orders are closed, want %d", n, many-3)
	}
	w.provider.Provider = w.sandbox
	must(t, w.closer.Turn(t.Context()))
	if n := w.number(t, `SELECT COUNT(*) FROM orders WHERE status = ?`, order.Paid); n != 3 {
		t.Errorf("%d orders are paid, want 3", n)
	}
	overheard()
	check()
	if all, _ := overheard(); all != 1 {
		t.Errorf("%d statements for a check of orders that have all ended", all)
	}
	w.conserved(t)
}

// hanging is a provider that doesn't say whether it has closed anything until nobody waits for it.
type hanging struct{ payment.Provider }

func (hanging) Close(ctx context.Context, _ id.ID) (payment.Trade, error) {
	<-ctx.Done()
	return payment.Trade{}, ctx.Err()
}

// unpaid writes n orders as if all units of the sale had been bought.
func (w *till) unpaid(t testing.TB, n int) []id.ID {
	t.Helper()
	now, rows, ids := w.ms.Load(), make([]order.Order, n), make([]id.ID, n)
	for i := range n {
		ids[i] = idOf(int64(i) + 1)
		key := fmt.Sprintf("key-%d", i)
		rows[i] = order.Order{ID: ids[i], SaleID: w.sale, VoucherID: 7, UserID: idOf(int64(i) + 1000), Slot: new(int), RequestID: &key, Status: order.Unpaid, Amount: price,
			AdmittedAt: now, PayBefore: now + payWindow.Milliseconds(), CreatedAt: now, UpdatedAt: now}
	}
	_, err := w.db.Write.NewInsert().Model(&rows).Exec(t.Context())
	must(t, err)
	exec(t, w.db, `UPDATE sale SET stock = stock - ? WHERE id = ?`, n, int64(w.sale))
	return ids
}

// explain returns SQLite's plan of a statement.
func explain(t testing.TB, db *store.DB, statement string) (plan string) {
	t.Helper()
	rows, err := db.Read.DB.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+statement)
	must(t, err)
	defer rows.Close()
	for rows.Next() {
		var step, parent, unused int
		var detail string
		must(t, rows.Scan(&step, &parent, &unused, &detail))
		plan += detail + "; "
	}
	must(t, rows.Err())
	return plan
}
