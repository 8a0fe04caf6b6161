// Package app is the only package that knows everything: it opens the backend, fits the features together, lists the
// routes and the workers, and runs them until told to stop.
package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tandian/internal/account"
	"tandian/internal/config"
	"tandian/internal/demo"
	"tandian/internal/flashsale"
	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/store"
	"tandian/internal/kit/supervise"
	"tandian/internal/order"
	"tandian/internal/payment"
	"tandian/internal/payment/sandbox"
	"tandian/internal/shop"
	"tandian/internal/voucher"
)

// clock is where the program reads time and randomness from.
type clock struct {
	now  func() time.Time
	rand io.Reader
}

// newID draws a random id of a message or an attempt.
func (c clock) newID() string {
	u, err := uuid.NewRandomFromReader(c.rand)
	if err != nil {
		panic(err) // a system without randomness can't sell anything
	}
	return u.String()
}

// apiVersion is what the OpenAPI document carries: the version of the API's shape, not of the build.
const apiVersion = "1"

// App is the whole program, ready to run.
type App struct {
	cfg     *config.Config
	log     *slog.Logger
	clock   clock
	metrics *prometheus.Registry
	backend *backend
	group   *supervise.Group

	accounts *account.Service
	shops    *shop.Service
	vouchers *voucher.Service
	sales    *flashsale.Service
	orders   *order.Service
	closer   *order.Closer
	checker  *order.Checker
	redeemer *order.Redeemer
	payments *payment.Service
	sandbox  *sandbox.Sandbox // nil unless it is offered
	writer   *order.Writer
	letters  *order.DeadLetters
	compare  *flashsale.Reconciler
	notifier *order.Notifier
	handover *flashsale.Handover
	town     *demo.Town // nil without demo data
	api      *api.API

	handler       http.Handler // of the public listener
	operators     *operators
	public, admin net.Listener
	readiness     *readiness
	closing       context.Context // ends when the listeners are told to stop
	beginClosing  context.CancelFunc
	released      chan struct{} // gate_release rows may be waiting
}

