package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/uptrace/bun"
)

// cachingConn keeps the statements of one SQLite connection: parsing costs SQLite several times what reading or
// writing a row does. Queries with arguments go through the cache; those without, which is what bun sends, have
// their values in their text and are parsed each time.
type cachingConn struct {
	sqliteConn
	idle map[string]driver.Stmt // by text; a statement in use is taken out
}

// sqliteConn is what the driver's connection offers.
type sqliteConn interface {
	driver.Conn
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// mostIdle bounds the cache; our queries with arguments are constants and far fewer.
const mostIdle = 128

func (c *cachingConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if stmt := c.idle[query]; stmt != nil {
		delete(c.idle, query)
		return &cachedStmt{stmt.(sqliteStmt), c, query}, nil
	}
	stmt, err := c.sqliteConn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &cachedStmt{stmt.(sqliteStmt), c, query}, nil
}

// ExecContext sends queries with arguments to PrepareContext.
func (c *cachingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if len(args) > 0 {
		return nil, driver.ErrSkip
	}
	return c.sqliteConn.ExecContext(ctx, query, args)
}

// QueryContext sends queries with arguments to PrepareContext.
func (c *cachingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) > 0 {
		return nil, driver.ErrSkip
	}
	return c.sqliteConn.QueryContext(ctx, query, args)
}

func (c *cachingConn) Close() error {
	var err error
	for _, stmt := range c.idle {
		err = errors.Join(err, stmt.Close())
	}
	return errors.Join(err, c.sqliteConn.Close())
}

type sqliteStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// cachedStmt goes back into the cache when it is closed.
type cachedStmt struct {
	sqliteStmt
	conn  *cachingConn
	query string
}

// ExecContext runs a statement to its end once it has begun: it takes microseconds, and watching the context would
// cost the driver a goroutine each time. The same holds for QueryContext.
func (s *cachedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.sqliteStmt.ExecContext(context.WithoutCancel(ctx), args)
}

func (s *cachedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.sqliteStmt.QueryContext(context.WithoutCancel(ctx), args)
}

func (s *cachedStmt) Close() error {
	if s.conn.idle[s.query] != nil || len(s.conn.idle) >= mostIdle {
		return s.sqliteStmt.Close()
	}
	s.conn.idle[s.query] = s.sqliteStmt
	return nil
}

// bound is what runs a query with its arguments apart from its text. bun writes them into the text; hot paths don't
// want that, see cachingConn.
type bound interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func boundOf(q Querier) bound {
	switch q := q.(type) {
	case *bun.DB:
		return q.DB
	case bun.Tx:
		return q.Tx
	}
	return q
}

// Exec runs a statement with bound arguments.
func Exec(ctx context.Context, q Querier, query string, args ...any) error {
	_, err := boundOf(q).ExecContext(ctx, query, args...)
	return err
}

// Affected runs a statement with bound arguments and returns how many rows it changed: the answer of a conditional
// update.
func Affected(ctx context.Context, q Querier, query string, args ...any) (int64, error) {
	res, err := boundOf(q).ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// Select runs a query with bound arguments and scans its rows into dest, a pointer to a slice. It is for hot paths;
// elsewhere bun's builder reads better.
func (d *DB) Select(ctx context.Context, q Querier, dest any, query string, args ...any) error {
	rows, err := boundOf(q).QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	return d.Read.ScanRows(ctx, rows, dest) // closes rows
}

// Get is Select for one row: dest is a pointer to a struct, and no row is sql.ErrNoRows.
func (d *DB) Get(ctx context.Context, q Querier, dest any, query string, args ...any) error {
	rows, err := boundOf(q).QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil { // cut off, which isn't the same as nothing
			return err
		}
		return sql.ErrNoRows
	}
	return d.Read.ScanRow(ctx, rows, dest)
}
