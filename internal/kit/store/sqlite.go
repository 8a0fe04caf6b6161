package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// OpenSQLite opens (and creates) the database file in WAL mode. Writes go through one connection with
// synchronous=FULL: a commit that returned survives a crash of the process and of the machine. Each new connection
// is refused unless the server confirms these settings.
func OpenSQLite(ctx context.Context, path string) (*DB, error) {
	open := func(pragmas []string, want map[string]string, conns int) *bun.DB {
		q := url.Values{"_pragma": pragmas, "_txlock": {"immediate"}}
		db := sql.OpenDB(&connector{dsn: "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + q.Encode(), want: want})
		db.SetMaxOpenConns(conns)
		db.SetMaxIdleConns(conns)
		return bun.NewDB(db, sqlitedialect.New())
	}
	common := []string{"busy_timeout(5000)", "journal_mode(WAL)", "foreign_keys(1)", "synchronous(FULL)"}
	d := &DB{
		Write: open(common, map[string]string{"synchronous": "2", "journal_mode": "wal", "foreign_keys": "1"}, 1),
		Read:  open(append(common, "query_only(1)"), map[string]string{"query_only": "1"}, 8),
		// A row costs little more alone; this few make few texts, which stay parsed (see cachingConn).
		RowsPerInsert: 4,
		dialect: dialect{isDuplicate: sqliteDuplicate, isRejected: sqliteRejected, isAway: sqliteAway,
			trial: `PRAGMA user_version = 0`, // nobody reads it; unlike rows that stay as they are, it is written all the same
		},
	}
	var version string
	if err := d.Write.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	d.Name = "SQLite " + version
	return d, nil
}

// connector opens SQLite connections and asserts their pragmas: a misspelt pragma is silently ignored by SQLite, and
// durability is not a thing to lose silently.
type connector struct {
	dsn  string
	want map[string]string
}

func (c *connector) Driver() driver.Driver { return &sqlite.Driver{} }

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	opened, err := c.Driver().Open(c.dsn)
	if err != nil {
		return nil, err
	}
	conn := &cachingConn{opened.(sqliteConn), map[string]driver.Stmt{}}
	for pragma, want := range c.want {
		got, err := pragmaValue(ctx, conn, pragma)
		if err == nil && got != want {
			err = fmt.Errorf("PRAGMA %s is %s, want %s", pragma, got, want)
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

func pragmaValue(ctx context.Context, conn driver.QueryerContext, pragma string) (string, error) {
	rows, err := conn.QueryContext(ctx, "PRAGMA "+pragma, nil)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	value := make([]driver.Value, 1)
	if err := rows.Next(value); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("no answer to PRAGMA " + pragma)
		}
		return "", err
	}
	return fmt.Sprint(value[0]), nil
}

func sqliteDuplicate(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || e.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY)
}

func sqliteRejected(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == sqlite3.SQLITE_CONSTRAINT || e.Code()&0xff == sqlite3.SQLITE_MISMATCH)
}

func sqliteAway(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && slices.Contains([]int{sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL}, e.Code()&0xff)
}
