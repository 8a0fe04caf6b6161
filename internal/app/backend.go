package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"tandian/internal/config"
	"tandian/internal/flashsale"
	"tandian/internal/kit/kv"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/sqlqueue"
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
	gate   flashsale.Gate
	broker queue.Broker

	acceptUnknown bool // see flashsale.Options
	backlog       func(ctx context.Context, q store.Querier) ([]order.Reservation, error)
	sessionsFor   time.Duration // how long a session may be believed without asking: nobody else changes it
	handovers     int           // messages on their way side by side

	workers []supervise.Worker
	close   func() error
}

const (
	journalEvery = 200 * time.Millisecond // what a SIGKILL costs of sign-ins
	sessionTrust = time.Minute
)

// database is the opened store of rows.
type database struct {
	*store.DB
	dialect schema.Dialect
	close   func() error
}

// openDatabase opens the rows without touching their tables.
func openDatabase(ctx context.Context, cfg *config.Config) (*database, error) {
	if err := os.MkdirAll(cfg.DataDir, 0o750); err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	unlock, err := lockDir(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	db, err := store.OpenSQLite(ctx, filepath.Join(cfg.DataDir, "tandian.db"))
	if err != nil {
		unlock()
		return nil, err
	}
	return &database{DB: db, dialect: schema.SQLite, close: func() error { defer unlock(); return db.Close() }}, nil
}

// embedded opens the stores that need nothing installed: SQLite for rows and queue, memory for gate and sessions.
func embedded(ctx context.Context, cfg *config.Config, c clock, onError func(string) func(error)) (b *backend, err error) {
	db, err := openDatabase(ctx, cfg)
	if err != nil {
		return nil, err
	}
	b = &backend{mode: "embedded", db: db.DB, close: db.close, stores: []string{db.Name + "  " + cfg.DataDir}, gate: flashsale.NewMemoryGate(c.now),
		broker: sqlqueue.New(db.DB, c.now), backlog: backlog, sessionsFor: sessionTrust, handovers: 1}
	defer func() {
		if err != nil {
			_ = b.close()
		}
	}()
	if _, err := schema.Up(ctx, db.dialect, db.Write.DB); err != nil {
		return nil, err
	}
	memory := kv.NewMemory(c.now)
	journal := &kv.Journal{Memory: memory, DB: db.DB}
	if err := journal.Load(ctx); err != nil {
		return nil, err
	}
	b.kv = memory
	b.workers = []supervise.Worker{{Name: "kv journal", Run: func(ctx context.Context) error {
		_ = supervise.Every(ctx, journalEvery, nil, journal.Flush, onError("kv journal"))
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		return journal.Flush(ctx) // what changed since the last turn
	}}}
	return b, nil
}

// backlog lists the reservations that wait in the SQL queue.
func backlog(ctx context.Context, q store.Querier) ([]order.Reservation, error) {
	bodies, err := sqlqueue.Backlog(ctx, q, order.TopicCreate)
	if err != nil {
		return nil, err
	}
	var all []order.Reservation
	for _, body := range bodies {
		rs, err := order.Decode(body)
		if err != nil {
			continue // poison: the writer makes a dead letter of it
		}
		all = append(all, rs...)
	}
	return all, nil
}
