package bench

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"strconv"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite" // the driver of the embedded store
)

// statusNames are the integers of orders.status.
var statusNames = [...]string{1: "unpaid", 2: "paid", 3: "used", 4: "closed", 5: "refunding", 6: "refunded", 7: "failed"}

// database is what the servers write to, read beside them. Its few statements mean the same in both dialects.
type database struct{ *sql.DB }

func openSQLite(dir string, pragmas ...string) (*database, error) {
	q := url.Values{"_pragma": append(pragmas, "busy_timeout(5000)"), "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "tandian.db")+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &database{db}, nil
}

func openMySQL(dsn string) (*database, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, fmt.Errorf("TANDIAN_MYSQL_DSN: %w", err)
	}
	cfg.InterpolateParams = true // one round trip a statement
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, fmt.Errorf("TANDIAN_MYSQL_DSN: %w", err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return &database{db}, nil
}

// taken is how many units of a sale have rows, told by what they took from the stock: asking a server to count rows
// would cost CPU time that no order has caused. A row that failed took nothing.
func (d *database) taken(ctx context.Context, saleID string) (n int64, err error) {
	err = d.QueryRowContext(ctx, "SELECT stock_released - stock FROM sale WHERE id = ?", saleID).Scan(&n)
	return n, err
}

// written counts the rows of a sale, failed ones included.
func (d *database) written(ctx context.Context, saleID string) (n int64, err error) {
	err = d.QueryRowContext(ctx, "SELECT count(*) FROM orders WHERE sale_id = ?", saleID).Scan(&n)
	return n, err
}

// figures reads a sale's stock, what was ever released, and its live and failed orders into f.
func (d *database) figures(ctx context.Context, saleID string, f *SaleFacts) error {
	const q = `SELECT stock, stock_released,
		(SELECT count(*) FROM orders WHERE sale_id = s.id AND status IN (1, 2, 3, 5)),
		(SELECT count(*) FROM orders WHERE sale_id = s.id AND status = 7) FROM sale s WHERE id = ?`
	return d.QueryRowContext(ctx, q, saleID).Scan(&f.Stock, &f.Released, &f.Live, &f.Failed)
}

// readOrders adds every row of a sale to into, by id.
func (d *database) readOrders(ctx context.Context, saleID string, index int, into map[string]Order) error {
	rows, err := d.QueryContext(ctx, "SELECT id, user_id, status, COALESCE(reason, '') FROM orders WHERE sale_id = ?", saleID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		var status int
		o := Order{Sale: index}
		if err := rows.Scan(&id, &o.Owner, &status, &o.Reason); err != nil {
			return err
		}
		if o.Status = strconv.Itoa(status); status > 0 && status < len(statusNames) {
			o.Status = statusNames[status]
		}
		into[id] = o
	}
	return rows.Err()
}

// plant gives users orders behind the gate's back, copied from the order template, and releases the units they take.
// What the gate then admits for these users must end as failed, with the unit given back exactly once.
func (g *grab) plant(ctx context.Context, template, saleID string, users []int64) (ids []string, err error) {
	db := g.db
	if g.stores == nil { // that one only reads
		if db, err = openSQLite(g.servers[0].dir); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	exec := func(query string, args ...any) {
		if err == nil {
			_, err = tx.ExecContext(ctx, query, args...)
		}
	}
	exec("CREATE TEMPORARY TABLE planted AS SELECT * FROM orders WHERE id = ?", template)
	for _, user := range users {
		// Far above anything a server leases in a run, so that it collides with none.
		id := 1<<61 + rand.Int64N(1<<60)
		exec("UPDATE planted SET id = ?, user_id = ?, request_id = NULL", id, user)
		exec("INSERT INTO orders SELECT * FROM planted")
		ids = append(ids, strconv.FormatInt(id, 10))
	}
	exec("UPDATE sale SET stock_released = stock_released + ? WHERE id = ?", len(users), saleID)
	if err != nil {
		return nil, fmt.Errorf("plant orders: %w", err)
	}
	return ids, tx.Commit()
}
