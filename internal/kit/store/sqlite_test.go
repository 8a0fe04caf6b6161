package store_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/uptrace/bun"

	"tandian/internal/kit/store"
	"tandian/internal/schema"
)

func open(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "with space & sign?.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := schema.Up(t.Context(), schema.SQLite, db.Write.DB); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestWritesAreDurableOnEveryConnection(t *testing.T) {
	db := open(t)
	for range 3 { // a connection that is closed is opened anew with the same settings
		var sync, mode string
		if err := db.Write.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&sync); err != nil || sync != "2" {
			t.Fatalf("synchronous is %q (2 = FULL): %v", sync, err)
		}
		if err := db.Write.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode); err != nil || mode != "wal" {
			t.Fatalf("journal_mode is %q: %v", mode, err)
		}
		conn, err := db.Write.DB.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Raw(func(any) error { return errors.New("throw this connection away") })
		_ = conn.Close()
	}
}

func TestReadSideRefusesWrites(t *testing.T) {
	db := open(t)
	if _, err := db.Read.ExecContext(t.Context(), "DELETE FROM users"); err == nil {
		t.Fatal("the read side must not write")
	}
}

func TestTxRollsBackAndTellsDuplicates(t *testing.T) {
	db := open(t)
	insert := `INSERT INTO category (id, name, icon, sort) VALUES (1, 'a', 'b', 1)`
	boom := errors.New("boom")
	err := db.Tx(t.Context(), func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.ExecContext(ctx, insert); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if _, err := db.Write.ExecContext(t.Context(), insert); err != nil {
		t.Fatal("the rolled back row is still there", err)
	}
	if _, err := db.Write.ExecContext(t.Context(), insert); !db.IsDuplicate(err) || !db.IsRejected(err) {
		t.Fatal("a repeated key must be told as such", err)
	}
	if _, err := db.Write.ExecContext(t.Context(), `INSERT INTO category (id) VALUES (2)`); !db.IsRejected(err) || db.IsDuplicate(err) {
		t.Fatal("another violation is no duplicate", err)
	}
	if _, err := db.Write.ExecContext(t.Context(), `nonsense`); err == nil || db.IsRejected(err) {
		t.Fatal("a faulty statement says nothing about the row", err)
	}
}

func TestLeaseIDs(t *testing.T) {
	db := open(t)
	lease := db.LeaseIDs("order")
	a, err := lease(t.Context(), 100, 50)
	if err != nil {
		t.Fatal(err)
	}
	b, err := lease(t.Context(), 100, 20) // the clock jumped back
	if err != nil || b.From != a.From+100 || b.Floor != 50 {
		t.Fatalf("%+v then %+v: %v", a, b, err)
	}
	if _, err := db.LeaseIDs("no such")(t.Context(), 1, 1); err == nil {
		t.Fatal("an unknown sequence must be refused")
	}
}

// Statements are kept per connection; a kept one must not remember anything of its last run, survive a change of the
// tables, and may be in use twice at a time.
func TestKeptStatements(t *testing.T) {
	db := open(t)
	ctx := t.Context()
	const insert = `INSERT INTO category (name, icon, sort) VALUES (?, ?, ?)`
	for i := range 300 {
		if err := store.Exec(ctx, db.Write, insert, "n", "i", i); err != nil {
			t.Fatal(err)
		}
	}
	type category struct {
		ID   int64
		Sort int64
	}
	for _, want := range []int64{7, 8} {
		var c category
		if err := db.Get(ctx, db.Read, &c, `SELECT id, sort FROM category WHERE sort = ?`, want); err != nil || c.Sort != want {
			t.Fatal(c, err)
		}
	}
	var c category
	if err := db.Get(ctx, db.Read, &c, `SELECT id, sort FROM category WHERE sort = ?`, -1); !errors.Is(err, sql.ErrNoRows) {
		t.Fatal("no row must be told", err)
	}
	if _, err := db.Write.ExecContext(ctx, `ALTER TABLE category ADD COLUMN extra INTEGER`); err != nil {
		t.Fatal(err)
	}
	if err := store.Exec(ctx, db.Write, insert, "n", "i", 1000); err != nil {
		t.Fatal("a kept statement after a change of its table", err)
	}
	err := db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		const query = `SELECT id, sort FROM category WHERE sort >= ? ORDER BY sort`
		outer, err := tx.Tx.QueryContext(ctx, query, 298)
		if err != nil {
			return err
		}
		defer outer.Close()
		n := 0
		for outer.Next() {
			var inner []category
			if err := db.Select(ctx, tx, &inner, query, 299); err != nil || len(inner) != 2 {
				t.Errorf("%d rows (%v)", len(inner), err)
			}
			n++
		}
		if n != 3 {
			t.Errorf("%d outer rows", n)
		}
		return outer.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
}
