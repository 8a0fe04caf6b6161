package sandbox

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
	"tandian/internal/payment"
)

// status is how a trade stands in the books.
type status int

const (
	open   status = 1
	paid   status = 2
	closed status = 3
	failed status = 4
)

var stateNames = map[status]string{open: "open", paid: "paid", closed: "closed", failed: "failed"}

// How refunds of a trade go, as the buyer chose at the cashier.
const (
	refundsAtOnce  = ""
	refundsSlow    = "slow"
	refundsUnknown = "unknown" // done, and the answers are lost
	refundsRefused = "refused"
)

// trade is a row of sandbox_trade. Times are Unix milliseconds.
type trade struct {
	bun.BaseModel `bun:"table:sandbox_trade"`

	TradeNo   string `bun:",pk"`
	PaymentID id.ID
	Amount    money.Fen
	Status    status
	PaidAt    *int64 // in the future: the money is on its way, and nothing stops it
	ExpiresAt int64
	Calls     int64
	CallAt    *int64
	About     string
	ReturnTo  string
	Refunds   string
	CreatedAt int64
	UpdatedAt int64
}

// stands is the status at an instant.
func (t *trade) stands(now int64) status {
	if t.PaidAt != nil && *t.PaidAt <= now {
		return paid
	}
	return t.Status
}

// told is what is answered about the trade.
func (t *trade) told(now int64) payment.Trade {
	switch t.stands(now) {
	case paid:
		return payment.Trade{State: payment.TradePaid, TradeNo: t.TradeNo, Amount: t.Amount, PaidAt: *t.PaidAt}
	case closed:
		return payment.Trade{State: payment.TradeClosed, TradeNo: t.TradeNo}
	case failed:
		return payment.Trade{State: payment.TradeFailed, TradeNo: t.TradeNo}
	}
	return payment.Trade{State: payment.TradeOpen, TradeNo: t.TradeNo}
}

// insertTrade opens a trade unless the payment has one.
func insertTrade(ctx context.Context, db *store.DB, t *trade) error {
	if _, err := db.Write.NewInsert().Model(t).Exec(ctx); !db.IsDuplicate(err) {
		return err
	}
	return nil
}

// findTrade returns nil if the payment has no trade.
func findTrade(ctx context.Context, db *store.DB, paymentID id.ID) (*trade, error) {
	t := &trade{}
	err := db.Get(ctx, db.Read, t, `SELECT * FROM sandbox_trade WHERE payment_id = ?`, int64(paymentID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return t, err
}

func findTradeByNo(ctx context.Context, db *store.DB, tradeNo string) (*trade, error) {
	t := &trade{}
	return t, db.Get(ctx, db.Read, t, `SELECT * FROM sandbox_trade WHERE trade_no = ?`, tradeNo)
}

// payTrade takes the money of an open trade at an instant, and calls back at another unless that is nil; false = it
// isn't open, or the money is on its way already.
func payTrade(ctx context.Context, db *store.DB, paymentID id.ID, to status, paidAt int64, callAt *int64, refunds string, now int64) (bool, error) {
	n, err := store.Affected(ctx, db.Write, `UPDATE sandbox_trade SET status = ?, paid_at = ?, call_at = ?, refunds = ?, updated_at = ? WHERE payment_id = ? AND status = 1 AND paid_at IS NULL`,
		int(to), paidAt, callAt, refunds, now, int64(paymentID))
	return n == 1, err
}

// failTrade ends an open trade without money, and calls back at once.
func failTrade(ctx context.Context, db *store.DB, paymentID id.ID, now int64) (bool, error) {
	n, err := store.Affected(ctx, db.Write, `UPDATE sandbox_trade SET status = 4, call_at = ?, updated_at = ? WHERE payment_id = ? AND status = 1 AND paid_at IS NULL`, now, now, int64(paymentID))
	return n == 1, err
}

// endTrade moves an open trade on; false = it isn't open.
func endTrade(ctx context.Context, db *store.DB, paymentID id.ID, to status, now int64) (bool, error) {
	n, err := store.Affected(ctx, db.Write, `UPDATE sandbox_trade SET status = ?, updated_at = ? WHERE payment_id = ? AND status = 1`, int(to), now, int64(paymentID))
	return n == 1, err
}

// findCalls returns trades whose callback is due.
func findCalls(ctx context.Context, db *store.DB, now int64, limit int) (list []trade, err error) {
	err = db.Select(ctx, db.Read, &list, `SELECT * FROM sandbox_trade WHERE call_at <= ? ORDER BY call_at LIMIT ?`, now, limit)
	return list, err
}

// claimCall takes one delivery; next nil = the last. false = another instance was first.
func claimCall(ctx context.Context, db *store.DB, t *trade, next *int64) (bool, error) {
	n, err := store.Affected(ctx, db.Write, `UPDATE sandbox_trade SET calls = calls + 1, call_at = ? WHERE trade_no = ? AND calls = ? AND call_at IS NOT NULL`, next, t.TradeNo, t.Calls)
	return n == 1, err
}

// endCalls notes that a callback was answered.
func endCalls(ctx context.Context, db *store.DB, tradeNo string) error {
	return store.Exec(ctx, db.Write, `UPDATE sandbox_trade SET call_at = NULL WHERE trade_no = ?`, tradeNo)
}

// refundStatus is how a refund stands in the books.
type refundStatus int

const (
	refundUnderWay refundStatus = 1
	refundDone     refundStatus = 2
	refundRefused  refundStatus = 3
)

// refund is a row of sandbox_refund.
type refund struct {
	bun.BaseModel `bun:"table:sandbox_refund"`

	RefundID  id.ID `bun:",pk"`
	TradeNo   string
	Amount    money.Fen
	Status    refundStatus
	Asked     int64
	CreatedAt int64
	UpdatedAt int64
}

// insertRefund begins a refund unless its id is known.
func insertRefund(ctx context.Context, db *store.DB, r *refund) error {
	if _, err := db.Write.NewInsert().Model(r).Exec(ctx); !db.IsDuplicate(err) {
		return err
	}
	return nil
}

// countAsk counts a question about a refund and returns it, nil if there is none.
func countAsk(ctx context.Context, db *store.DB, refundID id.ID, now int64) (r *refund, err error) {
	err = db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := store.Affected(ctx, tx, `UPDATE sandbox_refund SET asked = asked + 1, updated_at = ? WHERE refund_id = ?`, now, int64(refundID))
		if err != nil || n == 0 {
			return err
		}
		r = &refund{}
		return db.Get(ctx, tx, r, `SELECT * FROM sandbox_refund WHERE refund_id = ?`, int64(refundID))
	})
	return r, err
}

// finishRefund moves a refund that was under way to done.
func finishRefund(ctx context.Context, db *store.DB, refundID id.ID, now int64) error {
	return store.Exec(ctx, db.Write, `UPDATE sandbox_refund SET status = 2, updated_at = ? WHERE refund_id = ? AND status = 1`, now, int64(refundID))
}
