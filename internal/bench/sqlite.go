package bench

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver of the embedded store
)

// statusNames are the integers of orders.status.
var statusNames = [...]string{1: "unpaid", 2: "paid", 3: "used", 4: "closed", 5: "refunding", 6: "refunded", 7: "failed"}

const liveStatuses = "(1, 2, 3, 5)"

// database reads the SQLite file of a server of ours, beside the server.
type database struct{ *sql.DB }

// openDatabase returns nil when the folder holds no database, as when the
// environment points the server at other stores.
func openDatabase(dir string) (*database, error) {
	file := filepath.Join(dir, "tandian.db")
	if _, err := os.Stat(file); err != nil {
		return nil, nil
	}
	q := url.Values{"_pragma": {"busy_timeout(5000)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+file+"?"+q.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return &database{db}, nil
}

// written counts the rows of a sale, failed ones included.
func (d *database) written(ctx context.Context, saleID string) (n int64, err error) {
	err = d.QueryRowContext(ctx, "SELECT count(*) FROM orders WHERE sale_id = ?", saleID).Scan(&n)
	return n, err
}

// stock reads a sale's stock and what was ever released.
func (d *database) stock(ctx context.Context, saleID string) (left, released int64, err error) {
	err = d.QueryRowContext(ctx, "SELECT stock, stock_released FROM sale WHERE id = ?", saleID).Scan(&left, &released)
	return left, released, err
}

// counts returns the live and the failed orders of a sale.
func (d *database) counts(ctx context.Context, saleID string) (live, failed int64, err error) {
	const q = "SELECT count(*) FILTER (WHERE status IN " + liveStatuses + "), count(*) FILTER (WHERE status = 7) FROM orders WHERE sale_id = ?"
	err = d.QueryRowContext(ctx, q, saleID).Scan(&live, &failed)
	return live, failed, err
}

// readOrders adds every row of a sale to into, by id.
func (d *database) readOrders(ctx context.Context, saleID string, index int, into map[string]Order) error {
	rows, err := d.QueryContext(ctx, "SELECT id, user_id, status, COALESCE(reason, '') FROM orders WHERE sale_id = ?", saleID)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id, user int64
		var status int
		o := Order{Sale: index}
		if err := rows.Scan(&id, &user, &status, &o.Reason); err != nil {
			return err
		}
		if o.Status = strconv.Itoa(status); status > 0 && status < len(statusNames) {
			o.Status = statusNames[status]
		}
		o.Owner = strconv.FormatInt(user, 10)
		into[strconv.FormatInt(id, 10)] = o
	}
	return rows.Err()
}

// plant gives a user an order behind the gate's back, copied from the order
// template, and releases the unit it takes. What the gate then admits for that
// user must end as failed, with the unit given back exactly once.
func (d *database) plant(ctx context.Context, template, saleID string, userID int64) (id string, err error) {
	columns, err := d.columns(ctx)
	if err != nil {
		return "", err
	}
	// Far above anything a server leases in a run, so that it collides with none.
	id = strconv.FormatInt(1<<61+rand.Int64N(1<<60), 10)
	replaced := map[string]string{"id": id, "user_id": strconv.FormatInt(userID, 10), "request_id": "NULL"}
	values := make([]string, len(columns))
	for i, c := range columns {
		values[i] = orDefault(replaced[c], c)
	}
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	insert := fmt.Sprintf("INSERT INTO orders (%s) SELECT %s FROM orders WHERE id = ?", strings.Join(columns, ", "), strings.Join(values, ", "))
	if _, err := tx.ExecContext(ctx, insert, template); err != nil {
		return "", fmt.Errorf("plant an order: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "UPDATE sale SET stock_released = stock_released + 1 WHERE id = ?", saleID); err != nil {
		return "", fmt.Errorf("plant an order: %w", err)
	}
	return id, tx.Commit()
}

func (d *database) columns(ctx context.Context) ([]string, error) {
	rows, err := d.QueryContext(ctx, "SELECT name FROM pragma_table_info('orders')")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
