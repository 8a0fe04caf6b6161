package flashsale_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/stream"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

const saleStream = "{sale:42}:stream"

// appendingGate is a gate that puts whom it admits into the queue, on an emptied database, and an operator's client.
type appendingGate struct {
	gateBundle
	client rueidis.Client
}

func openAppendingGate(t testing.TB) appendingGate {
	g := openRedisGate(t, newClock())
	g.Gate.(*flashsale.RedisGate).Append = true
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{os.Getenv("TANDIAN_REDIS_ADDR")}, SelectDB: 2, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return appendingGate{g, client}
}

func (g appendingGate) do(t testing.TB, words ...string) rueidis.RedisResult {
	t.Helper()
	res := g.client.Do(t.Context(), g.client.B().Arbitrary(words...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(words, err)
	}
	return res
}

// queued returns the reservations of each entry of the sale's stream.
func (g appendingGate) queued(t testing.TB) (messages [][]order.Reservation) {
	t.Helper()
	entries, err := g.do(t, "XRANGE", saleStream, "-", "+").AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		rs, err := order.Decode([]byte(e.FieldValues["body"]))
		if err != nil {
			t.Fatalf("%v: %s", err, e.FieldValues["body"])
		}
		messages = append(messages, rs)
	}
	return messages
}

// A gate that appends is a gate like the others.
func TestGateContractAppending(t *testing.T) {
	gateContract(t, func(t testing.TB) gateBundle { return openAppendingGate(t).gateBundle })
}

// S8: who is admitted is in the queue by the same step, as the writer reads it, once; who isn't, isn't.
func TestAdmittedIsQueued(t *testing.T) {
	g := openAppendingGate(t)
	g.load(t, g.snapshot(3, 2))
	var want []order.Reservation
	admit := func(orderID, userID id.ID, key string) flashsale.Verdict {
		v := g.admit(t, orderID, userID, key)
		if v.Result == flashsale.Admitted {
			want = append(want, v.Reservation)
		}
		return v
	}
	const big = 1<<62 + 1
	admit(1, 1, "a")
	admit(2, 1, strings.Repeat("k", order.MaxRequestID))
	admit(big, big, `"quoted" \ 探店`)
	for _, v := range []flashsale.Verdict{admit(4, 1, "a"), admit(1, 1, "b"), admit(5, 1, "c"), admit(6, 3, "d")} {
		if v.Result == flashsale.Admitted {
			t.Fatalf("%+v", v)
		}
	}
	if len(want) != 3 {
		t.Fatal(want)
	}
	if diff := cmp.Diff(want, slices.Concat(g.queued(t)...)); diff != "" {
		t.Fatal(diff)
	}
}

