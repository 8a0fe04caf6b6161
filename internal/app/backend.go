package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/account"
	"tandian/internal/config"
	"tandian/internal/doctor"
	"tandian/internal/flashsale"
	"tandian/internal/kit/kv"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/rabbit"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/kit/queue/stream"
	"tandian/internal/kit/store"
	"tandian/internal/kit/supervise"
	"tandian/internal/order"
	"tandian/internal/schema"
)

// backend is everything that differs between the modes. No other file knows which one it is.
type backend struct {
	mode   string
	stores []string // with versions

	db     *store.DB
	kv     kv.Store
	gate   flashsale.ListedGate
	broker queue.Broker

	acceptUnknown bool // see flashsale.Options
	backlog       func(ctx context.Context, q store.Querier) ([]order.Reservation, error)
	handsOver     bool // false: the gate itself puts whom it admits into the queue

	operatorFile string // where a command finds the running server that holds the stores; "" = it opens them beside it

	codeSecret []byte // see account.Options; nil = one of this process

	// secret returns a key for a purpose, the same after a restart and on all instances.
	secret func(purpose string) ([]byte, error)

	dependencies []dependency // what selling needs

	workers []supervise.Worker
	closers []func() error // in the order of opening
}

const (
	journalEvery = 200 * time.Millisecond // what a SIGKILL costs of sign-ins
	sqlPool      = 32                     // connections of an instance to its SQL server
)

// redisOption is how Redis is reached.
func redisOption(cfg *config.Config) rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{cfg.RedisAddr}, Username: cfg.RedisUser, Password: cfg.RedisPassword.Reveal(),
		ConnWriteTimeout: 2 * time.Second, RetryDelay: fewRetries}
}

// fewRetries lets the client repeat a read when its connection turns out to be lost, and no more: without a server it
// would go on for ever, while somebody waits for a page that can be shown without it.
func fewRetries(attempts int, _ rueidis.Completed, _ error) time.Duration {
	if attempts > 2 {
		return -1
	}
	return 10 * time.Millisecond
}

// examinations look at the stores that the settings ask for. needed are those without which nothing can be served;
// without the others nothing can be sold.
func examinations(cfg *config.Config, c clock) (needed, others []doctor.Examination) {
	if !cfg.Production() {
		held := func() (string, error) { return holder(cfg.DataDir) }
		return []doctor.Examination{doctor.Folder(cfg.DataDir, held), doctor.SQLite(databaseFile(cfg), held)}, nil
	}
	needed = []doctor.Examination{doctor.MySQL(cfg.MySQLDSN.Reveal(), sqlPool, c.now), doctor.Redis(redisOption(cfg), cfg.Streams(), c.now)}
	if !cfg.Streams() {
		others = []doctor.Examination{doctor.RabbitMQ(cfg.RabbitMQURL.Reveal(), rabbit.Orders())}
	}
	return needed, others
}

func databaseFile(cfg *config.Config) string { return filepath.Join(cfg.DataDir, "tandian.db") }

// database is the opened store of rows.
type database struct {
	*store.DB
	dialect schema.Dialect
	close   func() error
}

// openDatabase opens the rows without touching their tables.
func openDatabase(ctx context.Context, cfg *config.Config) (*database, error) {
	if cfg.Production() {
		db, err := store.OpenMySQL(ctx, cfg.MySQLDSN.Reveal(), store.Pool{MaxOpen: sqlPool, MaxIdle: sqlPool / 2})
		if err != nil {
			return nil, fmt.Errorf("--mysql-dsn: %w", err)
		}
		return &database{DB: db, dialect: schema.MySQL, close: db.Close}, nil
	}
	if err := os.MkdirAll(cfg.DataDir, 0o750); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	unlock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	if err := store.CheckSQLite(databaseFile(cfg)); err != nil {
		unlock()
		return nil, err
	}
	db, err := store.OpenSQLite(ctx, databaseFile(cfg))
	if err != nil {
		unlock()
		return nil, err
	}
	return &database{DB: db, dialect: schema.SQLite, close: func() error { defer unlock(); return db.Close() }}, nil
}

// openBackend opens what the settings ask for and brings the tables up to date.
func openBackend(ctx context.Context, cfg *config.Config, c clock, log *slog.Logger, onError func(string) func(error)) (b *backend, err error) {
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b = &backend{db: db.DB, dependencies: []dependency{{"database", db.Writable}}, closers: []func() error{db.close}}
	defer func() {
		if err != nil {
			b, err = nil, errors.Join(err, b.close())
		}
	}()
	if _, err := schema.Up(ctx, db.dialect, db.Write.DB); err != nil {
		return nil, err
	}
	if cfg.Production() {
		return b, b.production(ctx, cfg, c, log, onError)
	}
	return b, b.embedded(ctx, cfg, c, onError)
}

// close ends everything in the reverse order of its opening.
func (b *backend) close() error {
	var err error
	for _, end := range slices.Backward(b.closers) {
		err = errors.Join(err, end())
	}
	return err
}

