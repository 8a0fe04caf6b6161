package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
)

// Pool bounds the connections of a server: MaxOpen for all, MaxIdle kept.
type Pool struct {
	MaxOpen, MaxIdle int
}

// ParseDSN reads user:password@tcp(host:port)/database, or unix(path) for tcp(…). Its errors quote nothing: any part of
// what can't be read may be the password.
func ParseDSN(dsn string) (*mysql.Config, error) {
	cfg, err := mysql.ParseDSN(dsn)
	switch {
	case err != nil || cfg.Net != "tcp" && cfg.Net != "unix":
		return nil, errors.New("MySQL DSN: not of the form user:password@tcp(host:port)/database")
	case cfg.DBName == "":
		return nil, errors.New("MySQL DSN: no database named; want user:password@tcp(host:port)/database")
	}
	return cfg, nil
}

// OpenMySQL opens a MySQL 8 or MariaDB 10.6 database, or newer. dsn is user:password@tcp(host:port)/database; what
// the product rests on is set here whatever the server's defaults are: utf8mb4, UTC, and a mode that refuses what
// doesn't fit instead of bending it. Both sides of the DB are the same pool.
func OpenMySQL(ctx context.Context, dsn string, p Pool) (*DB, error) {
	cfg, err := ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams = true // one round trip a statement
	cfg.Collation = "utf8mb4_bin"
	cfg.Loc = time.UTC
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["time_zone"] = "'+00:00'"
	cfg.Params["sql_mode"] = "'TRADITIONAL'"
	// The server gives up waiting for a row's lock, and says so, before we give up on the server: a connection that we
	// drop would go on waiting there, with its own locks held.
	if _, ok := cfg.Params["innodb_lock_wait_timeout"]; !ok {
		cfg.Params["innodb_lock_wait_timeout"] = "4"
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = time.Second
	}
	// A server that has gone silent must not hold a writer for ever; no statement of ours takes this long.
	if cfg.ReadTimeout == 0 {
		cfg.ReadTimeout = 10 * time.Second
	}
	if cfg.WriteTimeout == 0 {
		cfg.WriteTimeout = 10 * time.Second
	}
	cfg.Logger = &mysql.NopLogger{} // what it would write to stderr comes back as an error too
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("MySQL DSN: %w", err)
	}
	pool := sql.OpenDB(connector)
	pool.SetMaxOpenConns(p.MaxOpen)
	pool.SetMaxIdleConns(p.MaxIdle)
	pool.SetConnMaxIdleTime(5 * time.Minute)
	var version string
	if err := pool.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return nil, errors.Join(fmt.Errorf("MySQL at %s: %w", cfg.Addr, err), pool.Close())
	}
	db := bun.NewDB(pool, mysqldialect.New())
	return &DB{Name: "MySQL " + version, Write: db, Read: db,
		RowsPerInsert: 500, // one round trip for a usual batch, and within the smallest max_allowed_packet that is a default anywhere: 1 MiB
		dialect:       dialect{isDuplicate: mysqlDuplicate, isRejected: mysqlRejected, isAway: mysqlAway, trial: `UPDATE id_lease SET next = next WHERE name = ''`}}, nil
}

func mysqlDuplicate(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == 1062
}

// mysqlRejected goes by the class of the SQL state: 22 data that doesn't fit, 23 a constraint, 45 refused by a trigger;
// and by number where the servers give no class. What is left is about the server, not the row: a deadlock (1213), a
// lock wait (1205), read-only (1290), too many connections (1040), a killed query (1317) or connection, a full disk.
func mysqlRejected(err error) bool {
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return false
	}
	switch string(e.SQLState[:2]) {
	case "22", "23", "45":
		return true
	}
	// no default, wrong value, CHECK of MySQL, data truncated
	return slices.Contains([]uint16{1364, 1366, 3819, 1265}, e.Number)
}

// mysqlAway goes by number: disk (3, 1021, 1030, 1114), memory (1037, 1038, 1041), connections (1040, 1203), the server's end
// or a killed session (1053, 1317, 1927), locks (1205, 1213), read-only (1290, 1792, 1836).
func mysqlAway(err error) bool {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return slices.Contains([]uint16{3, 1021, 1030, 1037, 1038, 1040, 1041, 1053, 1114, 1203, 1205, 1213, 1290, 1317, 1792, 1836, 1927}, e.Number)
	}
	return errors.Is(err, mysql.ErrInvalidConn) || errors.As(err, new(net.Error))
}
