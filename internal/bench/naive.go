package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// reservation is what a message of the create queue promises.
type reservation struct {
	OrderID    int64  `json:"orderId,string"`
	SaleID     int64  `json:"saleId,string"`
	VoucherID  int64  `json:"voucherId,string"`
	UserID     int64  `json:"userId,string"`
	Slot       int    `json:"slot"`
	Amount     int64  `json:"amount"`
	RequestID  string `json:"requestId"`
	AdmittedAt int64  `json:"admittedAt"`
	PayBefore  int64  `json:"payBefore"`
}

// consumeNaively turns n messages of the create queue into orders the way that comes to mind first: prefetch one, a
// transaction for each (the row, then the stock), then the acknowledgement. It looks at no signature, keeps no history
// and tells nobody, so that less work for an order is hardly possible.
func consumeNaively(ctx context.Context, url, dsn string, n int) (err error) {
	b, err := openBroker(url)
	if err != nil {
		return err
	}
	defer b.close()
	db, err := openMySQL(dsn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ch, err := b.conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Qos(1, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.ConsumeWithContext(ctx, createQueue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for done := 0; done < n; {
		var d amqp.Delivery
		var open bool
		select {
		case d, open = <-deliveries:
		case <-ctx.Done():
		}
		if !open {
			return fmt.Errorf("consumed %d of %d messages: %w", done, n, errors.Join(ctx.Err(), amqp.ErrClosed))
		}
		rows, err := db.writeNaively(ctx, d.Body)
		if err == nil {
			err = d.Ack(false)
		}
		if err != nil {
			return err
		}
		done += rows
	}
	return nil
}

// writeNaively writes the orders of one message, a transaction for each.
func (d *database) writeNaively(ctx context.Context, body []byte) (rows int, err error) {
	var message struct{ Reservations []reservation }
	if err := json.Unmarshal(body, &message); err != nil {
		return 0, err
	}
	for _, r := range message.Reservations {
		if err := d.insertNaively(ctx, r); err != nil {
			return rows, err
		}
		rows++
	}
	return rows, nil
}

func (d *database) insertNaively(ctx context.Context, r reservation) error {
	tx, err := d.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	now := time.Now().UnixMilli()
	const insert = `INSERT INTO orders (id, sale_id, voucher_id, user_id, slot, request_id, status, amount, admitted_at, pay_before, created_at, updated_at)
		VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?)`
	if _, err := tx.ExecContext(ctx, insert, r.OrderID, r.SaleID, r.VoucherID, r.UserID, r.Slot, r.RequestID, r.Amount, r.AdmittedAt, r.PayBefore, now, now); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "UPDATE sale SET stock = stock - 1 WHERE id = ? AND stock > 0", r.SaleID); err != nil {
		return err
	}
	return tx.Commit()
}
