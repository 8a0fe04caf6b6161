// Package schema owns the tables: migrations for both dialects side by side, compiled into the binary and run by
// goose. A migration that has been released is never edited.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

//go:embed sqlite/*.sql mysql/*.sql
var files embed.FS

// Dialect names a folder of migrations.
type Dialect string

const (
	SQLite Dialect = "sqlite"
	MySQL  Dialect = "mysql"
)

func provider(d Dialect, db *sql.DB) (*goose.Provider, error) {
	dir, err := fs.Sub(files, string(d))
	if err != nil {
		return nil, err
	}
	gooseDialect := goose.DialectSQLite3
	if d == MySQL {
		gooseDialect = goose.DialectMySQL
	}
	return goose.NewProvider(gooseDialect, db, dir)
}

// Up brings the database to the newest version and returns how many migrations it ran. Instances that start together
// wait for one another.
func Up(ctx context.Context, d Dialect, db *sql.DB) (ran int, err error) {
	if d == MySQL {
		unlock, err := lock(ctx, db)
		if err != nil {
			return 0, err
		}
		defer unlock()
	}
	p, err := provider(d, db)
	if err != nil {
		return 0, err
	}
	done, err := p.Up(ctx)
	if err != nil {
		return len(done), fmt.Errorf("migrate up: %w", err)
	}
	return len(done), nil
}

// lock takes a lock on the server by name, on a connection of its own: it ends with the connection at the latest.
func lock(ctx context.Context, db *sql.DB) (unlock func(), err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	var got sql.NullBool
	if err := conn.QueryRowContext(ctx, `SELECT GET_LOCK(CONCAT(DATABASE(), '.schema'), 60)`).Scan(&got); err != nil || !got.Bool {
		_ = conn.Close()
		return nil, fmt.Errorf("migrate: another instance has been migrating for a minute: %w", err)
	}
	return func() {
		_, _ = conn.ExecContext(context.WithoutCancel(ctx), `DO RELEASE_LOCK(CONCAT(DATABASE(), '.schema'))`)
		_ = conn.Close()
	}, nil
}

// Down takes the newest migration back and returns the version that is left.
func Down(ctx context.Context, d Dialect, db *sql.DB) (int64, error) {
	p, err := provider(d, db)
	if err != nil {
		return 0, err
	}
	if _, err := p.Down(ctx); err != nil {
		return 0, fmt.Errorf("migrate down: %w", err)
	}
	return p.GetDBVersion(ctx)
}

// Migration is one line of Status.
type Migration struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
	Applied bool   `json:"applied"`
}

// Status lists all migrations, oldest first.
func Status(ctx context.Context, d Dialect, db *sql.DB) ([]Migration, error) {
	p, err := provider(d, db)
	if err != nil {
		return nil, err
	}
	version, err := p.GetDBVersion(ctx) // goose's own status can't read MySQL's times on our connections
	if err != nil {
		return nil, fmt.Errorf("migrate status: %w", err)
	}
	all := p.ListSources()
	list := make([]Migration, len(all))
	for i, s := range all {
		list[i] = Migration{Version: s.Version, Name: s.Path, Applied: s.Version <= version}
	}
	return list, nil
}
