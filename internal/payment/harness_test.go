package payment_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/flashsale"
	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/kit/store"
	"tandian/internal/order"
	"tandian/internal/payment"
	"tandian/internal/payment/sandbox"
)

const (
	price             = 4750
	payWindow         = 30 * time.Minute
	operatorID  id.ID = 9
	secretForIt       = "a secret of the sandbox's"
)

// till is a shop with a voucher on sale and everything that money touches, from the gate to the provider, on stores of
// its own and with a clock in the test's hand.
type till struct {
	http.Handler // the API; the header User says who asks
	db           *store.DB
	reg          *prometheus.Registry
	sales        *flashsale.Service
	gate         flashsale.ListedGate
	broker       *sqlqueue.Broker
	writer       *order.Writer
	releaser     *order.Releaser
	orders       *order.Service
	closer       *order.Closer
	payments     *payment.Service
	sandbox      *sandbox.Sandbox
	provider     *faulty
	sale         id.ID
	ms           atomic.Int64 // the clock
}

func (w *till) Now() time.Time          { return store.Time(w.ms.Load()) }
func (w *till) advance(d time.Duration) { w.ms.Add(d.Milliseconds()) }

// anyShop stands in for package shop.
type anyShop struct{}

func (anyShop) MayWrite(context.Context, id.ID) error { return nil }
func (anyShop) ShopCards(context.Context, []id.ID) (map[id.ID]flashsale.ShopCard, error) {
	return map[id.ID]flashsale.ShopCard{}, nil
}

var errNoAnswer = errors.New("no answer")

// faulty is a provider whose questions or answers get lost.
type faulty struct {
	payment.Provider
	// fate is asked before each call that changes or tells something: lost = the provider never hears of it,
	// unheard = it does it and the answer is lost. nil = nothing is lost.
	fate atomic.Pointer[func(operation string) (lost, unheard bool)]
	refs atomic.Pointer[func(payment.RefundRequest)] // sees each refund that arrives
}

func through[T any](f *faulty, operation string, call func() (T, error)) (answer T, err error) {
	fate := f.fate.Load()
	if fate == nil {
		return call()
	}
	lost, unheard := (*fate)(operation)
	if lost {
		return answer, errNoAnswer
	}
	got, err := call()
	if unheard {
		return answer, errNoAnswer
	}
	return got, err
}

func (f *faulty) Query(ctx context.Context, p id.ID) (payment.Trade, error) {
	return through(f, "query", func() (payment.Trade, error) { return f.Provider.Query(ctx, p) })
}

func (f *faulty) Close(ctx context.Context, p id.ID) (payment.Trade, error) {
	return through(f, "close", func() (payment.Trade, error) { return f.Provider.Close(ctx, p) })
}

func (f *faulty) Refund(ctx context.Context, r payment.RefundRequest) (payment.RefundState, error) {
	if seen := f.refs.Load(); seen != nil {
		(*seen)(r)
	}
	return through(f, "refund", func() (payment.RefundState, error) { return f.Provider.Refund(ctx, r) })
}

func (f *faulty) QueryRefund(ctx context.Context, r id.ID) (payment.RefundState, error) {
	return through(f, "query refund", func() (payment.RefundState, error) { return f.Provider.QueryRefund(ctx, r) })
}

