package flashsale_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/rueidis"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/queuetest"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// machine is a folder of servers of this test binary's own, which may be emptied, frozen and killed.
type machine struct{ dir string }

var own struct {
	sync.Once
	machine
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if own.dir != "" {
		if out, err := own.services("down"); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			code = 1
		}
	}
	os.Exit(code)
}

func (m machine) services(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "services"), args...)
	cmd.Env = append(os.Environ(), "TANDIAN_SERVICES="+m.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("services %v: %w\n%s", args, err, out)
	}
	return string(out), err
}

// up starts services of the machine and returns what they print.
func (m machine) up(t testing.TB, args ...string) string {
	t.Helper()
	out, err := m.services(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// redisServer is a Redis of the machine's, empty.
type redisServer struct {
	machine
	name, addr string
	client     rueidis.Client
}

// privateRedis returns a server that nobody else uses, empty: "redis", or "replica" which replicates the first.
func privateRedis(t testing.TB, name string) *redisServer {
	t.Helper()
	own.Do(func() { own.dir, own.err = os.MkdirTemp("", "tandian-flashsale") })
	if own.err != nil {
		t.Fatal(own.err)
	}
	out := own.up(t, "up", name)
	variable := map[string]string{"redis": "TANDIAN_REDIS_ADDR", "replica": "TANDIAN_TEST_REDIS_REPLICA"}[name]
	s := &redisServer{own.machine, name, regexp.MustCompile(variable + `=(\S+)`).FindStringSubmatch(out)[1], nil}
	s.connect(t)
	if name == "redis" {
		s.do(t, "FLUSHALL")
	}
	return s
}

func (s *redisServer) connect(t testing.TB) {
	t.Helper()
	var err error
	if s.client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.addr}, DisableCache: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
}

// do is an operator's hand.
func (s *redisServer) do(t testing.TB, words ...string) rueidis.RedisResult {
	t.Helper()
	res := s.client.Do(context.WithoutCancel(t.Context()), s.client.B().Arbitrary(words...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatal(words, err)
	}
	return res
}

// commands counts what the server has done so far for anybody, but for what keeps connections alive or asks for this.
func (s *redisServer) commands(t testing.TB) (n int64) {
	t.Helper()
	for command, calls := range s.stats(t) {
		if command != "info" && command != "ping" {
			n += calls
		}
	}
	return n
}

// stats are the calls of each command so far.
func (s *redisServer) stats(t testing.TB) map[string]int64 {
	t.Helper()
	text, err := s.do(t, "INFO", "commandstats").ToString()
	if err != nil {
		t.Fatal(err)
	}
	stats := map[string]int64{}
	for _, m := range regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`).FindAllStringSubmatch(text, -1) {
		if stats[m[1]], err = strconv.ParseInt(m[2], 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return stats
}

// link is the way to a Redis server. The test may cut it, turn it to another server, or have it lose a reply.
type link struct {
	mu    sync.Mutex
	addr  string                 // guarded by mu
	conns map[net.Conn]struct{}  // guarded by mu
	lose  func(sent []byte) bool // guarded by mu: whether the reply to this is lost, with the connection

	writes atomic.Int64 // sendings, each of one or more commands
}

func newLink(addr string) *link { return &link{addr: addr, conns: map[net.Conn]struct{}{}} }

func (l *link) option() rueidis.ClientOption {
	fewRetries := func(attempts int, _ rueidis.Completed, _ error) time.Duration {
		if attempts > 2 {
			return -1
		}
		return 10 * time.Millisecond
	}
	return rueidis.ClientOption{InitAddress: []string{"gate"}, DialCtxFn: l.dial, ConnWriteTimeout: 2 * time.Second, RetryDelay: fewRetries}
}

func (l *link) dial(ctx context.Context, _ string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	conn, err := d.DialContext(ctx, "tcp", l.addr)
	if err != nil {
		return nil, err
	}
	l.conns[conn] = struct{}{}
	return &linkConn{Conn: conn, link: l}, nil
}

// turn leads to another address from now on, and ends the connections that there are.
func (l *link) turn(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addr = addr
	for conn := range l.conns {
		_ = conn.Close()
		delete(l.conns, conn)
	}
}

// nowhere is an address at which nobody listens.
const nowhere = "127.0.0.1:1"

// loseReplies has the replies lost to the next n sendings that contain the word.
func (l *link) loseReplies(word string, n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = func(sent []byte) bool {
		if n == 0 || !strings.Contains(string(sent), word) {
			return false
		}
		n--
		return true
	}
}

type linkConn struct {
	net.Conn
	link *link
	deaf atomic.Bool
}

func (c *linkConn) Write(b []byte) (int, error) {
	c.link.writes.Add(1)
	c.link.mu.Lock()
	if c.link.lose != nil && c.link.lose(b) {
		c.deaf.Store(true)
	}
	c.link.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *linkConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.deaf.Load() { // the server has answered: what was asked is done
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// town is the money path as several processes share it: MySQL, a queue that can't be listed, a Redis.
type town struct {
	db     *store.DB
	broker *queuetest.Faulty
	ahead  atomic.Int64 // ns by which the processes' clocks are moved
	sale   id.ID
}

// process is one of several that sell.
type process struct {
	*flashsale.Service
	*town
	gate     *flashsale.RedisGate
	writer   *order.Writer
	orders   *order.Service
	sweeper  *flashsale.Sweeper
	releaser *order.Releaser
	registry *prometheus.Registry
}

func newTown(t testing.TB) *town {
	t.Helper()
	w := &town{db: storetest.MySQL(t)}
	w.broker = &queuetest.Faulty{Broker: sqlqueue.New(w.db, w.now)}
	return w
}

func (w *town) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

// process starts one.
func (w *town) process(t testing.TB, o rueidis.ClientOption) *process {
	t.Helper()
	p := &process{town: w, registry: prometheus.NewRegistry()}
	var err error
	if p.gate, err = flashsale.OpenRedisGate(o, w.now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.gate.Close)
	log := slog.New(slog.DiscardHandler)
	p.writer = &order.Writer{DB: w.db, Now: w.now, Log: log, Metrics: order.NewMetrics(p.registry), Batch: 200, NewID: uuid.NewString,
		Broker: w.broker, Written: func([]id.ID) {}, Ended: func() {}}
	handover := flashsale.NewHandover(w.broker, uuid.NewString, 200)
	p.Service = flashsale.New(flashsale.Options{DB: w.db, Gate: p.gate, Broker: w.broker, Handover: handover, Tomb: p.writer, Owners: shopTown{}, Shops: shopTown{},
		IDs: &id.Sequence{Lease: w.db.LeaseIDs("order"), Now: w.now, Size: 1000}, NewKey: rand.Text, Now: w.now, Log: log, Metrics: flashsale.NewMetrics(p.registry),
		PayWindow: 30 * time.Minute, ConfirmTimeout: 10 * time.Second, SweepAfter: 10 * time.Second, AcceptUnknown: true})
	p.writer.Seats = p.Service
	p.orders = &order.Service{DB: w.db, Seats: p.Service, Now: w.now, Log: log, Watch: order.NewWatch(w.db), Closing: t.Context()}
	p.sweeper = flashsale.NewSweeper(p.Service)
	p.releaser = &order.Releaser{DB: w.db, Seats: p.Service}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = handover.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	if err := p.WarmUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// open puts a sale up that runs for an hour and has begun.
func (p *process) open(t testing.TB, stock int64, limit int) id.ID {
	t.Helper()
	voucherID := p.voucher(t)
	sale, err := p.Open(t.Context(), voucherID, stock, time.Now().Add(-time.Minute), p.now().Add(time.Hour), limit)
	if err != nil {
		t.Fatal(err)
	}
	p.sale = sale.ID
	return sale.ID
}

func (p *process) voucher(t testing.TB) id.ID {
	t.Helper()
	res, err := p.db.Write.Exec(`INSERT INTO voucher (shop_id, title, pay_value, face_value, created_at, updated_at) VALUES (1, 'v', 4750, 10000, 1, 1)`)
	if err != nil {
		t.Fatal(err)
	}
	voucherID, err := res.LastInsertId()
	if err != nil {
		t.Fatal(err)
	}
	return id.ID(voucherID)
}

// key is each user's own.
func key(user id.ID) string { return fmt.Sprintf("key-%08d", user) }

// buy has one unit bought by each of n users from the first on, who must all get an id.
func (p *process) buy(t testing.TB, first, n int) (bought map[id.ID]id.ID) {
	t.Helper()
	bought = map[id.ID]id.ID{}
	for u := range n {
		user := id.ID(first + u)
		orderID, err := p.Grab(t.Context(), user, p.sale, key(user))
		if err != nil {
			t.Fatal(user, err)
		}
		bought[user] = orderID
	}
	return bought
}

// drain lets the writer work until the queue is empty.
func (p *process) drain(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		d, err := p.broker.Depth(ctx, order.TopicCreate)
		if err != nil {
			t.Fatal(err)
		}
		if d.Ready+d.Unacked == 0 {
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

// write runs a writer until the returned function is called.
func (p *process) write(t testing.TB) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- p.broker.Consume(ctx, order.TopicCreate, queue.Batch{Max: 200}, p.writer.Handle)
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// settle lets everything that is on its way arrive, as the workers of a process do, also what only a sweeper finds.
func (p *process) settle(t testing.TB) {
	t.Helper()
	p.sweep(t) // what is lost is loaded
	p.drain(t)
	p.ahead.Add(int64(11 * time.Second)) // what was never handed over is old enough now
	p.sweep(t)
	p.drain(t)
	if err := p.releaser.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (p *process) sweep(t testing.TB) {
	t.Helper()
	if err := p.sweeper.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// loads counts the gates that this process has loaded for the cause; "" = for any.
func (p *process) loads(t testing.TB, cause flashsale.Cause) (n int) {
	t.Helper()
	families, err := p.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "tandian_gate_loads_total" && (cause == "" || m.GetLabel()[0].GetValue() == string(cause)) {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

func (p *process) epoch(t testing.TB) int64 {
	t.Helper()
	offer, err := voucher.FindOffer(t.Context(), p.db, p.db.Read, p.sale)
	if err != nil {
		t.Fatal(err)
	}
	return offer.Epoch
}

// known checks that no accepted id is told to be unknown for good; it may be told that nobody can say now.
func (p *process) known(t testing.TB, bought map[id.ID]id.ID) {
	t.Helper()
	for user, orderID := range bought {
		if _, err := p.orders.Find(t.Context(), user, orderID); err != nil && !errors.Is(err, order.ErrUnknown) {
			t.Fatal("I6: accepted, and then ", err)
		}
	}
}

// atRest checks the invariants after settle: every accepted id has ended, gate and SQL agree, nothing is oversold.
func (p *process) atRest(t testing.TB, accepted ...map[id.ID]id.ID) (live, failed int) {
	t.Helper()
	for _, bought := range accepted {
		for user, orderID := range bought {
			v, err := p.orders.Find(t.Context(), user, orderID)
			switch {
			case err != nil:
				t.Fatal("I6: accepted, and then ", err)
			case v.Status == order.Unpaid:
				live++
			case v.Status == order.Failed:
				failed++
			default:
				t.Fatal("I3: ", orderID, v.Status)
			}
		}
	}
	st, offer, tally := accounts(t, p.gate, p.db, p.sale)
	if !st.Loaded || st.Stock != offer.Stock || st.Orders != tally.Live || st.Pending != 0 || offer.Stock+tally.Live != offer.StockReleased || offer.Stock < 0 || tally.OverLimit != 0 {
		t.Fatalf("I4: gate %+v, SQL stock %d, released %d, %+v", st, offer.Stock, offer.StockReleased, tally)
	}
	return live, failed
}
