package order

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/voucher"
)

// legal lists every move there is (P1). An order begins as unpaid or failed, by the writer's insert. A used order is
// paid again when its redemption is undone.
var legal = map[Status][]Status{
	Unpaid:    {Paid, Closed},
	Paid:      {Used, Refunding},
	Used:      {Paid},
	Refunding: {Refunded},
}

// Actor is who moved an order: a user, System, or "" for a payment provider.
type Actor string

// System is the program itself.
const System Actor = "system"

// ByUser is a user as an actor.
func ByUser(userID id.ID) Actor { return Actor(userID.String()) }

// Reasons of moves.
const (
	ReasonTimeout  = "timeout"  // closed: not paid in time
	ReasonBuyer    = "buyer"    // closed or refunded: the buyer wanted it
	ReasonOperator = "operator" // refunded: an operator wanted it
	ReasonExpired  = "expired"  // refunded: not used in time
	ReasonUndone   = "undone"   // paid again: the redemption was a mistake
)

// move carries out one move in the caller's transaction: a conditional update and its line of the history. condition
// narrows the update further; its text is a constant. false = the order doesn't stand where the move begins, or the
// condition doesn't hold: somebody else was first, and nothing has changed.
//
// A move to a status that holds no slot frees it; the caller has to giveBack the unit.
func move(ctx context.Context, tx bun.Tx, m Move, condition string, args ...any) (bool, error) {
	moved, err := advance(ctx, tx, m, condition, args...)
	if err != nil || !moved {
		return false, err
	}
	return true, note(ctx, tx, []Move{m})
}

// advance is the conditional update of a move.
func advance(ctx context.Context, tx bun.Tx, m Move, condition string, args ...any) (bool, error) {
	if !slices.Contains(legal[m.FromStatus], m.ToStatus) {
		return false, fmt.Errorf("order %d: no move leads from %v to %v", m.OrderID, m.FromStatus, m.ToStatus)
	}
	set := `status = ?, updated_at = ?`
	if !m.ToStatus.Live() {
		set += `, slot = NULL`
	}
	query := `UPDATE orders SET ` + set + ` WHERE id = ? AND status = ?`
	if condition != "" {
		query += ` AND ` + condition
	}
	n, err := store.Affected(ctx, tx, query, append([]any{int(m.ToStatus), m.At, int64(m.OrderID), int(m.FromStatus)}, args...)...)
	return n == 1, err
}

// note appends lines to the history.
func note(ctx context.Context, tx bun.Tx, moves []Move) error {
	_, err := tx.NewInsert().Model(&moves).Exec(ctx)
	return err
}

// giveBack returns the units of orders that have just lost their slots, in the transaction of the move: the stock in
// SQL now, the gate's unit and the buyer's slot from the gate_release row.
func giveBack(ctx context.Context, tx bun.Tx, ended []Order, now int64) error {
	units := map[id.ID]int64{}
	releases := make([]release, len(ended))
	for i, o := range ended {
		units[o.SaleID]++
		releases[i] = release{OrderID: o.ID, SaleID: o.SaleID, CreatedAt: now}
	}
	if _, err := tx.NewInsert().Model(&releases).Exec(ctx); err != nil {
		return err
	}
	// Last and in order, as the writer does it: the hot rows are locked for the shortest time, and nobody crosses.
	for _, sale := range slices.Sorted(maps.Keys(units)) {
		if err := voucher.ReturnStock(ctx, tx, sale, units[sale], now); err != nil {
			return err
		}
	}
	return nil
}

// MarkPaid moves an order from unpaid to paid, in the transaction that captures the payment, and makes its redeem code.
// It counts only if paidAt, Unix milliseconds by the provider's clock, lies before the order's pay_before. won = false
// means that it doesn't count and nothing has changed; o tells where the order stands instead. Without a row (the order
// is still in the queue) o is nil: ask again later.
func MarkPaid(ctx context.Context, db *store.DB, tx bun.Tx, orderID id.ID, paidAt, now int64) (won bool, o *Order, err error) {
	// The look comes first because an update of a missing row would lock the gap that the writer inserts into.
	if o, err = findByID(ctx, db, tx, orderID); err != nil || o == nil {
		return false, nil, err
	}
	won, err = move(ctx, tx, Move{OrderID: orderID, FromStatus: Unpaid, ToStatus: Paid, At: now}, `pay_before > ?`, paidAt)
	if err != nil {
		return false, nil, fmt.Errorf("pay order %d: %w", orderID, err)
	}
	if won {
		if err := makeCode(ctx, db, tx, o, now); err != nil {
			return false, nil, fmt.Errorf("redeem code of order %d: %w", orderID, err)
		}
	}
	o, err = current(ctx, db, tx, orderID)
	return won, o, err
}

// MarkRefunding moves an order from paid to refunding, in the transaction that asks for the refund. false = it isn't
// paid (any more): it is used, or is being refunded already.
func MarkRefunding(ctx context.Context, tx bun.Tx, orderID id.ID, reason string, by Actor, now int64) (bool, error) {
	moved, err := move(ctx, tx, Move{OrderID: orderID, FromStatus: Paid, ToStatus: Refunding, Reason: reason, Actor: by, At: now}, "")
	if err != nil || !moved {
		return false, err
	}
	return true, voidCode(ctx, tx, orderID)
}

// MarkRefunded moves an order from refunding to refunded, in the transaction that notes the refund as done. The unit
// goes back to its sale, where it can be bought again while the sale runs. false = the order wasn't being refunded.
func MarkRefunded(ctx context.Context, db *store.DB, tx bun.Tx, orderID id.ID, reason string, by Actor, now int64) (bool, error) {
	moved, err := move(ctx, tx, Move{OrderID: orderID, FromStatus: Refunding, ToStatus: Refunded, Reason: reason, Actor: by, At: now}, "")
	if err != nil || !moved {
		return false, err
	}
	o, err := findByID(ctx, db, tx, orderID)
	if err != nil {
		return false, err
	}
	return true, giveBack(ctx, tx, []Order{*o}, now)
}

// closeAll closes those of the orders that are still unpaid, and returns them.
func closeAll(ctx context.Context, tx bun.Tx, orders []Order, reason string, by Actor, now int64) (closed []Order, err error) {
	slices.SortFunc(orders, func(a, b Order) int { return cmp.Compare(a.ID, b.ID) }) // two that close the same don't cross
	var moves []Move
	for _, o := range orders {
		m := Move{OrderID: o.ID, FromStatus: Unpaid, ToStatus: Closed, Reason: reason, Actor: by, At: now}
		moved, err := advance(ctx, tx, m, "")
		if err != nil {
			return nil, err
		}
		if moved {
			closed, moves = append(closed, o), append(moves, m)
		}
	}
	if len(closed) == 0 {
		return nil, nil
	}
	if err := note(ctx, tx, moves); err != nil {
		return nil, err
	}
	return closed, giveBack(ctx, tx, closed, now)
}
