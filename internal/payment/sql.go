package payment

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
)

// findPayment returns nil if there is no such row.
func findPayment(ctx context.Context, db *store.DB, q store.Querier, paymentID id.ID) (*Payment, error) {
	p := &Payment{}
	err := db.Get(ctx, q, p, `SELECT * FROM payment WHERE id = ?`, int64(paymentID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return p, err
}

// findOfOrder returns an order's attempts, oldest first.
func findOfOrder(ctx context.Context, db *store.DB, q store.Querier, orderID id.ID) (list []Payment, err error) {
	err = db.Select(ctx, q, &list, `SELECT * FROM payment WHERE order_id = ? ORDER BY id`, int64(orderID))
	return list, err
}

// findOpen returns those of an order's attempts that may still bring money.
func findOpen(ctx context.Context, db *store.DB, q store.Querier, orderID id.ID) (list []Payment, err error) {
	err = db.Select(ctx, q, &list, `SELECT * FROM payment WHERE order_id = ? AND status = 1 ORDER BY id`, int64(orderID))
	return list, err
}

// findWithOpen returns those of the orders that have an open attempt.
func findWithOpen(ctx context.Context, q store.Querier, orders []id.ID) (list []id.ID, err error) {
	// The plus keeps SQLite from the index of the status, in which it would read all open attempts there are.
	err = q.NewRaw(`SELECT DISTINCT order_id FROM payment WHERE order_id IN (?) AND +status = 1`, bun.List(orders)).Scan(ctx, &list)
	return list, err
}

// findForgotten returns open attempts of orders that don't wait for money any more, those first that were looked at the
// longest ago.
func findForgotten(ctx context.Context, db *store.DB, q store.Querier, before int64, limit int) (list []Payment, err error) {
	err = db.Select(ctx, q, &list, `SELECT p.* FROM payment AS p JOIN orders AS o ON o.id = p.order_id
		WHERE p.status = 1 AND p.updated_at <= ? AND o.status <> 1 ORDER BY p.updated_at LIMIT ?`, before, limit)
	return list, err
}

// markCaptured notes that the money of a payment is here; false = it is known already.
func markCaptured(ctx context.Context, tx bun.Tx, paymentID id.ID, t Trade, now int64) (bool, error) {
	n, err := store.Affected(ctx, tx, `UPDATE payment SET status = 2, trade_no = ?, paid_at = ?, amount = ?, ask_at = NULL, updated_at = ? WHERE id = ? AND status <> 2`,
		t.TradeNo, t.PaidAt, int64(t.Amount), now, int64(paymentID))
	return n == 1, err
}

// markEnded moves an open payment to closed or failed, to be asked about once more; false = it isn't open.
func markEnded(ctx context.Context, tx bun.Tx, paymentID id.ID, to Status, tradeNo string, now int64) (bool, error) {
	n, err := store.Affected(ctx, tx, `UPDATE payment SET status = ?, trade_no = ?, ask_at = ?, updated_at = ? WHERE id = ? AND status = 1`,
		int(to), tradeNo, now+askEndedAfter[0].Milliseconds(), now, int64(paymentID))
	return n == 1, err
}

// findEnded returns attempts that ended without money and are to be asked about.
func findEnded(ctx context.Context, db *store.DB, q store.Querier, now int64, limit int) (list []Payment, err error) {
	err = db.Select(ctx, q, &list, `SELECT * FROM payment WHERE ask_at <= ? ORDER BY ask_at LIMIT ?`, now, limit)
	return list, err
}

// askAgain sets when an ended attempt is asked about next; nil = never.
func askAgain(ctx context.Context, q store.Querier, p *Payment, at *int64) error {
	return store.Exec(ctx, q, `UPDATE payment SET ask_at = ? WHERE id = ? AND ask_at = ?`, at, int64(p.ID), *p.AskAt)
}

// touch puts an open payment at the end of the line of those to be looked at.
func touch(ctx context.Context, q store.Querier, paymentID id.ID, now int64) error {
	return store.Exec(ctx, q, `UPDATE payment SET updated_at = ? WHERE id = ? AND status = 1`, now, int64(paymentID))
}

// insertRefund asks for a payment's money back, in the transaction that decides so.
func insertRefund(ctx context.Context, tx bun.Tx, orderID, paymentID id.ID, amount money.Fen, reason string, now int64) error {
	return store.Exec(ctx, tx, `INSERT INTO refund (order_id, payment_id, amount, reason, status, attempts, next_at, created_at, updated_at) VALUES (?, ?, ?, ?, 1, 0, ?, ?, ?)`,
		int64(orderID), int64(paymentID), int64(amount), reason, now, now, now)
}

// findRefunds returns an order's refunds, oldest first.
func findRefunds(ctx context.Context, db *store.DB, q store.Querier, orderID id.ID) (list []Refund, err error) {
	err = db.Select(ctx, q, &list, `SELECT * FROM refund WHERE order_id = ? ORDER BY id`, int64(orderID))
	return list, err
}

// findDueRefunds returns refunds whose provider is to be asked (again).
func findDueRefunds(ctx context.Context, db *store.DB, q store.Querier, now int64, limit int) (list []Refund, err error) {
	err = db.Select(ctx, q, &list, `SELECT * FROM refund WHERE status = 1 AND next_at <= ? ORDER BY next_at, id LIMIT ?`, now, limit)
	return list, err
}

// claimRefund takes a refund for one attempt, until next; false = another instance was first.
func claimRefund(ctx context.Context, q store.Querier, r *Refund, next, now int64) (bool, error) {
	n, err := store.Affected(ctx, q, `UPDATE refund SET attempts = attempts + 1, next_at = ?, updated_at = ? WHERE id = ? AND status = 1 AND attempts = ?`,
		next, now, int64(r.ID), r.Attempts)
	return n == 1, err
}

// markRefund ends a refund; false = it has ended before.
func markRefund(ctx context.Context, tx bun.Tx, refundID id.ID, to RefundStatus, now int64) (bool, error) {
	n, err := store.Affected(ctx, tx, `UPDATE refund SET status = ?, updated_at = ? WHERE id = ? AND status = 1`, int(to), now, int64(refundID))
	return n == 1, err
}

// reviveRefused asks for an order's refused refunds once more; false = there are none.
func reviveRefused(ctx context.Context, tx bun.Tx, orderID id.ID, now int64) (bool, error) {
	n, err := store.Affected(ctx, tx, `UPDATE refund SET status = 1, attempts = 0, next_at = ?, updated_at = ? WHERE order_id = ? AND status = 3`, now, now, int64(orderID))
	return n > 0, err
}

// findKept returns the payment that paid an order: the captured one that isn't on its way back; nil if there is none.
func findKept(ctx context.Context, db *store.DB, q store.Querier, orderID id.ID) (*Payment, error) {
	p := &Payment{}
	err := db.Get(ctx, q, p, `SELECT p.* FROM payment AS p WHERE p.order_id = ? AND p.status = 2 AND NOT EXISTS (SELECT 1 FROM refund AS r WHERE r.payment_id = p.id)`, int64(orderID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return p, err
}

// findNotice returns nil if there is no such row.
func findNotice(ctx context.Context, db *store.DB, q store.Querier, provider, noticeID string) (*storedNotice, error) {
	n := &storedNotice{}
	err := db.Get(ctx, q, n, `SELECT * FROM payment_notice WHERE provider = ? AND notice_id = ?`, provider, noticeID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return n, err
}

// findWaitingNotices returns notices that are not applied, oldest first, after the given place.
func findWaitingNotices(ctx context.Context, db *store.DB, q store.Querier, afterAt int64, afterID string, limit int) (list []storedNotice, err error) {
	err = db.Select(ctx, q, &list, `SELECT * FROM payment_notice WHERE applied_at IS NULL AND (received_at > ? OR (received_at = ? AND notice_id > ?))
		ORDER BY received_at, notice_id LIMIT ?`, afterAt, afterAt, afterID, limit)
	return list, err
}

// markApplied notes what a notice led to, once.
func markApplied(ctx context.Context, q store.Querier, provider, noticeID string, orderID id.ID, out Outcome, now int64) error {
	return store.Exec(ctx, q, `UPDATE payment_notice SET applied_at = ?, outcome = ?, order_id = ? WHERE provider = ? AND notice_id = ? AND applied_at IS NULL`,
		now, string(out), int64(orderID), provider, noticeID)
}
