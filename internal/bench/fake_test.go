package bench

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the server that bench starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		if err := serveFake(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fake is a shop just good enough to be loaded: one mutex, one SQLite file, one
// writer. The environment variable FAILPOINT breaks it in one of the ways bench
// must notice.
type fake struct {
	fault string
	batch int
	db    *sql.DB

	mu       sync.Mutex
	sales    map[int64]*fakeSale // guarded by mu
	nextUser int64               // guarded by mu
	accepts  int                 // guarded by mu
	lost     []message           // guarded by mu: to be sent again after lostAt + 2.5 s
	lostAt   time.Time           // guarded by mu
	wake     chan struct{}
}

type fakeSale struct {
	ID, Limit  int64
	Begin, End time.Time
	gate       int64
	holds      map[int64]int64            // user → slots taken
	requests   map[string]int64           // user/key → order
	owned      map[int64]map[int64]string // user → order → ""
}

const fakeSchema = `
CREATE TABLE IF NOT EXISTS sale (id INTEGER PRIMARY KEY, stock INTEGER, stock_released INTEGER, limit_per_user INTEGER, begin INTEGER, finish INTEGER);
CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, sale_id INTEGER, user_id INTEGER, slot INTEGER, request_id TEXT, status INTEGER, reason TEXT, admitted INTEGER, UNIQUE (sale_id, user_id, slot));
CREATE TABLE IF NOT EXISTS queue (id INTEGER PRIMARY KEY, sale_id INTEGER, user_id INTEGER, slot INTEGER, request_id TEXT, admitted INTEGER);
CREATE INDEX IF NOT EXISTS orders_sale ON orders (sale_id, status);`

func serveFake(args []string) error {
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	dir, addr, ready := fs.String("data-dir", "", ""), fs.String("addr", "", ""), fs.String("ready-file", "", "")
	writers, batch := fs.Int("writers", 1, ""), fs.Int("writer-batch", 200, "")
	for _, ignored := range []string{"admin-addr", "limit-global", "limit-ip", "limit-user", "sweep-after"} {
		fs.String(ignored, "", "")
	}
	fs.Bool("demo", false, "")
	if err := fs.Parse(args); err != nil {
		fmt.Fprintln(os.Stderr, strings.Replace(err.Error(), "flag provided but not defined: -", "unknown flag --", 1)) // as the product says it
		return err
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(*dir, "tandian.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(0)&_pragma=busy_timeout(5000)&_txlock=immediate")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(fakeSchema); err != nil {
		return err
	}
	f := &fake{fault: os.Getenv("FAILPOINT"), batch: *batch, db: db, sales: map[int64]*fakeSale{}, nextUser: 1, wake: make(chan struct{}, 1)}
	if err := f.load(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: f.routes()}
	var wg sync.WaitGroup
	if *writers > 0 {
		wg.Go(func() { f.write(ctx) })
	}
	context.AfterFunc(ctx, func() { srv.Close() })
	b, _ := json.Marshal(map[string]any{"url": "http://" + ln.Addr().String(), "pid": os.Getpid()})
	if err := os.WriteFile(*ready, b, 0o600); err != nil {
		return err
	}
	_ = srv.Serve(ln)
	wg.Wait()
	return db.Close()
}

// load rebuilds the gate from the file.
func (f *fake) load() error {
	rows, err := f.db.Query(`SELECT id, stock - (SELECT count(*) FROM queue q WHERE q.sale_id = sale.id), limit_per_user, begin, finish FROM sale`)
	if err != nil {
		return err
	}
	for rows.Next() {
		s := newFakeSale()
		var begin, end int64
		if err := rows.Scan(&s.ID, &s.gate, &s.Limit, &begin, &end); err != nil {
			return err
		}
		s.Begin, s.End = time.UnixMilli(begin), time.UnixMilli(end)
		f.sales[s.ID] = s
	}
	rows.Close()
	rows, err = f.db.Query(`SELECT id, sale_id, user_id, COALESCE(request_id, '') FROM orders WHERE status < 4 UNION SELECT id, sale_id, user_id, request_id FROM queue`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, sale, user int64
		var request string
		if err := rows.Scan(&id, &sale, &user, &request); err != nil {
			return err
		}
		s := f.sales[sale]
		s.take(id, user, request)
		f.nextUser = max(f.nextUser, user+1)
	}
	return rows.Err()
}

func newFakeSale() *fakeSale {
	return &fakeSale{holds: map[int64]int64{}, requests: map[string]int64{}, owned: map[int64]map[int64]string{}}
}

func (s *fakeSale) take(id, user int64, request string) {
	s.holds[user]++
	s.requests[fmt.Sprint(user, "/", request)] = id
	if s.owned[user] == nil {
		s.owned[user] = map[int64]string{}
	}
	s.owned[user][id] = ""
}

func (f *fake) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/time", func(w http.ResponseWriter, r *http.Request) { reply(w, 200, map[string]any{"now": time.Now()}) })
	mux.HandleFunc("POST /api/v1/auth/sessions", func(w http.ResponseWriter, r *http.Request) { reply(w, 201, map[string]any{"token": "operator"}) })
	mux.HandleFunc("GET /api/v1/me", func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, map[string]any{"id": strconv.FormatInt(userOf(r), 10)})
	})
	mux.HandleFunc("GET /api/v1/shops", func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, map[string]any{"items": []any{map[string]any{"id": "7"}}})
	})
	mux.HandleFunc("GET /api/v1/shops/{id}", func(w http.ResponseWriter, r *http.Request) { reply(w, 200, map[string]any{"id": r.PathValue("id")}) })
	mux.HandleFunc("GET /api/v1/shops/{id}/vouchers", func(w http.ResponseWriter, r *http.Request) {
		reply(w, 200, map[string]any{"items": []any{map[string]any{"shopId": r.PathValue("id")}}})
	})
	mux.HandleFunc("POST /api/v1/shops/{id}/vouchers", func(w http.ResponseWriter, r *http.Request) { reply(w, 201, map[string]any{"id": "1"}) })
	mux.HandleFunc("POST /api/v1/vouchers/{id}/sale", f.openSale)
	mux.HandleFunc("POST /api/v1/console/test-users", f.testUsers)
	mux.HandleFunc("GET /api/v1/console/sales/{id}", f.console)
	mux.HandleFunc("GET /api/v1/sales/{id}", f.sale)
	mux.HandleFunc("POST /api/v1/sales/{id}/orders", f.grab)
	mux.HandleFunc("GET /api/v1/orders/{id}", f.order)
	mux.HandleFunc("GET /api/v1/orders", f.orders)
	return mux
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, code string, ids ...string) {
	reply(w, status, map[string]any{"status": status, "code": code, "orderIds": ids})
}

