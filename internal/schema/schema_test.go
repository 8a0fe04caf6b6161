package schema

import (
	"crypto/rand"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"

	"tandian/internal/kit/store"
)

// embeddedOnly are tables whose production home is Redis.
var embeddedOnly = map[string]bool{"kv_entry": true}

// The two dialects must describe the same house: files, tables, columns with their kind, nullability, checks, and
// indexes.
func TestDialectsAgree(t *testing.T) {
	lite, my := names(t, SQLite), names(t, MySQL)
	if diff := cmp.Diff(lite, my); diff != "" {
		t.Fatalf("migration files differ (-sqlite +mysql):\n%s", diff)
	}
	for _, name := range lite {
		a, b := describe(read(t, SQLite, name)), describe(read(t, MySQL, name))
		for table := range embeddedOnly {
			delete(a, table)
		}
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s differs (-sqlite +mysql):\n%s", name, diff)
		}
		if len(a) == 0 {
			t.Errorf("%s: nothing was read, so nothing was compared", name)
		}
	}
}

// A difference must be seen: the comparison itself can fail.
func TestDescribeSeesDifferences(t *testing.T) {
	base := "CREATE TABLE t (\n  a INTEGER NOT NULL CHECK (a > 0)\n);\nCREATE UNIQUE INDEX i ON t (a);\nALTER TABLE t ADD COLUMN b BLOB NOT NULL DEFAULT '';\n"
	for _, other := range []string{
		strings.Replace(base, "a INTEGER NOT NULL", "a INTEGER", 1),
		strings.Replace(base, "a > 0", "a >= 0", 1),
		strings.Replace(base, "UNIQUE ", "", 1),
		strings.Replace(base, "INTEGER", "TEXT", 1),
		strings.Replace(base, "b BLOB", "c BLOB", 1),
	} {
		if cmp.Equal(describe(base), describe(other)) {
			t.Errorf("no difference seen in:\n%s", other)
		}
	}
}

func TestUpDownUp(t *testing.T) {
	open := func(db *store.DB, err error) *store.DB {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	t.Run("sqlite", func(t *testing.T) {
		upDownUp(t, SQLite, open(store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "t.db"))))
	})
	t.Run("mysql", func(t *testing.T) {
		dsn := os.Getenv("TANDIAN_MYSQL_DSN")
		if dsn == "" {
			t.Skip(`no TANDIAN_MYSQL_DSN; run: eval "$(scripts/services up)"`)
		}
		cfg, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		server := open(store.OpenMySQL(t.Context(), dsn, store.Pool{MaxOpen: 1, MaxIdle: 1}))
		cfg.DBName = "tandian_schema_" + strings.ToLower(rand.Text())
		if _, err := server.Write.Exec("CREATE DATABASE " + cfg.DBName); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if _, err := server.Write.Exec("DROP DATABASE " + cfg.DBName); err != nil {
				t.Error(err)
			}
		}()
		upDownUp(t, MySQL, open(store.OpenMySQL(t.Context(), cfg.FormatDSN(), store.Pool{MaxOpen: 4, MaxIdle: 2})))
	})
}

func upDownUp(t *testing.T, d Dialect, db *store.DB) {
	t.Helper()
	for range 2 {
		if _, err := Up(t.Context(), d, db.Write.DB); err != nil {
			t.Fatal(err)
		}
		list, err := Status(t.Context(), d, db.Write.DB)
		if err != nil || len(list) == 0 || !list[len(list)-1].Applied {
			t.Fatal(list, err)
		}
		for range list {
			if _, err := Down(t.Context(), d, db.Write.DB); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func names(t *testing.T, d Dialect) []string {
	t.Helper()
	list, err := fs.Glob(files, string(d)+"/*.sql")
	if err != nil || len(list) == 0 {
		t.Fatal("no migrations", err)
	}
	for i := range list {
		list[i] = filepath.Base(list[i])
	}
	return list
}

func read(t *testing.T, d Dialect, name string) string {
	t.Helper()
	b, err := files.ReadFile(string(d) + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	tableRE  = regexp.MustCompile(`(?ms)^(?:CREATE|ALTER) TABLE (\w+) \(\n(.*?)\n\)`)
	columnRE = regexp.MustCompile(`(?m)^ALTER TABLE (\w+) ADD COLUMN (.*?);`)
	indexRE  = regexp.MustCompile(`(?m)^CREATE (UNIQUE )?INDEX (\w+) ON (\w+) \((.*?)\)`)
	typeRE   = regexp.MustCompile(`\b(?:BIGINT|INTEGER|DOUBLE|REAL|LONGBLOB|BLOB|TEXT)\b|\bVARCHAR\(\d+\)`)
	kinds    = map[string]string{"BIGINT": "int", "INTEGER": "int", "DOUBLE": "float", "REAL": "float", "LONGBLOB": "bytes", "BLOB": "bytes", "TEXT": "text"}
	dialects = regexp.MustCompile(` (AUTOINCREMENT|AUTO_INCREMENT|CHARACTER SET \w+|COLLATE \w+)`)
)

// describe reads our own style of DDL: a column or a constraint a line, or a column a statement.
func describe(sql string) map[string][]string {
	tables := map[string][]string{}
	for _, m := range append(tableRE.FindAllStringSubmatch(sql, -1), columnRE.FindAllStringSubmatch(sql, -1)...) {
		for _, line := range strings.Split(m[2], "\n") {
			line, _, _ = strings.Cut(line, " --")
			line = typeRE.ReplaceAllStringFunc(strings.TrimSuffix(strings.TrimSpace(line), ","), func(s string) string {
				if k, ok := kinds[s]; ok {
					return k
				}
				return "text"
			})
			line = strings.Join(strings.Fields(dialects.ReplaceAllString(line, "")), " ")
			line = strings.TrimSuffix(line, ",")
			if strings.Contains(line, "PRIMARY KEY") { // a primary key is not null in either dialect
				line = strings.Replace(line, "NOT NULL ", "", 1)
			}
			tables[m[1]] = append(tables[m[1]], line)
		}
	}
	for _, m := range indexRE.FindAllStringSubmatch(sql, -1) {
		tables[m[3]] = append(tables[m[3]], fmt.Sprintf("%sindex %s (%s)", strings.ToLower(m[1]), m[2], m[4]))
	}
	return tables
}
