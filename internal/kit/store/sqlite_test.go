package store_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/uptrace/bun"

	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
)

func TestWritesAreDurableOnEveryConnection(t *testing.T) {
	db := storetest.SQLite(t)
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
	db := storetest.SQLite(t)
	if _, err := db.Read.ExecContext(t.Context(), "DELETE FROM users"); err == nil {
		t.Fatal("the read side must not write")
	}
}

// Statements are kept per connection; a kept one must not remember anything of its last run, survive a change of the
// tables, and may be in use twice at a time.
func TestKeptStatements(t *testing.T) {
	db := storetest.SQLite(t)
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
