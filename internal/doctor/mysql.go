package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"tandian/internal/kit/store"
)

// MySQL examines a MySQL or MariaDB database by the connection the product would use. pool is how many connections an
// instance opens at most.
func MySQL(dsn string, pool int, now func() time.Time) Examination {
	return func(ctx context.Context, r *Report) {
		target, err := store.ParseDSN(dsn)
		if err != nil {
			r.fail("database", "--mysql-dsn can't be read", "write user:password@tcp(host:port)/database")
			return
		}
		db, err := store.OpenMySQL(ctx, dsn, store.Pool{MaxOpen: 2, MaxIdle: 2})
		if err != nil {
			r.add(unreachable(err, target))
			return
		}
		defer db.Close()
		e := &mysqlExamination{Report: r, db: db, target: target, pool: pool, now: now}
		for _, step := range []func(context.Context) error{e.server, e.session, e.settings, e.privileges, e.tables} {
			if err := step(ctx); err != nil {
				r.add(unreachable(err, target))
				return
			}
		}
	}
}

type mysqlExamination struct {
	*Report
	db     *store.DB
	target *mysql.Config
	pool   int
	now    func() time.Time

	undefinable []string // privileges that only migrations need, and this user lacks
}

// unreachable explains why a database gave no answer.
func unreachable(err error, target *mysql.Config) Finding {
	f := Finding{Check: "database", Status: Failed}
	at := fmt.Sprintf("%s at %s", target.DBName, target.Addr)
	var refusal *mysql.MySQLError
	if !errors.As(err, &refusal) {
		f.Found, f.Passing = at+" gives no answer: "+cause(err), true
		f.Remedy = "start the server, or correct host and port in --mysql-dsn"
		return f
	}
	f.Found = fmt.Sprintf("%s refuses %s: %s", at, target.User, refusal.Message)
	switch refusal.Number {
	case 1045, 1698:
		f.Remedy = "correct user and password in --mysql-dsn"
	case 1044:
		f.Remedy = fmt.Sprintf("GRANT ALL ON `%s`.* TO the user", target.DBName)
	case 1049:
		f.Remedy = fmt.Sprintf("CREATE DATABASE `%s` CHARACTER SET utf8mb4, or name another in --mysql-dsn", target.DBName)
	case 1130:
		f.Remedy = "create the user for this machine's address, or for '%'"
	case 1040, 1203, 1226:
		f.Passing, f.Remedy = true, "raise max_connections, or max_user_connections of the user"
	case 1053, 1047, 1927:
		f.Passing, f.Remedy = true, "wait until the server is up"
	default:
		f.Remedy = fmt.Sprintf("look up error %d in the server's manual", refusal.Number)
	}
	return f
}

// cause is the innermost part of a network error, which is what tells something.
func cause(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, mysql.ErrInvalidConn):
		return "the connection broke, or said nothing for too long"
	case errors.As(err, &dns):
		return "no address for " + dns.Name
	case errors.As(err, &op) && op.Timeout():
		return "timeout"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

// server judges product and version.
func (e *mysqlExamination) server(ctx context.Context) error {
	var version string
	if err := e.db.Read.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return err
	}
	product, supported := mysqlVersion(version)
	found := fmt.Sprintf("%s at %s, database %s, user %s", product, e.target.Addr, e.target.DBName, e.target.User)
	if supported {
		e.ok("database", "%s", found)
	} else {
		e.fail("database", found+": too old", "upgrade to MySQL 8.0, MariaDB 10.6 or newer")
	}
	return nil
}

// mysqlVersion reads VERSION(), such as "8.0.36", "10.11.6-MariaDB-1" or, from behind a proxy, "5.5.5-10.11.6-MariaDB".
func mysqlVersion(version string) (product string, supported bool) {
	number, rest, _ := strings.Cut(version, "-")
	if !strings.Contains(strings.ToLower(version), "mariadb") {
		return "MySQL " + number, atLeast(number, 8, 0)
	}
	if number == "5.5.5" && rest != "" {
		number, _, _ = strings.Cut(rest, "-")
	}
	return "MariaDB " + number, atLeast(number, 10, 6)
}

// atLeast compares the first parts of a version; what isn't a number counts as nothing.
func atLeast(version string, want ...int) bool {
	parts := strings.Split(version, ".")
	for i, w := range want {
		if i >= len(parts) {
			return false
		}
		n, _ := strconv.Atoi(parts[i])
		if n != w {
			return n > w
		}
	}
	return true
}

// session looks at what a connection of ours really has: a proxy in between may drop what we ask for.
func (e *mysqlExamination) session(ctx context.Context) error {
	var mode, zone, charset string
	var autocommit bool
	asked := e.now()
	var theirs float64
	err := e.db.Read.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP(NOW(6)), @@session.sql_mode, @@session.time_zone, @@session.character_set_connection, @@session.autocommit").
		Scan(&theirs, &mode, &zone, &charset, &autocommit)
	if err != nil {
		return err
	}
	e.clock("database clock", "the database's clock", asked, e.now(), time.UnixMicro(int64(theirs*1e6)))
	const remedy = "connect without the proxy that drops session settings, or set it there"
	switch {
	case !strings.Contains(mode, "STRICT_"):
		e.fail("database session", "sql_mode is "+mode+": values that don't fit would be bent instead of refused", remedy)
	case charset != "utf8mb4":
		e.fail("database session", "character set "+charset+": texts would be damaged", remedy)
	case !autocommit:
		e.fail("database session", "autocommit is off: single statements would not be kept", "SET GLOBAL autocommit = 1")
	default:
		e.ok("database session", "strict, %s, time zone %s", charset, zone)
	}
	return nil
}