// Load and Unload leave what is in the queue alone; an empty stream goes with its sale.
func TestAGateComesAndGoesWithoutItsStream(t *testing.T) {
	g := openAppendingGate(t)
	g.load(t, g.snapshot(3, 1))
	g.admit(t, 1, 1, "a")
	streams := func(open ...id.ID) []string {
		keys, err := g.Gate.(*flashsale.RedisGate).Streams(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	unload := func() {
		if err := g.Unload(t.Context(), saleID); err != nil {
			t.Fatal(err)
		}
	}
	unload()
	if st, err := g.Standing(t.Context(), saleID); err != nil || st.Loaded {
		t.Fatal(st, err)
	}
	if keys := streams(); !slices.Equal(keys, []string{saleStream}) || len(g.queued(t)) != 1 {
		t.Fatal("a stream with an order is forgotten:", keys)
	}
	s := g.snapshot(2, 1)
	s.Epoch = 2
	g.load(t, s)
	if len(g.queued(t)) != 1 {
		t.Fatal("a load has touched the stream")
	}
	g.do(t, "XTRIM", saleStream, "MAXLEN", "0") // all done
	unload()
	if n, err := g.do(t, "EXISTS", saleStream).AsInt64(); err != nil || n != 0 || len(streams()) != 0 {
		t.Fatal(n, err, streams())
	}
	if keys := streams(saleID, 43); !slices.Equal(keys, []string{saleStream, "{sale:43}:stream"}) {
		t.Fatal("open sales count whatever Redis remembers:", keys)
	}
}

// F12: where the stream should be is something else. Nobody is admitted, certainly, and nothing is taken.
func TestAStreamOfTheWrongType(t *testing.T) {
	g := openAppendingGate(t)
	g.load(t, g.snapshot(1, 1))
	g.do(t, "SET", saleStream, "x")
	if _, err := g.Admit(t.Context(), saleID, flashsale.Request{OrderID: 1, UserID: 1, RequestID: "a"}); !errors.Is(err, flashsale.ErrNotDone) {
		t.Fatal(err)
	}
	g.do(t, "DEL", saleStream)
	g.want(t, 1, 0, 0)
	if v := g.admit(t, 1, 1, "a"); v.Result != flashsale.Admitted {
		t.Fatal(v)
	}
}

// openStreamPipeline is the path without a hand-over: the gate queues, the writer is not run yet. Its sale has the given
// stock.
func openStreamPipeline(t *testing.T, stock int64) (g appendingGate, s *flashsale.Service, sale id.ID, write func()) {
	g = openAppendingGate(t)
	gate := g.Gate.(*flashsale.RedisGate)
	db, log, reg := storetest.SQLite(t), slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	broker, err := stream.Open(t.Context(), stream.Options{Client: g.client, Instance: rand.Text(), Log: log,
		DeadLetter: func(context.Context, string, queue.Message, error) error { return errors.New("nothing dies here") },
		Streams: func(ctx context.Context, topic string) ([]string, error) {
			open, err := flashsale.OpenSales(ctx, db.Read, g.Now())
			keys, err2 := gate.Streams(ctx, open)
			return keys, errors.Join(err, err2)
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := broker.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &order.Writer{DB: db, Now: g.Now, Log: log, Metrics: order.NewMetrics(reg), Batch: 200, NewID: uuid.NewString, Broker: broker,
		Written: func([]id.ID) {}, Ended: func() {}}
	s = flashsale.New(flashsale.Options{DB: db, Gate: gate, Broker: broker, Tomb: w, Owners: shopTown{}, Shops: shopTown{},
		IDs: &id.Sequence{Lease: db.LeaseIDs("order"), Now: g.Now, Size: 100}, NewKey: rand.Text, Now: g.Now, Log: log, Metrics: flashsale.NewMetrics(reg),
		PayWindow: 30 * time.Minute, ConfirmTimeout: time.Second, SweepAfter: 10 * time.Second, AcceptUnknown: true,
		Backlog: func(ctx context.Context, _ store.Querier) (all []order.Reservation, err error) {
			bodies, err := broker.Backlog(ctx, order.TopicCreate)
			for _, body := range bodies {
				rs, e := order.Decode(body)
				all, err = append(all, rs...), errors.Join(err, e)
			}
			return all, err
		}})
	w.Seats = s
	if _, err := db.Write.Exec(`INSERT INTO voucher (id, shop_id, title, pay_value, face_value, created_at, updated_at) VALUES (7, 1, '代金券', 4750, 10000, 1, 1)`); err != nil {
		t.Fatal(err)
	}
	offer, err := s.Open(t.Context(), 7, stock, g.Now(), g.Now().Add(time.Hour), 1)
	if err != nil {
		t.Fatal(err)
	}
	return g, s, offer.ID, func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- broker.Consume(ctx, order.TopicCreate, queue.Batch{Max: 10}, w.Handle) }()
		for deadline := time.Now().Add(20 * time.Second); ; {
			d, err := broker.Depth(t.Context(), order.TopicCreate)
			if err != nil || time.Now().After(deadline) {
				t.Fatal(d, err)
			}
			if d.Ready+d.Unacked == 0 {
				break
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
}

// The gate is lost, its stream is not. What was accepted is found, isn't sold twice and ends as an order (S1, S7, S8).
func TestAGateIsRebuiltFromItsStream(t *testing.T) {
	g, s, sale, write := openStreamPipeline(t, 5)
	grab := func(user id.ID) (id.ID, error) {
		return s.Grab(t.Context(), user, sale, fmt.Sprintf("wish-of-%d", user))
	}
	told := map[id.ID]id.ID{}
	for user := id.ID(1); user <= 3; user++ {
		orderID, err := grab(user)
		if err != nil {
			t.Fatal(err)
		}
		told[user] = orderID
	}
	for _, name := range []string{"meta", "stock", "buyers", "orders", "requests", "pending", "ended"} {
		g.do(t, "DEL", "{sale:"+sale.String()+"}:"+name)
	}
	g.do(t, "DEL", "sales:loaded")
	for user := id.ID(1); user <= 6; user++ {
		orderID, err := grab(user)
		switch {
		case user <= 3 && (err != nil || orderID != told[user]):
			t.Errorf("user %d was told %d, and now %d %v", user, told[user], orderID, err)
		case user <= 5 && err != nil:
			t.Errorf("user %d: %v", user, err)
		case user == 6 && !errors.Is(err, flashsale.ErrSoldOut):
			t.Errorf("one too many: %d %v", orderID, err)
		}
	}
	write()
	rows, err := order.FindHolding(t.Context(), s.DB.Read, sale)
	st, err2 := s.Gate.Standing(t.Context(), sale)
	if err := errors.Join(err, err2); err != nil || len(rows) != 5 || st.Stock != 0 || st.Pending != 0 || st.Orders != 5 {
		t.Fatalf("%d rows; %+v; %v", len(rows), st, err)
	}
}
