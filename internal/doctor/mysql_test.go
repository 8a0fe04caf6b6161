package doctor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"tandian/internal/kit/store"
	"tandian/internal/schema"
)

const pool = 32

// sqlTarget is the private server as one of its users sees it.
func sqlTarget(t *testing.T, change func(*mysql.Config)) string {
	t.Helper()
	cfg, err := mysql.ParseDSN(own.dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(cfg)
	return cfg.FormatDSN()
}

// migrated opens a database and makes its tables.
func migrated(t *testing.T, dsn string) *store.DB {
	t.Helper()
	db, err := store.OpenMySQL(t.Context(), dsn, store.Pool{MaxOpen: 2, MaxIdle: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := schema.Up(t.Context(), schema.MySQL, db.Write.DB); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestMySQLRefusals(t *testing.T) {
	db := operator(t)
	sqlDo(t, db, "CREATE DATABASE refusals", "CREATE DATABASE migrated", "CREATE USER clerk@'127.0.0.1' IDENTIFIED BY 'pa55word-8'",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON refusals.* TO clerk@'127.0.0.1'", "GRANT SELECT, INSERT, UPDATE, DELETE ON migrated.* TO clerk@'127.0.0.1'",
		"CREATE USER reader@'127.0.0.1' IDENTIFIED BY 'pa55word-1'", "GRANT SELECT, INSERT ON refusals.* TO reader@'127.0.0.1'",
		"CREATE ROLE selling", "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON `ref%`.* TO selling",
		"CREATE USER seller@'127.0.0.1' IDENTIFIED BY 'pa55word-2'", "GRANT selling TO seller@'127.0.0.1'", "SET DEFAULT ROLE selling FOR seller@'127.0.0.1'")
	migrated(t, sqlTarget(t, func(c *mysql.Config) { c.DBName = "migrated" }))
	as := func(user, password, database string) string {
		return sqlTarget(t, func(c *mysql.Config) { c.User, c.Passwd, c.DBName = user, password, database })
	}
	for _, tt := range []struct {
		name, dsn string
		want      []want
	}{
		{"by a role, on a pattern", as("seller", "pa55word-2", "refusals"), nil},
		{"wrong password", as("reader", "pa55word-wrong", "refusals"), []want{{"database", Failed, "Access denied", "correct user and password", false}}},
		{"a database that isn't there", sqlTarget(t, func(c *mysql.Config) { c.DBName = "none" }), []want{{"database", Failed, "Unknown database", "CREATE DATABASE `none`", false}}},
		{"a database of others", as("reader", "pa55word-1", "mysql"), []want{{"database", Failed, "Access denied", "GRANT ALL ON `mysql`.*", false}}},
		{"one who can serve, and tables to make", as("clerk", "pa55word-8", "refusals"), []want{
			{"database privileges", Failed, "clerk lacks CREATE, ALTER, INDEX, DROP, which the migrations need", "or run migrate up as another user", false}}},
		{"one who can serve, and tables that are there", as("clerk", "pa55word-8", "migrated"), []want{
			{"database privileges", Warning, "clerk lacks CREATE, ALTER, INDEX, DROP, which the next update needs", "or run migrate up as another user then", false}}},
		{"missing privileges", as("reader", "pa55word-1", "refusals"), []want{
			{"database privileges", Failed, "reader lacks UPDATE, DELETE, CREATE, ALTER, INDEX, DROP", "GRANT UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON `refusals`.*", false}}},
		{"nobody listens", sqlTarget(t, func(c *mysql.Config) { c.Addr = closedPort }), []want{{"database", Failed, "connection refused", "start the server", true}}},
		{"no such host", sqlTarget(t, func(c *mysql.Config) { c.Addr = "none.invalid:3306" }), []want{{"database", Failed, "none.invalid", "start the server", true}}},
		{"not a DSN", "tandian:pa55word/x", []want{{"database", Failed, "can't be read", "user:password@tcp(host:port)/database", false}}},
		{"a password in the wrong place", "tandian@pa55word(127.0.0.1:1)/x", []want{{"database", Failed, "can't be read", "user:password@tcp(host:port)/database", false}}},
		{"no database named", "tandian:pa55word@tcp(127.0.0.1:1)/", []want{{"database", Failed, "can't be read", "user:password@tcp(host:port)/database", false}}},
	} {
		t.Run(tt.name, func(t *testing.T) { expect(t, MySQL(tt.dsn, pool, now), tt.want...) })
	}
}

// The services' own defaults are the unlucky ones: latin1 and a zone five hours away. They must not matter.
func TestMySQLSettings(t *testing.T) {
	db := operator(t)
	sqlDo(t, db, "CREATE DATABASE settings", "CREATE USER plain@'127.0.0.1' IDENTIFIED BY 'pa55word-3'", "GRANT ALL ON settings.* TO plain@'127.0.0.1'")
	root := sqlTarget(t, func(c *mysql.Config) { c.DBName = "settings" })
	plain := sqlTarget(t, func(c *mysql.Config) { c.User, c.Passwd, c.DBName = "plain", "pa55word-3", "settings" })
	for _, tt := range []struct {
		name, wrong, right string
		dsn                string
		now                func() time.Time
		want               []want
	}{
		{"as it should be", "DO 0", "DO 0", plain, now, nil},
		{"commits not flushed", "SET GLOBAL innodb_flush_log_at_trx_commit = 0", "SET GLOBAL innodb_flush_log_at_trx_commit = 1", plain, now,
			[]want{{"database durability", Warning, "when the server is killed", "innodb_flush_log_at_trx_commit = 1", false}}},
		{"commits flushed by the system", "SET GLOBAL innodb_flush_log_at_trx_commit = 2", "SET GLOBAL innodb_flush_log_at_trx_commit = 1", plain, now,
			[]want{{"database durability", Warning, "when its machine goes down", "innodb_flush_log_at_trx_commit = 1", false}}},
		{"few connections", "SET GLOBAL max_connections = 20", "SET GLOBAL max_connections = 200", plain, now,
			[]want{{"database connections", Warning, "allows 20, an instance uses up to 32", "raise max_connections", false}}},
		{"read-only", "SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", plain, now,
			[]want{{"database writes", Failed, "read-only", "name the primary", false}}},
		{"read-only, but not for us", "SET GLOBAL read_only = 1", "SET GLOBAL read_only = 0", root, now,
			[]want{{"database writes", Warning, "may write all the same", "name the primary", false}}},
		{"lax connections by default", "SET GLOBAL sql_mode = ''", "SET GLOBAL sql_mode = DEFAULT", plain, now, nil},
		{"no autocommit", "SET GLOBAL autocommit = 0", "SET GLOBAL autocommit = 1", plain, now,
			[]want{{"database session", Failed, "autocommit is off", "autocommit = 1", false}}},
		{"clocks apart", "DO 0", "DO 0", plain, ahead(-3 * time.Second), []want{{"database clock", Warning, "more than the second", "NTP", false}}},
		{"clocks far apart", "DO 0", "DO 0", plain, ahead(10 * time.Second), []want{{"database clock", Failed, "different moments", "NTP", false}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sqlDo(t, db, tt.wrong)
			defer sqlDo(t, db, tt.right)
			expect(t, MySQL(tt.dsn, pool, tt.now), tt.want...)
		})
	}
}

// Tables as somebody else may have left them.
func TestMySQLTables(t *testing.T) {
	db := operator(t)
	for i, tt := range []struct {
		name, wrong string
		want        []want
	}{
		{"as they are made", "", nil},
		{"beside tables of others", "CREATE TABLE theirs (name VARCHAR(20) CHARACTER SET latin1) ENGINE = MyISAM", nil},
		{"texts that don't fit", "ALTER TABLE shop CONVERT TO CHARACTER SET latin1",
			[]want{{"database storage", Failed, "shop.address (latin1), shop.area (latin1), shop.name (latin1) and ", "CONVERT TO CHARACTER SET utf8mb4", false}}},
		{"without transactions", "ALTER TABLE outbox ENGINE = MyISAM", []want{{"database storage", Failed, "outbox (MyISAM)", "ENGINE = InnoDB", false}}},
		{"both at once", "ALTER TABLE shop CONVERT TO CHARACTER SET latin1, ENGINE = MyISAM", []want{{"database storage", Failed, "shop (MyISAM)", "ENGINE = InnoDB", false},
			{"database storage", Failed, "shop.address (latin1)", "CONVERT TO CHARACTER SET utf8mb4", false}}},
		{"the limit per user is gone", "DROP INDEX orders_slot ON orders", []want{{"database tables", Failed, "missing: orders unique index orders_slot", "backup", false}}},
		{"it only looks like the limit", "ALTER TABLE orders DROP INDEX orders_slot, ADD INDEX orders_slot (sale_id, user_id, slot)",
			[]want{{"database tables", Failed, "missing: orders unique index orders_slot", "backup", false}}},
		{"a column is gone", "ALTER TABLE sale DROP COLUMN epoch", []want{{"database tables", Failed, "missing: sale epoch", "backup", false}}},
		{"a table is gone", "DROP TABLE gate_release", []want{{"database tables", Failed, "missing: table gate_release", "backup", false}}},
		{"newer than the program", "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)", []want{{"database tables", Warning, "version 9999, newer", "run the newer program", false}}},
		{"a migration to run", "DELETE FROM goose_db_version WHERE version_id = (SELECT * FROM (SELECT MAX(version_id) FROM goose_db_version) AS newest)", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := fmt.Sprintf("tables_%d", i)
			sqlDo(t, db, "CREATE DATABASE "+name)
			dsn := sqlTarget(t, func(c *mysql.Config) { c.DBName = name })
			house := migrated(t, dsn)
			if tt.wrong != "" {
				sqlDo(t, house, tt.wrong)
			}
			expect(t, MySQL(dsn, pool, now), tt.want...)
		})
	}
}

func TestMySQLVersions(t *testing.T) {
	for version, want := range map[string]string{
		"8.0.36": "MySQL 8.0.36", "8.4.0-commercial": "MySQL 8.4.0", "9.1.0": "MySQL 9.1.0", "10.6.0-MariaDB": "MariaDB 10.6.0",
		"10.11.19-MariaDB-0+deb12u1": "MariaDB 10.11.19", "11.4.2-MariaDB-ubu2404": "MariaDB 11.4.2", "5.5.5-10.11.6-MariaDB-log": "MariaDB 10.11.6",
		"5.7.44-log": "MySQL 5.7.44, too old", "5.6.51": "MySQL 5.6.51, too old", "10.5.23-MariaDB": "MariaDB 10.5.23, too old",
		"5.5.5-10.3.1-MariaDB": "MariaDB 10.3.1, too old", "5.5.68-MariaDB": "MariaDB 5.5.68, too old", "nonsense": "MySQL nonsense, too old",
	} {
		got, supported := mysqlVersion(version)
		if !supported {
			got += ", too old"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

func TestMissing(t *testing.T) {
	plan := house{}
	plan.add("orders", "id")
	plan.add("orders", "unique index orders_slot")
	plan.add("sale", "id")
	have := house{}
	have.add("orders", "id")
	have.add("orders", "extra")
	if got := strings.Join(missing(plan, have), ", "); got != "orders unique index orders_slot, table sale" {
		t.Error(got)
	}
}
