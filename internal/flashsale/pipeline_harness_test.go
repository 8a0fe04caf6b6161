package flashsale_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/queuetest"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// shopTown stands in for package shop: everybody may write, every shop has a card.
type shopTown struct{}

func (shopTown) MayWrite(context.Context, id.ID) error { return nil }
func (shopTown) ShopCards(_ context.Context, ids []id.ID) (map[id.ID]flashsale.ShopCard, error) {
	return map[id.ID]flashsale.ShopCard{}, nil
}

// nobody may write anything.
type nobody struct{}

func (nobody) MayWrite(context.Context, id.ID) error { return identity.ErrForbidden }

// pipeline is the money path on embedded stores, with the workers in the test's hand.
type pipeline struct {
	*flashsale.Service
	*clock
	db       *store.DB
	broker   *queuetest.Faulty
	gate     flashsale.Gate
	writer   *order.Writer
	orders   *order.Service
	releaser *order.Releaser
	sale     id.ID
}

// onBoth runs a test on SQLite and on MySQL; newPipeline sees by the name which it is.
func onBoth(t *testing.T, test func(t *testing.T)) {
	t.Run("sqlite", test)
	t.Run("mysql", test)
}

// newPipeline opens the path with one live sale. The hand-over runs until the test ends; the writer runs when asked.
func newPipeline(t testing.TB, stock int64, limit int) *pipeline {
	t.Helper()
	var db *store.DB
	if strings.Contains(t.Name(), "/mysql") {
		db = storetest.MySQL(t)
	} else {
		db = storetest.SQLite(t)
	}
	if _, err := db.Write.Exec(`INSERT INTO voucher (id, shop_id, title, pay_value, face_value, created_at, updated_at) VALUES (7, 1, '代金券', 4750, 10000, 1, 1)`); err != nil {
		t.Fatal(err)
	}
	p := &pipeline{db: db, clock: newClock()}
	p.start(t)
	sale, err := p.Open(t.Context(), 7, stock, p.Now(), p.Now().Add(time.Hour), limit)
	if err != nil {
		t.Fatal(err)
	}
	p.sale = sale.ID
	return p
}

// start builds the path over the database, as a process does when it starts.
func (p *pipeline) start(t testing.TB) {
	t.Helper()
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	p.broker = &queuetest.Faulty{Broker: sqlqueue.New(p.db, p.Now)}
	p.gate = flashsale.NewMemoryGate(p.Now)
	p.writer = &order.Writer{DB: p.db, Now: p.Now, Log: log, Metrics: order.NewMetrics(reg), Batch: 200, NewID: uuid.NewString,
		Broker: p.broker, Written: func([]id.ID) {}, Ended: func() {}}
	handover := flashsale.NewHandover(p.broker, uuid.NewString, 200)
	p.Service = flashsale.New(flashsale.Options{DB: p.db, Gate: p.gate, Broker: p.broker, Handover: handover, Tomb: p.writer, Owners: shopTown{}, Shops: shopTown{},
		IDs: &id.Sequence{Lease: p.db.LeaseIDs("order"), Now: p.Now, Size: 100}, NewKey: rand.Text, Now: p.Now, Log: log, Metrics: flashsale.NewMetrics(reg),
		PayWindow: 30 * time.Minute, ConfirmTimeout: 10 * time.Second, SweepAfter: 10 * time.Second,
		Backlog: func(ctx context.Context, q store.Querier) (all []order.Reservation, err error) {
			all, err = order.DeadReservations(ctx, q)
			bodies, e := sqlqueue.Backlog(ctx, q, order.TopicCreate)
			err = errors.Join(err, e)
			for _, b := range bodies {
				rs, e := order.Decode(b)
				all, err = append(all, rs...), errors.Join(err, e)
			}
			return all, err
		}})
	p.writer.Seats = p.Service
	p.orders = &order.Service{DB: p.db, Seats: p.Service, Now: p.Now, Log: log, Watch: order.NewWatch(p.db), Closing: t.Context()}
	p.releaser = &order.Releaser{DB: p.db, Seats: p.Service}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = handover.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if err := p.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// drainDue runs the writer until nothing is due, whatever waits for a later attempt.
func (p *pipeline) drainDue(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var due int
	for due = -1; due != 0; {
		if err := p.db.Read.NewRaw(`SELECT COUNT(*) FROM queue_message WHERE visible_at <= ?`, p.Now().UnixMilli()).Scan(ctx, &due); err != nil {
			t.Fatal(err)
		}
		if due == 0 {
			return
		}
		turn, stop := context.WithCancel(ctx)
		if err := p.broker.Consume(turn, order.TopicCreate, queue.Batch{Max: 200}, func(ctx context.Context, batch []queue.Message) []queue.Verdict {
			defer stop()
			return p.writer.Handle(ctx, batch)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// drain runs the writer until the queue is empty.
func (p *pipeline) drain(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := p.broker.Consume(ctx, order.TopicCreate, queue.Batch{Max: 200}, func(ctx context.Context, batch []queue.Message) []queue.Verdict {
		v := p.writer.Handle(ctx, batch)
		if d, err := p.broker.Depth(ctx, order.TopicCreate); err == nil && d.Ready == 0 {
			cancel()
		}
		return v
	})
	if err != nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Fatal("the queue was not drained", err, ctx.Err())
	}
}

func (p *pipeline) grab(t testing.TB, user id.ID, key string) id.ID {
	t.Helper()
	orderID, err := p.Grab(t.Context(), user, p.sale, key)
	if err != nil {
		t.Fatal(err)
	}
	return orderID
}

func (p *pipeline) status(t *testing.T, user, orderID id.ID) (order.Status, string) {
	t.Helper()
	v, err := p.orders.Find(t.Context(), user, orderID)
	if err != nil {
		t.Fatal(err)
	}
	return v.Status, v.Reason
}

// accounts are what the gate, the sale's row and the orders' rows say about a sale.
func accounts(t testing.TB, gate flashsale.Gate, db *store.DB, saleID id.ID) (flashsale.Standing, *voucher.Offer, order.Tally) {
	t.Helper()
	st, err := gate.Standing(t.Context(), saleID)
	if err != nil {
		t.Fatal(err)
	}
	offer, err := voucher.FindOffer(t.Context(), db, db.Read, saleID)
	if err != nil {
		t.Fatal(err)
	}
	tally, err := order.Count(t.Context(), db.Read, saleID, offer.LimitPerUser)
	if err != nil {
		t.Fatal(err)
	}
	return st, offer, tally
}

// want checks the three counters and that stock is conserved (I4).
func (p *pipeline) want(t *testing.T, gate, pending, db, live int64) {
	t.Helper()
	st, offer, tally := accounts(t, p.gate, p.db, p.sale)
	if st.Stock != gate || st.Pending != pending || offer.Stock != db || tally.Live != live || tally.OverLimit != 0 || offer.Stock+tally.Live != offer.StockReleased {
		t.Fatalf("gate %d, pending %d, SQL %d, live %d (over limit %d, released %d); want %d, %d, %d, %d", st.Stock, st.Pending, offer.Stock, tally.Live,
			tally.OverLimit, offer.StockReleased, gate, pending, db, live)
	}
}
