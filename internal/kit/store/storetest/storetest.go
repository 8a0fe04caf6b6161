// Package storetest opens every database that the product runs on, for tests: a fresh one each time, migrated.
package storetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"tandian/internal/kit/store"
	"tandian/internal/schema"
)

// Each runs the test on SQLite and, as a subtest of its own, on the server of TANDIAN_MYSQL_DSN; scripts/services
// starts one.
func Each(t *testing.T, test func(t *testing.T, db *store.DB)) {
	t.Run("sqlite", func(t *testing.T) { test(t, SQLite(t)) })
	t.Run("mysql", func(t *testing.T) { test(t, MySQL(t)) })
}

// SQLite opens a database in the test's folder.
func SQLite(t testing.TB) *store.DB {
	t.Helper()
	db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "with space & sign?.db"))
	if err != nil {
		t.Fatal(err)
	}
	return migrated(t, db, schema.SQLite)
}

// MySQL creates a database on the server and drops it after the test.
func MySQL(t testing.TB) *store.DB {
	t.Helper()
	dsn := os.Getenv("TANDIAN_MYSQL_DSN")
	if dsn == "" {
		t.Skip("no TANDIAN_MYSQL_DSN; run: eval \"$(scripts/services up)\"")
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	server, err := store.OpenMySQL(t.Context(), dsn, store.Pool{MaxOpen: 2, MaxIdle: 2})
	if err != nil {
		t.Fatal(err)
	}
	name := "tandian_test_" + strings.ToLower(rand.Text())
	if _, err := server.Write.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Write.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
		_ = server.Close()
	})
	cfg.DBName = name
	db, err := store.OpenMySQL(t.Context(), cfg.FormatDSN(), store.Pool{MaxOpen: 20, MaxIdle: 10})
	if err != nil {
		t.Fatal(err)
	}
	return migrated(t, db, schema.MySQL)
}

func migrated(t testing.TB, db *store.DB, d schema.Dialect) *store.DB {
	t.Helper()
	t.Cleanup(func() { _ = db.Close() })
	if _, err := schema.Up(t.Context(), d, db.Write.DB); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "%s on %s\n", t.Name(), db.Name)
	return db
}
