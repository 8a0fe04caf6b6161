package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/mysqldialect"
)

// Pool bounds the connections of a server: MaxOpen for all, MaxIdle kept.
type Pool struct {
	MaxOpen, MaxIdle int
}

// OpenMySQL opens a MySQL 8 or MariaDB 10.6 database, or newer. dsn is user:password@tcp(host:port)/database; what
// the product rests on is set here whatever the server's defaults are: utf8mb4, UTC, and a mode that refuses what
// doesn't fit instead of bending it. Both sides of the DB are the same pool.
func OpenMySQL(ctx context.Context, dsn string, p Pool) (*DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("MySQL DSN: %w; want user:password@tcp(host:port)/database", err)
	}
	if cfg.DBName == "" {
		return nil, errors.New("MySQL DSN: no database named; want user:password@tcp(host:port)/database")
	}
	cfg.InterpolateParams = true // one round trip a statement
	cfg.Collation = "utf8mb4_bin"
	cfg.Loc = time.UTC
	if cfg.Params == nil {
		cfg.Params = map[string]string{}
	}
	cfg.Params["time_zone"] = "'+00:00'"
	cfg.Params["sql_mode"] = "'TRADITIONAL'"
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
	return &DB{Name: "MySQL " + version, Write: db, Read: db, dialect: dialect{isDuplicate: mysqlIs(1062),
		// duplicate, null, too long, out of range, wrong value, no default, foreign key, CHECK (MySQL, MariaDB)
		isRejected: mysqlIs(1062, 1048, 1406, 1264, 1366, 1364, 1452, 3819, 4025)}}, nil
}

func mysqlIs(numbers ...uint16) func(error) bool {
	return func(err error) bool {
		var e *mysql.MySQLError
		if !errors.As(err, &e) {
			return false
		}
		for _, n := range numbers {
			if e.Number == n {
				return true
			}
		}
		return false
	}
}
