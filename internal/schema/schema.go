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

// Up brings the database to the newest version and returns how many migrations it ran.
func Up(ctx context.Context, d Dialect, db *sql.DB) (int, error) {
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
	all, err := p.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("migrate status: %w", err)
	}
	list := make([]Migration, len(all))
	for i, s := range all {
		list[i] = Migration{Version: s.Source.Version, Name: s.Source.Path, Applied: s.State == goose.StateApplied}
	}
	return list, nil
}
