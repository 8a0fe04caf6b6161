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

// consumeNaively turns messages of the create queue into orders the way that comes to mind first: prefetch one, a
// transaction for each (the row, then the stock), then the acknowledgement. It looks at no signature, keeps no history
// and tells nobody, so that less work for an order is hardly possible. It ends when it has written rate.Orders or
// naiveTime is over, and sets rate to what it did.
func consumeNaively(ctx context.Context, url, dsn string, rate *DrainRate) (err error) {
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
	deliveries, err := ch.Consume(createQueue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	start, rows := time.Now(), 0
	for took := time.Duration(0); int64(rows) < rate.Orders && took < naiveTime; took = time.Since(start) {
		d, err := receive(ctx, deliveries)
		if err != nil {
			return fmt.Errorf("after %d orders: %w", rows, err)
		}
		n, err := db.writeNaively(ctx, d.Body)
		if err == nil {
			err = d.Ack(false)
		}
		if err != nil {
			return fmt.Errorf("after %d orders: %w", rows, err)
		}
		rows += n
	}
	rate.Orders, rate.Seconds = int64(rows), time.Since(start).Seconds()
	rate.RPS = quotient(float64(rows), rate.Seconds)
	return nil
}

func receive(ctx context.Context, deliveries <-chan amqp.Delivery) (amqp.Delivery, error) {
	select {
	case d, open := <-deliveries:
		if !open {
			return d, amqp.ErrClosed
		}
		return d, nil
	case <-ctx.Done():
		return amqp.Delivery{}, ctx.Err()
	case <-time.After(requestTimeout):
		return amqp.Delivery{}, errors.New("the queue has fewer messages than were accepted")
	}
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