func userOf(r *http.Request) int64 {
	n, _ := strconv.ParseInt(strings.TrimPrefix(r.Header.Get("Authorization"), "u"), 10, 64)
	return n
}

func pathID(r *http.Request) int64 {
	n, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
	return n
}

func (f *fake) testUsers(w http.ResponseWriter, r *http.Request) {
	var in struct{ Count int }
	_ = json.NewDecoder(r.Body).Decode(&in)
	f.mu.Lock()
	defer f.mu.Unlock()
	var tokens []string
	for range in.Count {
		tokens = append(tokens, fmt.Sprint("u", f.nextUser))
		f.nextUser++
	}
	reply(w, 200, map[string]any{"tokens": tokens})
}

func (f *fake) openSale(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Stock, LimitPerUser int64
		BeginsAt, EndsAt    time.Time
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	f.mu.Lock()
	defer f.mu.Unlock()
	s := newFakeSale()
	s.ID, s.Limit, s.Begin, s.End, s.gate = int64(len(f.sales)+1), in.LimitPerUser, in.BeginsAt, in.EndsAt, in.Stock
	f.sales[s.ID] = s
	_, err := f.db.Exec("INSERT INTO sale VALUES (?, ?, ?, ?, ?, ?)", s.ID, in.Stock, in.Stock, s.Limit, s.Begin.UnixMilli(), s.End.UnixMilli())
	if err != nil {
		refuse(w, 500, err.Error())
		return
	}
	reply(w, 201, map[string]any{"id": fmt.Sprint(s.ID)})
}