// settings judges the server's own settings.
func (e *mysqlExamination) settings(ctx context.Context) error {
	var flush, most, mostOfUser int
	err := e.db.Read.QueryRowContext(ctx, "SELECT @@global.innodb_flush_log_at_trx_commit, @@global.max_connections, @@session.max_user_connections").
		Scan(&flush, &most, &mostOfUser)
	if err != nil {
		return err
	}
	const durable = "SET GLOBAL innodb_flush_log_at_trx_commit = 1, and the same in the server's configuration"
	switch flush {
	case 0:
		e.warn("database durability", "innodb_flush_log_at_trx_commit is 0: up to a second of committed orders is lost when the server is killed", durable)
	case 2:
		e.warn("database durability", "innodb_flush_log_at_trx_commit is 2: up to a second of committed orders is lost when its machine goes down", durable)
	default:
		e.ok("database durability", "each commit is on disk")
	}
	if mostOfUser > 0 {
		most = min(most, mostOfUser)
	}
	if most < e.pool {
		e.warn("database connections", fmt.Sprintf("the server allows %d, an instance uses up to %d", most, e.pool),
			"raise max_connections (or max_user_connections) to "+strconv.Itoa(e.pool)+" for each instance and some for yourself")
	} else {
		e.ok("database connections", "%d allowed, up to %d used by an instance", most, e.pool)
	}
	return nil
}

// nowhere is a table that doesn't exist: a statement about it is refused for a missing privilege before it is refused
// for the missing table, whatever roles and patterns the privilege comes from, and never does anything.
const nowhere = "tandian_doctor_nowhere"

// trials are the privileges that serving and migrating need, by a statement that needs just that one; CREATE … LIKE
// needs SELECT as well.
var trials = []struct {
	privilege, statement string
	serving              bool // and not only migrations need it
}{
	{"SELECT", "SELECT 1 FROM " + nowhere, true},
	{"INSERT", "INSERT INTO " + nowhere + " VALUES (1)", true},
	{"UPDATE", "UPDATE " + nowhere + " SET a = 1", true},
	{"DELETE", "DELETE FROM " + nowhere, true},
	{"CREATE", "CREATE TABLE " + nowhere + " LIKE " + nowhere + "2", false},
	{"ALTER", "ALTER TABLE " + nowhere + " ADD a INT", false},
	{"INDEX", "CREATE INDEX i ON " + nowhere + " (a)", false},
	{"DROP", "DROP TABLE " + nowhere, false},
}

var (
	noSuchTable = []uint16{1146, 1051, 1109}
	denied      = []uint16{1142, 1044, 1370, 1227}
	readOnly    = []uint16{1290, 1836, 3100}
)

func (e *mysqlExamination) privileges(ctx context.Context) error {
	var missing []string
	serving := true
	for _, t := range trials {
		_, err := e.db.Write.DB.ExecContext(ctx, t.statement)
		var refusal *mysql.MySQLError
		switch {
		case !errors.As(err, &refusal):
			return fmt.Errorf("try %s: %w", t.privilege, err)
		case slices.Contains(noSuchTable, refusal.Number):
		case slices.Contains(denied, refusal.Number):
			missing = append(missing, t.privilege)
			serving = serving && !t.serving
		case slices.Contains(readOnly, refusal.Number):
			e.fail("database writes", "the server is read-only: "+refusal.Message, "name the primary in --mysql-dsn, or SET GLOBAL read_only = 0")
			return nil
		default:
			return fmt.Errorf("try %s: %w", t.privilege, err)
		}
	}
	switch {
	case missing == nil:
		e.ok("database privileges", "all that serving and migrating need")
	case serving:
		e.undefinable = missing
	default:
		found, remedy := e.lacks(missing)
		e.fail("database privileges", found, remedy)
	}
	var replica bool
	if err := e.db.Read.QueryRowContext(ctx, "SELECT @@global.read_only").Scan(&replica); err != nil {
		return err
	}
	if replica {
		e.warn("database writes", "read_only is on, and this user may write all the same: if it is a replica, what we write is lost or breaks it",
			"name the primary in --mysql-dsn, or take the user's right to ignore read_only")
	} else {
		e.ok("database writes", "taken")
	}
	return nil
}

func (e *mysqlExamination) lacks(privileges []string) (found, remedy string) {
	list := strings.Join(privileges, ", ")
	return e.target.User + " lacks " + list, fmt.Sprintf("GRANT %s ON `%s`.* TO the user", list, e.target.DBName)
}

// migrator judges a user who can serve but not migrate: somebody else may do that for him.
func (e *mysqlExamination) migrator(pending bool) {
	if e.undefinable == nil {
		return
	}
	found, remedy := e.lacks(e.undefinable)
	if pending {
		e.fail("database privileges", found+", which the migrations need", remedy+", or run migrate up as another user")
	} else {
		e.warn("database privileges", found+", which the next update needs", remedy+", or run migrate up as another user then")
	}
}