// production adds Redis and a queue. Several instances share them.
func (b *backend) production(ctx context.Context, cfg *config.Config, c clock, log *slog.Logger, onError func(string) func(error)) error {
	redis := redisOption(cfg)
	client, err := rueidis.NewClient(redis)
	if err != nil {
		return fmt.Errorf("--redis-addr: %w", err)
	}
	b.closers = append(b.closers, func() error { client.Close(); return nil })
	gate, err := flashsale.OpenRedisGate(redis, c.now)
	if err != nil {
		return fmt.Errorf("--redis-addr: %w", err)
	}
	b.closers = append(b.closers, func() error { gate.Close(); return nil })
	link := kv.NewLink(redis, account.LeasedKeys(), c.now, onError("kv link"))
	b.workers = []supervise.Worker{{Name: "kv link", Run: link.Run}}
	b.mode, b.kv, b.gate = "production", &kv.Redis{Client: client, Link: link}, gate
	b.stores = []string{b.db.Name, "Redis " + cfg.RedisAddr}
	b.dependencies = append(b.dependencies, dependency{"redis", b.redisTakesWrites})
	b.acceptUnknown = true
	b.codeSecret = []byte(cfg.MessageSecret.Reveal())
	b.secret = derived(b.codeSecret)
	if cfg.Streams() {
		return b.streams(ctx, cfg, c, log, client, gate)
	}
	return b.rabbit(ctx, cfg, c, log)
}

// rabbit queues orders in RabbitMQ.
func (b *backend) rabbit(ctx context.Context, cfg *config.Config, c clock, log *slog.Logger) error {
	broker, err := rabbit.Open(ctx, rabbit.Options{URL: cfg.RabbitMQURL.Reveal(), Topology: rabbit.Orders(), Secret: []byte(cfg.MessageSecret.Reveal()),
		Now: c.now, Log: log, ConfirmTimeout: cfg.ConfirmTimeout, DeadLetter: b.deadLetter(c)})
	if err != nil {
		return fmt.Errorf("--rabbitmq-url: %w", err)
	}
	b.closers = append(b.closers, broker.Close)
	b.broker, b.handsOver = broker, true
	b.dependencies = append(b.dependencies, dependency{"queue", func(context.Context) error { return brokerIsUp(broker.Up(), broker.Delivering()) }})
	b.stores = append(b.stores, cmp.Or(broker.Server(), "RabbitMQ"))
	return nil
}

// streams queues orders in Redis, by the step that admits.
func (b *backend) streams(ctx context.Context, cfg *config.Config, c clock, log *slog.Logger, client rueidis.Client, gate *flashsale.RedisGate) error {
	gate.Append = true
	broker, err := stream.Open(ctx, stream.Options{Client: client, Instance: c.newID(), Log: log, PublishTimeout: cfg.ConfirmTimeout, DeadLetter: b.deadLetter(c),
		Streams: func(ctx context.Context, topic string) ([]string, error) {
			if topic != order.TopicCreate {
				return nil, nil
			}
			open, err := flashsale.OpenSales(ctx, b.db.Read, c.now())
			if err != nil {
				return nil, err
			}
			return gate.Streams(ctx, open)
		}})
	if err != nil {
		return fmt.Errorf("--broker: %w", err)
	}
	b.closers = append(b.closers, broker.Close)
	b.broker = broker
	b.dependencies = append(b.dependencies, dependency{"queue", func(context.Context) error { return brokerIsUp(broker.Up(), true) }})
	b.backlog = func(ctx context.Context, _ store.Querier) ([]order.Reservation, error) {
		bodies, err := broker.Backlog(ctx, order.TopicCreate)
		return reservations(bodies), err
	}
	b.stores = append(b.stores, "Redis Streams")
	return nil
}

// deadLetter keeps what a broker gives up on.
func (b *backend) deadLetter(c clock) func(ctx context.Context, topic string, m queue.Message, reason error) error {
	return func(ctx context.Context, topic string, m queue.Message, reason error) error {
		return order.KeepDeadLetter(ctx, b.db, topic, m, reason, c.now())
	}
}

// embedded adds what needs nothing installed: the queue in SQL, memory for gate and sessions.
func (b *backend) embedded(ctx context.Context, cfg *config.Config, c clock, onError func(string) func(error)) error {
	memory := kv.NewMemory(c.now)
	journal := &kv.Journal{Memory: memory, DB: b.db}
	if err := journal.Load(ctx); err != nil {
		return err
	}
	b.mode, b.kv, b.gate, b.broker = "embedded", memory, flashsale.NewMemoryGate(c.now), sqlqueue.New(b.db, c.now)
	b.stores = []string{b.db.Name + "  " + cfg.DataDir}
	b.operatorFile = operatorFile(cfg)
	b.secret = kept(cfg.DataDir)
	b.handsOver = true
	b.backlog = func(ctx context.Context, q store.Querier) ([]order.Reservation, error) {
		bodies, err := sqlqueue.Backlog(ctx, q, order.TopicCreate)
		return reservations(bodies), err
	}
	b.workers = []supervise.Worker{{Name: "kv journal", Run: func(ctx context.Context) error {
		_ = supervise.Every(ctx, journalEvery, nil, journal.Flush, onError("kv journal"))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return journal.Flush(ctx) // what changed since the last turn
	}}}
	return nil
}

// reservations reads the create messages that wait in a queue.
func reservations(bodies [][]byte) (all []order.Reservation) {
	for _, body := range bodies {
		rs, err := order.Decode(body)
		if err != nil {
			continue // poison: the writer makes a dead letter of it
		}
		all = append(all, rs...)
	}
	return all
}