// New binds both listeners, examines and opens the stores, brings the tables up to date and opens the gates of running
// sales. The admin listener answers from the beginning. Close must be called, also after Run.
func New(ctx context.Context, cfg *config.Config, log *slog.Logger) (_ *App, err error) {
	a := &App{cfg: cfg, log: log, clock: clock{now: time.Now, rand: rand.Reader}, metrics: prometheus.NewRegistry(), released: make(chan struct{}, 1)}
	a.readiness = newReadiness(a.clock.now, log)
	a.closing, a.beginClosing = context.WithCancel(context.WithoutCancel(ctx))
	restarts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tandian_worker_restarts_total", Help: "Workers that ended and were started again."}, []string{"worker"})
	a.metrics.MustRegister(restarts, a.readiness, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.group = supervise.New(log, func(worker string) { restarts.WithLabelValues(worker).Inc() })
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	if err := a.listen(); err != nil {
		return nil, err
	}
	a.operators = newOperators()
	a.group.Start(ctx, a.adminListener())
	if err := admit(ctx, cfg, a.clock, log); err != nil {
		return nil, err
	}
	if a.backend, err = openBackend(ctx, cfg, a.clock, a.log, a.report); err != nil {
		return nil, err
	}
	a.readiness.watch(a.backend.dependencies)
	if err := a.build(); err != nil {
		return nil, err
	}
	if err := a.sales.WarmUp(ctx); err != nil {
		return nil, err
	}
	if cfg.Demo {
		if err := a.seed(ctx); err != nil {
			return nil, err
		}
	}
	return a, a.shops.RefreshNearby(ctx)
}

func (a *App) listen() (err error) {
	if a.public, err = net.Listen("tcp", a.cfg.Addr); err != nil {
		return err
	}
	a.admin, err = net.Listen("tcp", a.cfg.AdminAddr)
	return err
}

// lookAgain lies between the two looks of a comparison of gate and SQL.
const lookAgain = 2 * time.Second

// build fits the features together. The order is the import law's: who is needed comes first.
func (a *App) build() error {
	b, c, cfg := a.backend, a.clock, a.cfg
	clientIP := api.ClientIP(cfg.TrustedProxies)

	a.shops = shop.New(shop.Options{DB: b.db, Now: c.now, Log: a.log})
	a.vouchers = voucher.New(voucher.Options{DB: b.db, Owners: a.shops, Now: c.now})
	a.accounts = account.New(account.Options{DB: b.db, KV: b.kv, Now: c.now, Log: a.log, Rand: c.rand, ShopsOf: a.shops.ShopsOf,
		SessionTTL: cfg.SessionTTL, SessionMax: cfg.SessionMax, Secret: b.codeSecret,
		DemoInbox: cfg.Demo, TestUsers: cfg.Demo || cfg.AllowTestUsers, SecureCookie: cfg.SecureCookie})

	a.writer = &order.Writer{DB: b.db, Now: c.now, Log: a.log, Metrics: order.NewMetrics(a.metrics), Broker: b.broker, Batch: cfg.WriterBatch,
		NewID: c.newID, Ended: a.wakeReleaser}
	a.letters = &order.DeadLetters{DB: b.db, Broker: b.broker, Tomb: a.writer, Now: c.now, Log: a.log, Metrics: order.NewLetterMetrics(a.metrics), Pause: cfg.DeadLetterRetry}
	a.metrics.MustRegister(a.letters)
	sender, err := a.sender()
	if err != nil {
		return err
	}
	a.notifier = &order.Notifier{DB: b.db, Sender: sender, Log: a.log}
	if b.handsOver {
		a.handover = flashsale.NewHandover(b.broker, c.newID, cfg.WriterBatch)
	}
	a.sales = flashsale.New(flashsale.Options{DB: b.db, Gate: b.gate, Broker: b.broker, Handover: a.handover, Tomb: a.writer,
		Owners: a.shops, Shops: shopCards{a.shops}, IDs: &id.Sequence{Lease: b.db.LeaseIDs("order"), Now: c.now, Size: int64(cfg.IDBlock)},
		NewKey: c.newID, Now: c.now, Log: a.log, Metrics: flashsale.NewMetrics(a.metrics),
		PayWindow: cfg.PayWindow, ConfirmTimeout: cfg.ConfirmTimeout, SweepAfter: cfg.SweepAfter, AcceptUnknown: b.acceptUnknown, Backlog: a.backlog})
	watch := order.NewWatch(b.db)
	a.closer = &order.Closer{DB: b.db, Now: c.now, Log: a.log, Closed: watch.Poke, Ended: a.wakeReleaser}
	a.checker = &order.Checker{Closer: a.closer, Broker: b.broker}
	a.orders = &order.Service{DB: b.db, Seats: a.sales, Shops: a.shops, Closer: a.closer, Now: c.now, Log: a.log, Watch: watch, Closing: a.closing}
	a.redeemer = &order.Redeemer{DB: b.db, Shops: a.shops, Buyers: a.accounts, Now: c.now, Changed: watch.Poke}
	a.writer.Seats, a.writer.Written = a.sales, watch.Poke
	if err := a.buildPayments(); err != nil {
		return err
	}
	a.compare = flashsale.NewReconciler(a.sales, b.gate, lookAgain, a.metrics)

	a.api = api.New(api.Options{Version: apiVersion, Log: a.log, Metrics: a.metrics, Now: c.now, Rand: c.rand,
		Limiter: limit.New(c.now, limit.Override{Global: cfg.LimitGlobal, IP: cfg.LimitIP, User: cfg.LimitUser}),
		Resolve: a.operators.resolve(a.accounts.Resolve), ClientIP: clientIP, Away: b.db.IsAway})
	a.routes()
	a.handler = a.publicHandler()
	a.operators.open(a.handler)
	a.metrics.MustRegister(&queueCollector{broker: b.broker, log: a.log})
	return nil
}

// backlog lists the reservations without a row that no gate remembers: those in a queue that can be listed, and the dead
// letters.
func (a *App) backlog(ctx context.Context, q store.Querier) ([]order.Reservation, error) {
	waiting, err := order.DeadReservations(ctx, q)
	if err != nil || a.backend.backlog == nil {
		return waiting, err
	}
	queued, err := a.backend.backlog(ctx, q)
	return append(queued, waiting...), err
}

// sender is where notifications go.
func (a *App) sender() (order.Sender, error) {
	if a.cfg.NotifyWebhookURL == "" {
		return order.LogSender{Log: a.log}, nil
	}
	return order.NewWebhookSender(a.cfg.NotifyWebhookURL, a.cfg.NotifyWebhookSecret.Reveal(), a.clock.now)
}

func (a *App) seed(ctx context.Context) error {
	a.town = demo.New(demo.Options{DB: a.backend.db, Accounts: a.accounts, Now: a.clock.now, NewSale: a.newSale})
	return a.town.Seed(ctx)
}

func (a *App) newSale(ctx context.Context, voucherID id.ID, stock int64, beginsAt, endsAt time.Time, perUser int) (id.ID, error) {
	sale, err := a.sales.Open(ctx, voucherID, stock, beginsAt, endsAt, perUser)
	if err != nil {
		return 0, err
	}
	return sale.ID, nil
}

func (a *App) wakeReleaser() {
	select {
	case a.released <- struct{}{}:
	default:
	}
}

// Run serves until ctx ends, then drains: readiness turns red and, after the drain delay that a balancer needs to see
// it, the listeners stop, the intake ends, the writers finish, each waited for before the next is told. It returns an error if something did not end in time.
func (a *App) Run(ctx context.Context) error {
	a.group.Start(ctx, a.workers()...)
	a.readiness.state.Store(serving)
	if err := errors.Join(a.operators.invite(a.backend.operatorFile, a.Info().AdminURL), a.writeReadyFile()); err != nil {
		return errors.Join(err, a.stop(ctx))
	}
	a.log.Info("serving", "url", a.Info().URL, "admin", a.Info().AdminURL, "mode", a.backend.mode, "version", Version())
	<-ctx.Done()
	return a.stop(ctx)
}

func (a *App) stop(ctx context.Context) error {
	a.readiness.state.Store(draining)
	if a.cfg.DrainDelay > 0 {
		a.log.Info("not ready any more", "listensFor", a.cfg.DrainDelay.String())
		supervise.Sleep(context.WithoutCancel(ctx), a.cfg.DrainDelay)
	}
	a.log.Info("draining", "atMost", a.cfg.ShutdownTimeout.String())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.ShutdownTimeout)
	defer cancel()
	a.beginClosing()
	return errors.Join(a.group.Stop(ctx), a.operators.disinvite())
}