func newTill(t testing.TB, db *store.DB, stock int64) *till {
	t.Helper()
	w := &till{db: db, reg: prometheus.NewRegistry()}
	w.ms.Store(time.Date(2030, 5, 1, 10, 0, 0, 0, time.UTC).UnixMilli())
	exec(t, db, `INSERT INTO shop (id, category_id, owner_id, name, lng, lat, created_at, updated_at) VALUES (3, 1, 2, '茶馆', 120, 30, 1, 1)`)
	exec(t, db, `INSERT INTO voucher (id, shop_id, title, pay_value, face_value, valid_days, created_at, updated_at) VALUES (7, 3, '代金券', ?, 10000, 10, 1, 1)`, price)
	log := slog.New(slog.DiscardHandler)
	w.gate, w.broker = flashsale.NewMemoryGate(w.Now), sqlqueue.New(db, w.Now)
	w.writer = &order.Writer{DB: db, Now: w.Now, Log: log, Metrics: order.NewMetrics(w.reg), Broker: w.broker, Batch: 200, NewID: uuid.NewString,
		Written: func([]id.ID) {}, Ended: func() {}}
	handover := flashsale.NewHandover(w.broker, uuid.NewString, 200)
	w.sales = flashsale.New(flashsale.Options{DB: db, Gate: w.gate, Broker: w.broker, Handover: handover, Tomb: w.writer, Owners: anyShop{}, Shops: anyShop{},
		IDs: &id.Sequence{Lease: db.LeaseIDs("order"), Now: w.Now, Size: 1000}, NewKey: rand.Text, Now: w.Now, Log: log, Metrics: flashsale.NewMetrics(w.reg),
		PayWindow: payWindow, ConfirmTimeout: 10 * time.Second, SweepAfter: 10 * time.Second})
	w.writer.Seats = w.sales
	w.releaser = &order.Releaser{DB: db, Seats: w.sales}
	w.orders = &order.Service{DB: db, Seats: w.sales, Now: w.Now, Log: log, Watch: order.NewWatch(db), Closing: t.Context()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = handover.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	w.payAt(t, log)
	sale, err := w.sales.Open(t.Context(), 7, stock, w.Now(), w.Now().Add(365*24*time.Hour), 1)
	must(t, err)
	w.sale = sale.ID
	return w
}

// payAt adds the ways to pay: the sandbox behind a line that can be cut, and an API that its callbacks reach.
func (w *till) payAt(t testing.TB, log *slog.Logger) {
	t.Helper()
	a := api.New(api.Options{Version: "1", Log: log, Metrics: w.reg, Now: w.Now, Rand: rand.Reader, Limiter: limit.New(w.Now, limit.Override{User: 1_000_000, IP: 1_000_000}),
		ClientIP: func(*http.Request) string { return "127.0.0.1" },
		Resolve: func(r *http.Request) *identity.Caller {
			userID, err := id.Parse(r.Header.Get("User"))
			if err != nil {
				return &identity.Caller{}
			}
			u := &identity.User{ID: userID}
			if userID == operatorID {
				u.Roles = []identity.Role{identity.Operator}
			}
			return &identity.Caller{User: u}
		}})
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.Handler.ServeHTTP(rw, r) }))
	t.Cleanup(server.Close)
	w.sandbox = sandbox.New(sandbox.Options{DB: w.db, Secret: []byte(secretForIt), NotifyURL: server.URL + "/api/v1/payments/sandbox/notify", Now: w.Now, NewID: uuid.NewString, Log: log})
	w.provider = &faulty{Provider: w.sandbox}
	w.payments = payment.New(payment.Options{DB: w.db, Providers: []payment.Provider{w.provider}, Orders: w.orders, Now: w.Now, Log: log,
		Metrics: payment.NewMetrics(w.reg), Changed: func([]id.ID) {}, Ended: func() {}})
	w.orders.Payments = w.payments
	w.closer = &order.Closer{DB: w.db, Payments: w.payments, Now: w.Now, Log: log, Closed: func([]id.ID) {}, Ended: func() {}}
	w.payments.Routes(a)
	w.orders.Routes(a)
	site := http.NewServeMux()
	site.Handle(sandbox.Path, w.sandbox)
	w.Handler = a.Handler(site)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func exec(t testing.TB, db *store.DB, query string, args ...any) {
	t.Helper()
	must(t, store.Exec(t.Context(), db.Write, query, args...))
}

// buy grabs a unit and has the writer make its row.
func (w *till) buy(t testing.TB, user id.ID) id.ID {
	t.Helper()
	got, err := w.sales.Grab(t.Context(), user, w.sale, rand.Text())
	must(t, err)
	w.write(t)
	return got
}

