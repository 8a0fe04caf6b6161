package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"tandian/internal/kit/store"
)

// SQLite examines the database file of the embedded mode. One that a running server has is left to it; holder tells.
func SQLite(file string, holder func() (pid string, err error)) Examination {
	return func(ctx context.Context, r *Report) {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			r.ok("database", "%s will be made", file)
			return
		}
		if pid, _ := holder(); pid != "" { // an error is the folder's
			r.ok("database", "%s is in use, and not looked into", file)
			return
		}
		var damaged *store.DamagedError
		if errors.As(store.CheckSQLite(file), &damaged) { // anything else is the opening's
			r.fail("database", damaged.What, damaged.Remedy)
			return
		}
		if err := r.sqlite(ctx, file); err != nil {
			r.fail("database", file+": "+cause(err), "restore it from a backup, or name another folder with --data-dir")
		}
	}
}

func (r *Report) sqlite(ctx context.Context, file string) error {
	db, err := store.OpenSQLite(ctx, file)
	if err != nil {
		return err
	}
	defer db.Close()
	var verdict string
	if err := db.Read.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return errors.New(verdict)
	}
	r.ok("database", "%s, %s", db.Name, file)
	plan, versions, err := blueprint(ctx)
	if err != nil {
		return err
	}
	var versioned bool
	if err := db.Read.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE name = 'goose_db_version'").Scan(&versioned); err != nil {
		return err
	}
	if _, complete, err := r.migrations(ctx, db, versioned, versions); !complete {
		return err
	}
	h, err := survey(ctx, db.Read.DB, sqliteHouse)
	if err == nil {
		r.complete(plan, h, versions)
	}
	return err
}
