package order_test

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/uptrace/bun"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/queuetest"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

const (
	shopID    id.ID = 3
	voucherID id.ID = 7
	payWindow       = 30 * time.Minute
	validDays       = 10
)

// town is a shop with a voucher on sale, from the gate to the rows, on stores of its own and with a clock in the test's
// hand.
type town struct {
	db       *store.DB
	gate     flashsale.Gate
	sales    *flashsale.Service
	broker   *queuetest.Faulty
	queue    *sqlqueue.Broker
	writer   *order.Writer
	releaser *order.Releaser
	till     *till
	closer   *order.Closer
	checker  *order.Checker
	redeemer *order.Redeemer
	expirer  *order.Expirer
	orders   *order.Service
	sale     id.ID
	ms       atomic.Int64 // the clock
}

func (w *town) Now() time.Time          { return store.Time(w.ms.Load()) }
func (w *town) advance(d time.Duration) { w.ms.Add(d.Milliseconds()) }

// anyShop stands in for package shop: everybody may write, every shop has a card.
type anyShop struct{}

func (anyShop) MayWrite(context.Context, id.ID) error { return nil }
func (anyShop) ShopCards(context.Context, []id.ID) (map[id.ID]flashsale.ShopCard, error) {
	return map[id.ID]flashsale.ShopCard{}, nil
}

func newTown(t testing.TB, db *store.DB, stock int64, limit int) *town {
	t.Helper()
	w := &town{db: db}
	w.ms.Store(time.Date(2030, 5, 1, 10, 0, 0, 0, time.UTC).UnixMilli())
	must(t, store.Exec(t.Context(), db.Write, `INSERT INTO shop (id, category_id, owner_id, name, lng, lat, created_at, updated_at) VALUES (?, 1, 2, '茶馆', 120, 30, 1, 1)`, int64(shopID)))
	must(t, store.Exec(t.Context(), db.Write, `INSERT INTO voucher (id, shop_id, title, pay_value, face_value, valid_days, created_at, updated_at) VALUES (?, ?, '代金券', 4750, 10000, ?, 1, 1)`,
		int64(voucherID), int64(shopID), validDays))
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	w.gate = flashsale.NewMemoryGate(w.Now)
	w.queue = sqlqueue.New(db, w.Now)
	w.broker = &queuetest.Faulty{Broker: w.queue}
	w.writer = &order.Writer{DB: db, Now: w.Now, Log: log, Metrics: order.NewMetrics(reg), Broker: w.broker, Batch: 200, NewID: uuid.NewString,
		Written: func([]id.ID) {}, Ended: func() {}}
	handover := flashsale.NewHandover(w.broker, uuid.NewString, 200)
	w.sales = flashsale.New(flashsale.Options{DB: db, Gate: w.gate, Broker: w.broker, Handover: handover, Tomb: w.writer, Owners: anyShop{}, Shops: anyShop{},
		IDs: &id.Sequence{Lease: db.LeaseIDs("order"), Now: w.Now, Size: 1000}, NewKey: rand.Text, Now: w.Now, Log: log, Metrics: flashsale.NewMetrics(reg),
		PayWindow: payWindow, ConfirmTimeout: 10 * time.Second, SweepAfter: 10 * time.Second})
	w.writer.Seats = w.sales
	w.releaser = &order.Releaser{DB: db, Seats: w.sales}
	w.till = &till{town: w, attempts: map[id.ID]attempt{}}
	w.closer = &order.Closer{DB: db, Payments: w.till, Now: w.Now, Log: log, Closed: func([]id.ID) {}, Ended: func() {}}
	w.checker = &order.Checker{Closer: w.closer, Broker: w.broker}
	w.redeemer = &order.Redeemer{DB: db, Shops: staff{}, Buyers: staff{}, Now: w.Now, Changed: func([]id.ID) {}}
	w.expirer = &order.Expirer{DB: db, Payments: w.till, Now: w.Now, Log: log}
	w.orders = &order.Service{DB: db, Seats: w.sales, Payments: w.till, Shops: staff{}, Closer: w.closer, Now: w.Now, Log: log, Watch: order.NewWatch(db), Closing: t.Context()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = handover.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	sale, err := w.sales.Open(t.Context(), voucherID, stock, w.Now(), w.Now().Add(24*time.Hour), limit)
	must(t, err)
	w.sale = sale.ID
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// buy grabs a unit and has the writer make its row.
func (w *town) buy(t testing.TB, user id.ID) id.ID {
	t.Helper()
	got, err := w.sales.Grab(t.Context(), user, w.sale, rand.Text())
	must(t, err)
	w.write(t)
	return got
}

// write runs the writer until nothing waits.
func (w *town) write(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		d, err := w.broker.Depth(ctx, order.TopicCreate)
		must(t, err)
		if d.Ready+d.Unacked == 0 {
			return
		}
		turn, stop := context.WithCancel(ctx)
		must(t, w.broker.Consume(turn, order.TopicCreate, queue.Batch{Max: 200}, func(ctx context.Context, batch []queue.Message) []queue.Verdict {
			defer stop()
			return w.writer.Handle(ctx, batch)
		}))
		stop()
	}
}

// tx runs fn in a transaction and returns what it says, as payment's callers of the moves do.
func (w *town) tx(t testing.TB, fn func(ctx context.Context, tx bun.Tx) (bool, error)) (done bool) {
	t.Helper()
	must(t, w.db.Tx(t.Context(), func(ctx context.Context, tx bun.Tx) (err error) {
		done, err = fn(ctx, tx)
		return err
	}))
	return done
}

// pay captures money for an order; the provider's clock is ours.
func (w *town) pay(t testing.TB, orderID id.ID) bool { return w.payAt(t, orderID, w.ms.Load()) }

func (w *town) payAt(t testing.TB, orderID id.ID, paidAt int64) bool {
	t.Helper()
	return w.tx(t, func(ctx context.Context, tx bun.Tx) (bool, error) {
		won, _, err := order.MarkPaid(ctx, w.db, tx, orderID, paidAt, w.ms.Load())
		return won, err
	})
}

func (w *town) refunding(t testing.TB, orderID id.ID) bool {
	t.Helper()
	return w.tx(t, func(ctx context.Context, tx bun.Tx) (bool, error) {
		return order.MarkRefunding(ctx, tx, orderID, order.ReasonBuyer, order.System, w.ms.Load())
	})
}

func (w *town) refunded(t testing.TB, orderID id.ID) bool {
	t.Helper()
	return w.tx(t, func(ctx context.Context, tx bun.Tx) (bool, error) {
		return order.MarkRefunded(ctx, w.db, tx, orderID, order.ReasonBuyer, order.System, w.ms.Load())
	})
}

// number reads one number.
func (w *town) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	must(t, w.db.Read.NewRaw(query, args...).Scan(t.Context(), &n))
	return n
}

func (w *town) status(t testing.TB, orderID id.ID) order.Status {
	t.Helper()
	return order.Status(w.number(t, `SELECT status FROM orders WHERE id = ?`, orderID))
}

func (w *town) stock(t testing.TB) int64 {
	t.Helper()
	return w.number(t, `SELECT stock FROM sale WHERE id = ?`, w.sale)
}

func (w *town) code(t testing.TB, orderID id.ID) (code string) {
	t.Helper()
	must(t, w.db.Read.NewRaw(`SELECT code FROM redeem_code WHERE order_id = ?`, orderID).Scan(t.Context(), &code))
	return code
}