// write runs the writer until nothing waits.
func (w *till) write(t testing.TB) {
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

// begin starts an attempt to pay an order.
func (w *till) begin(t testing.TB, user, orderID id.ID) *payment.Attempt {
	t.Helper()
	p, err := w.payments.Pay(t.Context(), user, orderID, sandbox.Name)
	must(t, err)
	return p
}

// second makes another attempt to pay the order, as two devices at the same instant do.
func (w *till) second(t testing.TB, orderID id.ID) id.ID {
	t.Helper()
	p := &payment.Payment{OrderID: orderID, Provider: sandbox.Name, Amount: price, Status: payment.Open, CreatedAt: w.ms.Load(), UpdatedAt: w.ms.Load()}
	_, err := w.db.Write.NewInsert().Model(p).Exec(t.Context())
	must(t, err)
	_, err = w.sandbox.Create(t.Context(), payment.Charge{PaymentID: p.ID, OrderID: orderID, Amount: price, ExpiresAt: w.Now().Add(payWindow)})
	must(t, err)
	return p.ID
}

// choose does something at the cashier.
func (w *till) choose(t testing.TB, p *payment.Attempt, action, refunds string) (state string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", p.PayURL, strings.NewReader(fmt.Sprintf(`{"action":%q,"refunds":%q}`, action, refunds)))
	r.Header.Set("Content-Type", "application/json")
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	var answer struct{ State string }
	if rec.Code != 200 || json.Unmarshal(rec.Body.Bytes(), &answer) != nil {
		t.Fatalf("cashier: %d %s", rec.Code, rec.Body)
	}
	return answer.State
}

// call asks the API as a user, 0 for nobody.
func (w *till) call(t testing.TB, user id.ID, method, path, body string) (status int, answer map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1"+path, strings.NewReader(body))
	if user > 0 {
		r.Header.Set("User", user.String())
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if err := json.Unmarshal(rec.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %d %s", method, path, rec.Code, rec.Body)
	}
	return rec.Code, answer
}

// notice is a notification that the test makes, independently of the sandbox's own code.
type notice struct {
	id, merchant, state, currency string
	payment                       id.ID
	amount                        int64
	paidAt                        int64
	sentAt                        time.Time
	secret                        string
	edit                          func(h http.Header, body []byte) []byte // after signing
}

func (w *till) paidNotice(p id.ID) notice {
	return notice{id: "n-" + p.String(), merchant: "tandian-sandbox", state: "paid", currency: "CNY", payment: p, amount: price, paidAt: w.ms.Load(), sentAt: w.Now(), secret: secretForIt}
}

func (n notice) request(ctx context.Context) *http.Request {
	body := fmt.Appendf(nil, `{"noticeId":%q,"merchantId":%q,"paymentId":"%d","tradeNo":"t-%d","state":%q,"amount":%d,"currency":%q,"paidAt":%d}`,
		n.id, n.merchant, n.payment, n.payment, n.state, n.amount, n.currency, n.paidAt)
	at := strconv.FormatInt(n.sentAt.Unix(), 10)
	h := hmac.New(sha256.New, []byte(n.secret))
	fmt.Fprintf(h, "%s\n%s\n%s", at, "nonce", body)
	header := http.Header{"Content-Type": {"application/json"}, "X-Sandbox-Timestamp": {at}, "X-Sandbox-Nonce": {"nonce"}, "X-Sandbox-Signature": {hex.EncodeToString(h.Sum(nil))}}
	if n.edit != nil {
		body = n.edit(header, body)
	}
	r := httptest.NewRequestWithContext(ctx, "POST", "/api/v1/payments/sandbox/notify", strings.NewReader(string(body)))
	r.Header = header
	return r
}

// tell delivers a notification.
func (w *till) tell(t testing.TB, n notice) (status int, answer string) {
	t.Helper()
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, n.request(t.Context()))
	return rec.Code, strings.TrimSpace(rec.Body.String())
}

func (w *till) mustTell(t testing.TB, n notice) {
	t.Helper()
	if status, answer := w.tell(t, n); status != 200 || answer != `{"ok":true}` {
		t.Fatal(status, answer)
	}
}

// number reads one number.
func (w *till) number(t testing.TB, query string, args ...any) (n int64) {
	t.Helper()
	must(t, w.db.Read.NewRaw(query, args...).Scan(t.Context(), &n))
	return n
}

func (w *till) status(t testing.TB, orderID id.ID) order.Status {
	t.Helper()
	return order.Status(w.number(t, `SELECT status FROM orders WHERE id = ?`, orderID))
}

func (w *till) stock(t testing.TB) int64 {
	t.Helper()
	return w.number(t, `SELECT stock FROM sale WHERE id = ?`, w.sale)
}

// refunds lists what is asked for or done, oldest first, as "reason:status".
func (w *till) refunds(t testing.TB) (list []string) {
	t.Helper()
	var rows []payment.Refund
	must(t, w.db.Read.NewSelect().Model(&rows).Order("id").Scan(t.Context()))
	for _, r := range rows {
		list = append(list, r.Reason+":"+r.Status.String())
	}
	return list
}

// turns runs the workers that follow up on money.
func (w *till) turns(t testing.TB) {
	t.Helper()
	must(t, w.payments.ApplyWaiting(t.Context()))
	must(t, w.payments.SendRefunds(t.Context()))
	must(t, w.releaser.Turn(t.Context()))
}

// conserved checks I5 by the reconciler and by sums of its own.
func (w *till) conserved(t testing.TB) {
	t.Helper()
	r, err := w.payments.Reconcile(t.Context())
	must(t, err)
	if len(r.Differences) > 0 {
		t.Errorf("money and orders disagree: %+v", r.Differences)
	}
	in := w.number(t, `SELECT COALESCE(SUM(amount), 0) FROM payment WHERE status = 2`) - w.number(t, `SELECT COALESCE(SUM(amount), 0) FROM refund`)
	if worth := w.number(t, `SELECT COALESCE(SUM(amount), 0) FROM orders WHERE status IN (2, 3)`); in != worth {
		t.Errorf("%d kept for orders worth %d", in, worth)
	}
	if held := w.number(t, `SELECT stock_released - stock - (SELECT COUNT(*) FROM orders WHERE status IN (1, 2, 3, 5)) FROM sale WHERE id = ?`, w.sale); held != 0 {
		t.Errorf("stock and live orders are %d units apart", held)
	}
}

// counted reads a counter.
func (w *till) counted(t testing.TB, name, value string) float64 {
	t.Helper()
	families, err := w.reg.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && len(m.GetLabel()) == 1 && m.GetLabel()[0].GetValue() == value {
				return m.GetCounter().GetValue()
			}
		}
	}
	return 0
}

func idOf(n int64) id.ID { return id.ID(n) }
