package store_test

import (
	"context"
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
