package flashsale

import (
	"context"

	"tandian/internal/kit/id"
	"tandian/internal/order"
)

// Census lists what a gate holds, for reconciling. It is no part of admitting: a gate goes on working while it is
// listed, so that an order which comes or goes meanwhile may be in the list or not. Both gates implement it.
type Census interface {
	// Held calls each for every order that a loaded sale's gate holds, and whether it has no row as far as the gate
	// knows; the same order may come twice. Of a sale that is not loaded, and of one whose records somebody has changed
	// by hand, it lists what can be read.
	Held(ctx context.Context, saleID id.ID, each func(r order.Reservation, pending bool)) error
}

// ListedGate is a gate that can be reconciled.
type ListedGate interface {
	Gate
	Census
}

var (
	_ ListedGate = (*MemoryGate)(nil)
	_ ListedGate = (*RedisGate)(nil)
)

// Held implements Census.
func (g *MemoryGate) Held(_ context.Context, saleID id.ID, each func(r order.Reservation, pending bool)) error {
	m := g.sale(saleID)
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for orderID, h := range m.orders {
		each(h.Reservation, m.pending[orderID] != nil)
	}
	return nil
}

// heldAtOnce is how many records a step of the scan asks for.
const heldAtOnce = 1000

// Held implements Census.
func (g *RedisGate) Held(ctx context.Context, saleID id.ID, each func(r order.Reservation, pending bool)) error {
	key := saleKeys(saleID)[ordersKey]
	for cursor := uint64(0); ; {
		page, err := g.client.Do(ctx, g.client.B().Hscan().Key(key).Cursor(cursor).Count(heldAtOnce).Build()).AsScanEntry()
		if err != nil {
			return err
		}
		for i := 0; i+1 < len(page.Elements); i += 2 {
			orderID, err := id.Parse(page.Elements[i])
			r, pending, err2 := recordAs(saleID, orderID, page.Elements[i+1])
			if err == nil && err2 == nil {
				each(r, pending)
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return nil
		}
	}
}
