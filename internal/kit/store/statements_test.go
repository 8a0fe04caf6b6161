package store_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
)

var errCut = errors.New("the connection was cut")

// severed is a server that takes a query, and the connection ends before the first row comes.
type severed struct{}

func (severed) Connect(context.Context) (driver.Conn, error) { return severed{}, nil }
func (severed) Driver() driver.Driver                        { return nil }
func (severed) Prepare(string) (driver.Stmt, error)          { return nil, errCut }
func (severed) Close() error                                 { return nil }
func (severed) Begin() (driver.Tx, error)                    { return nil, errCut }
func (severed) QueryContext(context.Context, string, []driver.NamedValue) (driver.Rows, error) {
	return severed{}, nil
}
func (severed) Columns() []string         { return []string{"id"} }
func (severed) Next([]driver.Value) error { return errCut }

// through sends queries there.
type through struct {
	store.Querier
	db *sql.DB
}

func (q through) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return q.db.QueryContext(ctx, query, args...)
}

// A read that was cut off is told apart from one that found nothing: whoever took it for the other would tell a buyer
// that his order doesn't exist.
func TestACutReadIsNotAnEmptyOne(t *testing.T) {
	db := storetest.SQLite(t)
	server := sql.OpenDB(severed{})
	defer server.Close()
	var row struct{ ID int64 }
	err := db.Get(t.Context(), through{db.Read, server}, &row, `SELECT id FROM orders WHERE id = ?`, 1)
	if !errors.Is(err, errCut) || errors.Is(err, sql.ErrNoRows) {
		t.Errorf("cut off: %v", err)
	}
	if err := db.Get(t.Context(), db.Read, &row, `SELECT id FROM orders WHERE id = ?`, 1); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("nothing there: %v", err)
	}
}
