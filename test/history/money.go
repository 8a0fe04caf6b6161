package history

import (
	"maps"
	"slices"
)

// money holds our books against the provider's, and both against the orders (I5): what came pays an order or has gone
// back, once and whole.
func (c *check) money() {
	back := map[string]int64{} // by payment, by our books
	for _, r := range c.Paybacks {
		p := c.Payments[r.PaymentID]
		switch {
		case !p.Captured || p.Amount != r.Amount:
			c.broken("I5", "refund %s of %d is of payment %s, which brought %d: order %s", r.ID, r.Amount, r.PaymentID, c.Trades[r.PaymentID].Amount, p.OrderID)
		case !r.Done:
			c.broken("I5", "refund %s of order %s is asked for and not done", r.ID, p.OrderID)
		}
		if r.Done {
			back[r.PaymentID] += r.Amount
		}
	}
	left := map[string]int64{} // of an order's money
	for _, id := range slices.Sorted(maps.Keys(c.Payments)) {
		p, t := c.Payments[id], c.Trades[id]
		switch {
		case p.Captured != t.Paid:
			c.broken("I5", "payment %s of order %s: money here is %v, paid at the provider is %v", id, p.OrderID, p.Captured, t.Paid)
		case p.Captured && p.Amount != t.Amount:
			c.broken("I5", "payment %s of order %s is of %d, the provider took %d", id, p.OrderID, p.Amount, t.Amount)
		case t.Back != back[id]:
			c.broken("I5", "payment %s of order %s: the provider has paid %d back, the books say %d", id, p.OrderID, t.Back, back[id])
		case t.Back > t.Amount:
			c.broken("I5", "payment %s of order %s: %d came and %d went back", id, p.OrderID, t.Amount, t.Back)
		}
		if !p.Captured {
			continue
		}
		left[p.OrderID] += p.Amount - back[id]
		if row := c.Rows[p.OrderID]; p.Amount > back[id] && kept(row.Status) && !p.PaidAt.Before(row.PayBefore) {
			c.broken("I10", "order %s is %s by payment %s, which was paid at the deadline or later", row.ID, row.Status, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Rows)) {
		row := c.Rows[id]
		price := int64(0)
		if kept(row.Status) {
			price = row.Amount
		}
		if left[id] != price {
			c.broken("I5", "order %s is %s, so %d should have been kept of its money, and %d was", id, row.Status, price, left[id])
		}
	}
}
