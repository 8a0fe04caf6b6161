package order_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// BenchmarkWriter turns reservations into rows: batches of 200 as the writer does, and one order a transaction as a
// naive consumer does. The gate is not measured.
func BenchmarkWriter(b *testing.B) {
	for name, open := range map[string]func(testing.TB) *store.DB{"sqlite": storetest.SQLite, "mysql": storetest.MySQL} {
		for _, size := range []int{1, 20, 200} {
			b.Run(fmt.Sprintf("%s/batch=%d", name, size), func(b *testing.B) { benchmarkWriter(b, open(b), size) })
		}
	}
}

func benchmarkWriter(b *testing.B, db *store.DB, size int) {
	if _, err := db.Write.Exec(`INSERT INTO sale (id, voucher_id, stock, stock_released, begins_at, ends_at, created_at, updated_at)
		VALUES (1, 7, 1000000000, 1000000000, 1800000000000, 1800000000001, 1, 1)`); err != nil {
		b.Fatal(err)
	}
	w := &order.Writer{DB: db, Seats: noGate{}, Now: time.Now, Log: slog.New(slog.DiscardHandler), Metrics: order.NewMetrics(prometheus.NewRegistry()), Batch: size,
		NewID: func() string { return "event" }, Written: func([]id.ID) {}, Ended: func() {}}
	next := id.ID(1)
	orders := 0
	for b.Loop() {
		b.StopTimer()
		batch := batchOf(b, next, size)
		next += id.ID(size)
		b.StartTimer()
		for _, v := range w.Handle(b.Context(), batch) {
			if v != queue.Ack() {
				b.Fatalf("%+v", v)
			}
		}
		orders += size
	}
	b.ReportMetric(float64(orders)/b.Elapsed().Seconds(), "orders/s")
}

// batchOf makes one message of reservations of sale 1, each of another buyer.
func batchOf(tb testing.TB, first id.ID, n int) []queue.Message {
	rs := make([]order.Reservation, n)
	for i := range rs {
		v := first + id.ID(i)
		rs[i] = order.Reservation{OrderID: 1<<40 + v, SaleID: 1, VoucherID: 7, UserID: v, Amount: 4750, RequestID: "bench-key-" + strconv.Itoa(1<<40+int(v)),
			AdmittedAt: 1_800_000_000_000, PayBefore: 1_800_001_800_000}
	}
	body, err := order.Encode(rs)
	if err != nil {
		tb.Fatal(err)
	}
	return []queue.Message{{ID: "m", Body: body}}
}

// noGate is a gate that takes everything and knows nothing.
type noGate struct{}

func (noGate) Settle(context.Context, []order.Reservation) error           { return nil }
func (noGate) Release(context.Context, id.ID, id.ID, bool) error           { return nil }
func (noGate) Find(context.Context, id.ID) (*order.Reservation, error)     { return nil, nil }
func (noGate) Waiting(context.Context, id.ID) ([]order.Reservation, error) { return nil, nil }