func (f *fake) sale(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, now, phase := f.sales[pathID(r)], time.Now(), "live"
	switch {
	case now.Before(s.Begin):
		phase = "scheduled"
	case !now.Before(s.End):
		phase = "ended"
	}
	reply(w, 200, map[string]any{"id": fmt.Sprint(s.ID), "phase": phase, "beginsAt": s.Begin, "endsAt": s.End, "serverTime": now})
}

func (f *fake) grab(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, user, now := f.sales[pathID(r)], userOf(r), time.Now()
	key := fmt.Sprint(user, "/", r.Header.Get("Idempotency-Key"))
	if id, ok := s.requests[key]; ok {
		reply(w, 202, map[string]any{"orderId": fmt.Sprint(id), "status": "queued"})
		return
	}
	switch {
	case now.Before(s.Begin):
		refuse(w, 409, "sale.not_started")
		return
	case !now.Before(s.End) && f.fault != "ignore_end":
		refuse(w, 409, "sale.ended")
		return
	case s.holds[user] >= s.Limit && f.fault != "skip_unique":
		var ids []string
		for id := range s.owned[user] {
			ids = append(ids, fmt.Sprint(id))
		}
		refuse(w, 409, "sale.limit_reached", ids...)
		return
	case s.gate <= 0:
		refuse(w, 409, "sale.sold_out")
		return
	}
	if f.accepts++; f.fault == "crash" && f.accepts == 50 {
		go panic("seeded")
	}
	id := now.UnixNano()
	slot := sql.NullInt64{Int64: s.holds[user], Valid: f.fault != "skip_unique"}
	s.gate--
	s.take(id, user, r.Header.Get("Idempotency-Key"))
	if f.fault != "accept_without_queue" || f.accepts%10 != 0 {
		if f.send(message{id, s.ID, user, slot, r.Header.Get("Idempotency-Key"), now.UnixMilli()}) != nil {
			refuse(w, 503, "sale.unknown")
			return
		}
	}
	reply(w, 202, map[string]any{"orderId": fmt.Sprint(id), "status": "queued"})
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// write is the only writer. It also looks at the queue once in a while, since a
// restart leaves rows behind.
func (f *fake) write(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for batches := 0; ; {
		f.mu.Lock()
		f.resend()
		n := f.writeBatch(batches)
		f.mu.Unlock()
		if n > 0 {
			batches++
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-f.wake:
		}
	}
}

// message is a row of the queue.
type message struct {
	id, sale, user int64
	slot           sql.NullInt64
	request        string
	admitted       int64
}

// send puts a message into the queue.
func (f *fake) send(m message) error {
	_, err := f.db.Exec("INSERT INTO queue VALUES (?, ?, ?, ?, ?, ?)", m.id, m.sale, m.user, m.slot, m.request, m.admitted)
	return err
}

// resend is the scan that finds what the writer has lost.
func (f *fake) resend() {
	if f.lost == nil || time.Since(f.lostAt) < 2500*time.Millisecond {
		return
	}
	for _, m := range f.lost {
		_ = f.send(m)
	}
	f.lost = nil
}

// writeBatch turns queue rows into orders and returns their number.
func (f *fake) writeBatch(batches int) int {
	tx, err := f.db.Begin()
	if err != nil {
		return 0
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	rows, err := tx.Query("SELECT id, sale_id, user_id, slot, request_id, admitted FROM queue LIMIT ?", f.batch)
	if err != nil {
		return 0
	}
	var batch []message
	for rows.Next() {
		var m message
		if err := rows.Scan(&m.id, &m.sale, &m.user, &m.slot, &m.request, &m.admitted); err != nil {
			return 0
		}
		batch = append(batch, m)
	}
	rows.Close()
	var released []message
	for _, m := range batch {
		_, _ = tx.Exec("DELETE FROM queue WHERE id = ?", m.id)
		if f.fault == "ack_before_commit" && batches == 3 {
			continue // acked, and the batch is lost
		}
		if f.fault == "lose_and_resend" && m.sale == 1 && f.lostAt.IsZero() {
			f.lost, f.lostAt = append(f.lost, m), time.Now()
			continue
		}
		const insert = "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
		if _, err := tx.Exec(insert, m.id, m.sale, m.user, m.slot, m.request, 1, nil, m.admitted); err != nil {
			_, _ = tx.Exec(insert, m.id, m.sale, m.user, nil, m.request, 7, "limit", m.admitted)
			released = append(released, m)
			continue
		}
		_, _ = tx.Exec("UPDATE sale SET stock = stock - 1 WHERE id = ?", m.sale)
	}
	if tx.Commit() != nil {
		return 0
	}
	for _, m := range released {
		s := f.sales[m.sale]
		s.gate++
		s.holds[m.user]--
		if f.fault == "release_twice" {
			s.gate++
		}
	}
	return len(batch)
}

func (f *fake) console(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := pathID(r)
	s := f.sales[id]
	var stock, released, live, failed, ready, over int64
	_ = f.db.QueryRow("SELECT stock, stock_released FROM sale WHERE id = ?", id).Scan(&stock, &released)
	_ = f.db.QueryRow("SELECT count(*) FILTER (WHERE status < 4), count(*) FILTER (WHERE status = 7) FROM orders WHERE sale_id = ?", id).Scan(&live, &failed)
	_ = f.db.QueryRow("SELECT count(*) FROM queue WHERE sale_id = ?", id).Scan(&ready)
	_ = f.db.QueryRow("SELECT count(*) FROM (SELECT 1 FROM orders WHERE sale_id = ? AND status < 4 GROUP BY user_id HAVING count(*) > ?)", id, s.Limit).Scan(&over)
	reply(w, 200, map[string]any{
		"saleId": fmt.Sprint(id), "limitPerUser": s.Limit, "released": released, "atRest": ready == 0,
		"gate":  map[string]any{"loaded": true, "stock": s.gate, "pending": ready},
		"db":    map[string]any{"stock": stock, "live": live, "failed": failed, "overLimit": over},
		"queue": map[string]any{"ready": ready, "unacked": 0},
	})
}

func (f *fake) order(w http.ResponseWriter, r *http.Request) {
	var sale, admitted int64
	var status int
	var reason string
	const q = "SELECT sale_id, status, COALESCE(reason, ''), admitted FROM orders WHERE id = ?1 AND user_id = ?2 UNION ALL SELECT sale_id, 0, '', admitted FROM queue WHERE id = ?1 AND user_id = ?2"
	if f.db.QueryRow(q, pathID(r), userOf(r)).Scan(&sale, &status, &reason, &admitted) != nil {
		refuse(w, 404, "order.not_found")
		return
	}
	reply(w, 200, fakeOrder(pathID(r), sale, status, reason, admitted))
}

func fakeOrder(id, sale int64, status int, reason string, admitted int64) map[string]any {
	return map[string]any{
		"id": fmt.Sprint(id), "saleId": fmt.Sprint(sale), "status": cmp.Or(statusNames[status], "queued"), "reason": reason,
		"admittedAt": time.UnixMilli(admitted),
	}
}

func (f *fake) orders(w http.ResponseWriter, r *http.Request) {
	rows, err := f.db.Query("SELECT id, sale_id, status, COALESCE(reason, ''), admitted FROM orders WHERE user_id = ?", userOf(r))
	if err != nil {
		refuse(w, 503, "order.unknown")
		return
	}
	defer rows.Close()
	items := []any{}
	for rows.Next() {
		var id, sale, admitted int64
		var status int
		var reason string
		_ = rows.Scan(&id, &sale, &status, &reason, &admitted)
		items = append(items, fakeOrder(id, sale, status, reason, admitted))
	}
	reply(w, 200, map[string]any{"items": items})
}
