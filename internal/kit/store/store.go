// Package store exists so that features see one database whatever the mode: a handle with a write side and a read
// side, a transaction that is a closure, and the questions about errors that differ between dialects. Every package
// with rows uses it; SQL helpers take a Querier so that they compose inside one transaction.
package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
)

// Querier is what SQL helpers take: the database, one of its sides, or a transaction.
type Querier = bun.IDB

// DB is a database with two sides. Read may lag behind Write by nothing: both see every committed row.
type DB struct {
	Write *bun.DB // SQLite: one connection; every statement on it is durable when it returns
	Read  *bun.DB

	Name string // product and version, for the banner and doctor
	// RowsPerInsert is how many short rows (up to 1 KiB each) one INSERT carries at most.
	RowsPerInsert int

	dialect dialect
}

// dialect holds what differs between SQLite and MySQL beyond what bun hides.
type dialect struct {
	isDuplicate func(error) bool
	isRejected  func(error) bool
	isAway      func(error) bool
	trial       string // a statement that changes nothing and fails if changes do
}

// ErrCommitUnknown means the transaction may or may not have been committed: re-read by key before anything else.
var ErrCommitUnknown = errors.New("store: commit outcome unknown")

// Tx runs fn in a write transaction. An error or a panic of fn rolls back; an error of the commit itself comes back
// as ErrCommitUnknown.
func (d *DB) Tx(ctx context.Context, fn func(ctx context.Context, tx bun.Tx) error) error {
	tx, err := d.Write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() // after a commit it does nothing
	if err := fn(ctx, tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", ErrCommitUnknown, err)
	}
	return nil
}

// IsDuplicate reports whether err is the violation of a primary or unique key.
func (d *DB) IsDuplicate(err error) bool { return err != nil && d.dialect.isDuplicate(err) }

// IsRejected reports whether the database will never take this row: a duplicate, a CHECK, a missing value. Any other
// error may pass by itself.
func (d *DB) IsRejected(err error) bool { return err != nil && d.dialect.isRejected(err) }

// IsAway reports whether the database could not do it now, for a reason that is not the statement's: no connection, no
// room, a lock, read-only. The same may succeed later; after ErrCommitUnknown it may have succeeded already.
func (d *DB) IsAway(err error) bool {
	return err != nil && (errors.Is(err, ErrCommitUnknown) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, context.DeadlineExceeded) || d.dialect.isAway(err))
}

// Ping reports whether both sides answer.
func (d *DB) Ping(ctx context.Context) error {
	return errors.Join(d.Write.PingContext(ctx), d.Read.PingContext(ctx))
}

// Close waits for running statements and closes both sides.
func (d *DB) Close() error { return errors.Join(d.Read.Close(), d.Write.Close()) }

// LeaseIDs is an id.Lease over the table id_lease: one row per sequence name.
func (d *DB) LeaseIDs(name string) id.Lease {
	return func(ctx context.Context, n, now int64) (b id.Block, err error) {
		err = d.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
			// The update comes first: it takes the row's lock, so that the read sees our own block only.
			got, err := Affected(ctx, tx, `UPDATE id_lease SET next = next + ?, floor_at = CASE WHEN floor_at > ? THEN floor_at ELSE ? END WHERE name = ?`,
				n, now, now, name)
			if err != nil {
				return err
			}
			if got == 0 {
				return fmt.Errorf("no sequence named %q", name)
			}
			var next int64
			if err := tx.NewRaw(`SELECT next, floor_at FROM id_lease WHERE name = ?`, name).Scan(ctx, &next, &b.Floor); err != nil {
				return err
			}
			b.From, b.N = next-n, n
			return nil
		})
		return b, err
	}
}

// Millis is how times are kept in rows: Unix milliseconds, so that no server or session time zone can bend them.
// The zero time is 0.
func Millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Time is the inverse of Millis, in UTC.
func Time(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