// writeReadyFile tells whoever started us where we serve. It appears whole or not at all.
func (a *App) writeReadyFile() error {
	if a.cfg.ReadyFile == "" {
		return nil
	}
	info := a.Info()
	b, err := json.Marshal(map[string]any{"url": info.URL, "adminUrl": info.AdminURL, "pid": os.Getpid()})
	if err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(a.cfg.ReadyFile), "."+filepath.Base(a.cfg.ReadyFile)+".part")
	if err := os.WriteFile(part, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("--ready-file: %w", err)
	}
	return os.Rename(part, a.cfg.ReadyFile)
}

// Close releases listeners and stores. It may be called on a half-built App and more than once.
func (a *App) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), a.cfg.ShutdownTimeout)
	defer cancel()
	err := a.group.Stop(ctx) // the admin listener, if there was no Run
	a.readiness.watch(nil)
	for _, l := range []net.Listener{a.public, a.admin} {
		if l == nil {
			continue
		}
		if e := l.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	a.beginClosing()
	if a.backend != nil {
		err = errors.Join(err, a.backend.close())
		a.backend = nil
	}
	return err
}

// OpenAPI returns the document of the native API.
func (a *App) OpenAPI() ([]byte, error) { return a.api.OpenAPIDocument() }

// Accounts is for commands that make users.
func (a *App) Accounts() *account.Service { return a.accounts }

// Info tells where the App serves and on what. The App must be open.
func (a *App) Info() Info {
	info := Info{Version: Version(), Mode: a.backend.mode, URL: urlOf(a.public), AdminURL: urlOf(a.admin), Stores: a.backend.stores}
	if a.cfg.Demo {
		for _, acc := range demo.Accounts() {
			info.Accounts = append(info.Accounts, DemoAccount{Role: string(acc.Role), Phone: acc.Phone, Password: acc.Password})
		}
	}
	return info
}

func urlOf(l net.Listener) string {
	addr := l.Addr().(*net.TCPAddr)
	host := "localhost"
	if !addr.IP.IsUnspecified() {
		host = addr.IP.String()
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}

// Version is the version control's word, "dev" outside of it.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return s.Value[:12]
		}
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "dev"
}

// sameAgain is how long an unchanged complaint of a worker is not repeated.
const sameAgain = 30 * time.Second

// report returns what a worker does with an error that doesn't end it: it goes to the log, but not each second while a
// store is away. The function is for one goroutine.
func (a *App) report(worker string) func(error) {
	var last string
	var at time.Time
	return func(err error) {
		if now := a.clock.now(); err.Error() != last || now.Sub(at) >= sameAgain {
			last, at = err.Error(), now
			a.log.Warn("worker turn failed", "worker", worker, "err", err)
		}
	}
}

// shopCards fits package shop to what flashsale shows of shops.
type shopCards struct{ shops *shop.Service }

func (s shopCards) ShopCards(ctx context.Context, ids []id.ID) (map[id.ID]flashsale.ShopCard, error) {
	cards, err := s.shops.Cards(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[id.ID]flashsale.ShopCard, len(cards))
	for shopID, c := range cards {
		out[shopID] = flashsale.ShopCard(c)
	}
	return out, nil
}
