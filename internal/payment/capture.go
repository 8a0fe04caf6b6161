package payment

import (
	"context"
	"errors"

	"github.com/uptrace/bun"

	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

// errNoOrder says that the order is still in the queue: what was learnt must wait for its row.
var errNoOrder = errors.New("the order has no row yet")

// applyTrade brings a payment up to how its trade stands.
func applyTrade(ctx context.Context, db *store.DB, tx bun.Tx, p *Payment, t Trade, now int64) (Outcome, error) {
	ended := map[TradeState]Status{TradeClosed: Closed, TradeFailed: Failed}
	switch t.State {
	case TradePaid:
		return capture(ctx, db, tx, p, t, now)
	case TradeClosed, TradeFailed:
		to := ended[t.State]
		moved, err := markEnded(ctx, tx, p.ID, to, t.TradeNo, now)
		if err != nil || !moved {
			return OutcomeRepeat, err
		}
		return Outcome(to.String()), nil
	}
	return OutcomeNothing, nil
}

// capture notes that money is here and decides, in the same transaction, whether it pays the order or goes back. It
// doesn't ask whether the attempt is open: a provider may take money after it has said closed, and the money is there.
func capture(ctx context.Context, db *store.DB, tx bun.Tx, p *Payment, t Trade, now int64) (Outcome, error) {
	fresh, err := markCaptured(ctx, tx, p.ID, t, now)
	if err != nil || !fresh {
		return OutcomeRepeat, err
	}
	if t.Amount != p.Amount {
		return OutcomeMismatch, insertRefund(ctx, tx, p.OrderID, p.ID, t.Amount, ReasonMismatch, now)
	}
	won, o, err := order.MarkPaid(ctx, db, tx, p.OrderID, t.PaidAt, now)
	switch {
	case err != nil:
		return "", err
	case o == nil:
		return "", errNoOrder
	case won:
		return OutcomePaid, nil
	}
	out := OutcomeLate
	switch o.Status {
	case order.Paid, order.Used, order.Refunding, order.Refunded:
		out = OutcomeDuplicate
	}
	if out == OutcomeLate && failpoint.On(failpoint.LateMoneyKept) {
		return out, nil
	}
	return out, insertRefund(ctx, tx, p.OrderID, p.ID, t.Amount, string(out), now)
}
