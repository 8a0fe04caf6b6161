package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandian/internal/kit/store"
)

// written are the files of a database as a killed process leaves them.
type written map[string][]byte // by what follows the name

// killed does steps, a number of rows, each in a transaction of its own, or a statement, and takes the files from under
// the open database.
func killed(t *testing.T, steps ...any) written {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.db")
	db, err := store.OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	exec := func(query string, args ...any) {
		t.Helper()
		if err := store.Exec(t.Context(), db.Write, query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE row (id INTEGER PRIMARY KEY, body BLOB)`)
	for _, step := range steps {
		if statement, ok := step.(string); ok {
			exec(statement)
			continue
		}
		for range step.(int) {
			exec(`INSERT INTO row (body) VALUES (?)`, make([]byte, 3000))
		}
	}
	return read(t, path)
}

func read(t *testing.T, path string) written {
	t.Helper()
	w := written{}
	for _, ext := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(path + ext)
		if err == nil {
			w[ext] = b
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return w
}

// but is a copy with one file changed; nil takes it away.
func (w written) but(ext string, change func([]byte) []byte) written {
	w = maps.Clone(w)
	if b := change(slices.Clone(w[ext])); b != nil {
		w[ext] = b
	} else {
		delete(w, ext)
	}
	return w
}

func cut(n int) func([]byte) []byte { return func(b []byte) []byte { return b[:len(b)-n] } }

func without([]byte) []byte { return nil }

// open checks the files and opens them; it returns how many rows there are.
func (w written) open(t *testing.T) (int, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.db")
	for ext, b := range w {
		if err := os.WriteFile(path+ext, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.CheckSQLite(path); err != nil {
		return 0, err
	}
	db, err := store.OpenSQLite(context.Background(), path)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	n := 0
	return n, db.Read.QueryRowContext(context.Background(), `SELECT COUNT(*) FROM row`).Scan(&n)
}

// F83: what a killed process leaves is opened with every committed row, and what has been cut off since is told.
func TestFilesThatWereCutOff(t *testing.T) {
	const rows = 40
	const some, all = "PRAGMA wal_checkpoint(PASSIVE)", "PRAGMA wal_checkpoint(RESTART)"
	whole, copied, again := killed(t, rows), killed(t, rows, some), killed(t, rows-1, all, 1)
	closed := func() written {
		path := filepath.Join(t.TempDir(), "a.db")
		for ext, b := range whole {
			if err := os.WriteFile(path+ext, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		db, err := store.OpenSQLite(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		return read(t, path)
	}()
	if len(closed) != 1 || len(whole) != 3 || len(again["-wal"]) < len(whole["-wal"])/2 {
		t.Fatal("the files are not as this test wants them")
	}
	for name, w := range map[string]written{
		"whole": whole, "copied": copied, "log begun anew": again, "closed": closed,
		"closing was cut short":           copied.but("-wal", without),
		"a frame that was never finished": whole.but("-wal", func(b []byte) []byte { return append(b, b[len(b)-4120:len(b)-7]...) }),
		"the end of an older log is cut":  again.but("-wal", cut(4096)),
		"pages that the log has, too":     copied.but("", cut(4096)),
		"a database of two bytes":         whole.but("", func(b []byte) []byte { return b[:2] }),
		"an index of another log":         again.but("-shm", func([]byte) []byte { return whole["-shm"] }),
		"an index that is half written":   whole.but("-shm", func(b []byte) []byte { b[16]++; return b }),
	} {
		if n, err := w.open(t); err != nil || n != rows {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
	}
	damaged := map[string]written{
		"log flipped":      whole.but("-wal", func(b []byte) []byte { b[len(b)-100] ^= 1; return b }),
		"log of no header": whole.but("-wal", func(b []byte) []byte { return b[:31] }),
		"log gone":         whole.but("-wal", without),
		"copied log cut":   copied.but("-wal", cut(4096)),
		"empty":            whole.but("", func([]byte) []byte { return []byte{} }),
		"all but empty":    whole.but("", func(b []byte) []byte { return b[:1] }),
		"gone":             whole.but("", without),
	}
	for _, n := range []int{1, 8, 24, 100, 4095, 4096} {
		damaged[fmt.Sprintf("log cut by %d", n)] = whole.but("-wal", cut(n))
		damaged[fmt.Sprintf("closed, cut by %d", n)] = closed.but("", cut(n))
		damaged[fmt.Sprintf("log begun anew, database cut by %d", n)] = again.but("", cut(n))
	}
	for name, w := range damaged {
		n, err := w.open(t)
		var d *store.DamagedError
		if !errors.As(err, &d) || !strings.Contains(err.Error(), "a.db") || !strings.Contains(err.Error(), "; restore ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
		// Going on without what is missing is offered where that leaves a database of an earlier moment.
		if offered := err != nil && strings.Contains(err.Error(), "remove "); offered == (name == "copied log cut" || strings.Contains(name, "database") || strings.Contains(name, "closed")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := whole.but("-wal", cut(1)).but("-shm", without).open(t); err != nil || n != rows-1 {
		t.Errorf("without its index: %d rows, %v", n, err)
	}
}
