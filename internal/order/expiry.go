package order

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"tandian/internal/kit/store"
)

// Expirer refunds what was paid and not used while it was valid (P9). Several may run: the move to refunding is made
// once.
type Expirer struct {
	DB       *store.DB
	Payments Payments
	Now      func() time.Time
	Log      *slog.Logger
}

// Turn starts the refunds that are due. One that can't be started stays for another turn and holds up no other.
func (e *Expirer) Turn(ctx context.Context) error {
	now := store.Millis(e.Now())
	var failed error
	var after Code
	for {
		due, err := findExpired(ctx, e.DB.Read, now, after, atOnce)
		if err != nil {
			return errors.Join(failed, fmt.Errorf("read expired codes: %w", err))
		}
		for _, c := range due {
			after = c
			started, err := e.Payments.Refund(ctx, c.OrderID, ReasonExpired, System)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("refund expired order %d: %w", c.OrderID, err))
			} else if started {
				e.Log.InfoContext(ctx, "paid and not used in time; refunded", "order", c.OrderID)
			}
		}
		if len(due) < atOnce || ctx.Err() != nil {
			return failed
		}
	}
}

// findExpired lists codes whose time ended unused, by that time, after the given one.
func findExpired(ctx context.Context, q store.Querier, now int64, after Code, limit int) ([]Code, error) {
	var open int64
	if after.OpenUntil != nil {
		open = *after.OpenUntil
	}
	var due []Code
	err := q.NewSelect().Model(&due).Where("open_until >= ? AND open_until <= ? AND (open_until > ? OR order_id > ?)", open, now, open, after.OrderID).
		Order("open_until", "order_id").Limit(int64(limit)).Scan(ctx)
	return due, err
}
