package order

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

// release is a row of gate_release: a unit that the gate still has to take back.
type release struct {
	bun.BaseModel `bun:"table:gate_release"`

	OrderID       id.ID `bun:",pk"`
	SaleID        id.ID
	ForgetRequest bool
	CreatedAt     int64
}

// findByID returns nil if there is no such row.
func findByID(ctx context.Context, db *store.DB, q store.Querier, orderID id.ID) (*Order, error) {
	o := &Order{}
	err := db.Get(ctx, q, o, `SELECT * FROM orders WHERE id = ?`, int64(orderID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return o, err
}

// current reads a row as it stands now: in a transaction of MySQL's a plain read may show it as it stood when the
// transaction began to read.
func current(ctx context.Context, db *store.DB, tx bun.Tx, orderID id.ID) (*Order, error) {
	query := `SELECT * FROM orders WHERE id = ?`
	if tx.Dialect().Name() == dialect.MySQL {
		query += ` FOR UPDATE`
	}
	o := &Order{}
	return o, db.Get(ctx, tx, o, query, int64(orderID))
}

// existing returns the rows of those reservations that have one, with status and slot only.
func existing(ctx context.Context, q store.Querier, rs []Reservation) (map[id.ID]*Order, error) {
	found := make(map[id.ID]*Order, len(rs))
	if len(rs) == 0 {
		return found, nil
	}
	ids := make([]id.ID, len(rs))
	for i, r := range rs {
		ids[i] = r.OrderID
	}
	var rows []*Order
	if err := q.NewSelect().Model(&rows).Column("id", "status", "slot").Where("id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, err
	}
	for _, row := range rows {
		found[row.ID] = row
	}
	return found, nil
}

// WithoutRow returns those reservations that have no row at all, be it an order or a tombstone.
func WithoutRow(ctx context.Context, q store.Querier, rs []Reservation) ([]Reservation, error) {
	known, err := existing(ctx, q, rs)
	if err != nil {
		return nil, err
	}
	var without []Reservation
	for _, r := range rs {
		if known[r.OrderID] == nil {
			without = append(without, r)
		}
	}
	return without, nil
}

func rowOf(r Reservation, now int64) *Order {
	o := &Order{ID: r.OrderID, SaleID: r.SaleID, VoucherID: r.VoucherID, UserID: r.UserID, Slot: &r.Slot, Status: Unpaid, Amount: r.Amount,
		AdmittedAt: r.AdmittedAt, PayBefore: r.PayBefore, CreatedAt: now, UpdatedAt: now}
	if r.RequestID != "" {
		o.RequestID = &r.RequestID
	}
	return o
}

// insertTombstone writes the failed row and the release of its unit. The caller has made sure, in the
// same transaction, that the id has no row.
func insertTombstone(ctx context.Context, q store.Querier, r Reservation, reason string, now int64) error {
	o := rowOf(r, now)
	o.Slot, o.Status, o.Reason = nil, Failed, reason
	// After a refusal the buyer was told to try again, and the same key may. In all other cases he was told this id,
	// which the key goes on to mean, unless it means another order already.
	forget := reason == ReasonRefused || reason == ReasonRepeat
	if forget {
		o.RequestID = nil
	}
	if _, err := q.NewInsert().Model(o).Exec(ctx); err != nil {
		return err
	}
	_, err := q.NewInsert().Model(&release{OrderID: o.ID, SaleID: o.SaleID, ForgetRequest: forget, CreatedAt: now}).Exec(ctx)
	return err
}

// freeSlot returns the lowest slot below limit that the buyer's live orders leave free; -1 = none.
func freeSlot(ctx context.Context, q store.Querier, saleID, userID id.ID, limit int) (int, error) {
	var taken []int
	err := q.NewSelect().Model((*Order)(nil)).Column("slot").Where("sale_id = ? AND user_id = ? AND slot IS NOT NULL", saleID, userID).Scan(ctx, &taken)
	if err != nil {
		return 0, err
	}
	for slot := range limit {
		if !slices.Contains(taken, slot) {
			return slot, nil
		}
	}
	return -1, nil
}

// FindHolding returns the orders of a sale that a gate must know: the live ones, and those whose request id must
// still answer a repeat.
func FindHolding(ctx context.Context, q store.Querier, saleID id.ID) ([]Order, error) {
	var rows []Order
	err := q.NewSelect().Model(&rows).Where("sale_id = ? AND (slot IS NOT NULL OR request_id IS NOT NULL)", saleID).Scan(ctx)
	return rows, err
}

// FindOfBuyer returns a buyer's orders of a sale, newest first, without tombstones.
func FindOfBuyer(ctx context.Context, q store.Querier, saleID, userID id.ID) ([]Order, error) {
	var rows []Order
	err := q.NewSelect().Model(&rows).Where("sale_id = ? AND user_id = ? AND status <> ?", saleID, userID, Failed).Order("id DESC").Scan(ctx)
	return rows, err
}

// Tally counts a sale's orders.
type Tally struct {
	Live, Failed int64
	OverLimit    int64 // buyers with more live orders than the limit
	Releases     int64 // gate_release rows waiting
}

// Count tallies a sale; limit is what a buyer may hold.
func Count(ctx context.Context, q store.Querier, saleID id.ID, limit int) (t Tally, err error) {
	err = q.NewRaw(`SELECT
		(SELECT COUNT(*) FROM orders WHERE sale_id = ? AND status IN (1, 2, 3, 5)),
		(SELECT COUNT(*) FROM orders WHERE sale_id = ? AND status = 7),
		(SELECT COUNT(*) FROM (SELECT user_id FROM orders WHERE sale_id = ? AND status IN (1, 2, 3, 5) GROUP BY user_id HAVING COUNT(*) > ?) AS over_limit),
		(SELECT COUNT(*) FROM gate_release WHERE sale_id = ?)`, saleID, saleID, saleID, limit, saleID).
		Scan(ctx, &t.Live, &t.Failed, &t.OverLimit, &t.Releases)
	return t, err
}
