package history

import (
	"context"
	"fmt"
	"time"

	"tandian/internal/kit/store"
)

// Row is an order as the database has it.
type Row struct {
	ID, Sale, User string
	RequestID      string // "" where the row has none
	Status, Reason string
	AdmittedAt     time.Time
}

// statusNames are the codes of orders.status; internal/order has the same list, and a test against the running server
// compares the two.
var statusNames = [...]string{"queued", "unpaid", "paid", "used", "closed", "refunding", "refunded", "failed"}

// live orders hold a unit of the stock and a slot of the buyer.
func live(status string) bool {
	return status == "unpaid" || status == "paid" || status == "used" || status == "refunding"
}

// Sale is a sale at rest.
type Sale struct {
	Limit            int
	BeginsAt, EndsAt time.Time
	Released, Stock  int64 // in the database
	Gate             int64 // units left at the gate
	Held             int64 // units that the gate counts as somebody's
	AtRest           bool  // nothing is pending, queued or on its way back
}

// World is what there is when all is over.
type World struct {
	Sales map[string]Sale
	Rows  map[string]Row    // by order id: all orders of these sales
	Shown map[string]string // by order id: the status its owner is shown; "" = not found, absent = not asked
	// Rest is how long the sales took to come to rest after the last fault was lifted, Bound how long they may.
	Rest, Bound time.Duration
}

// ReadSale takes a sale's rows and figures from the database. Gate, Held and AtRest are for the caller to fill in.
func (w *World) ReadSale(ctx context.Context, db *store.DB, saleID string) error {
	var s struct {
		Stock, StockReleased, BeginsAt, EndsAt int64
		LimitPerUser                           int
	}
	err := db.Read.NewRaw(`SELECT stock, stock_released, begins_at, ends_at, limit_per_user FROM sale WHERE id = ?`, saleID).Scan(ctx, &s)
	if err != nil {
		return fmt.Errorf("read sale %s: %w", saleID, err)
	}
	var rows []struct {
		ID, UserID         string
		RequestID          *string
		Status, AdmittedAt int64
		Reason             string
	}
	err = db.Read.NewRaw(`SELECT id, user_id, request_id, status, admitted_at, reason FROM orders WHERE sale_id = ?`, saleID).Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("read orders of sale %s: %w", saleID, err)
	}
	if w.Sales == nil {
		w.Sales, w.Rows, w.Shown = map[string]Sale{}, map[string]Row{}, map[string]string{}
	}
	w.Sales[saleID] = Sale{Limit: s.LimitPerUser, BeginsAt: store.Time(s.BeginsAt), EndsAt: store.Time(s.EndsAt), Released: s.StockReleased, Stock: s.Stock}
	for _, r := range rows {
		row := Row{ID: r.ID, Sale: saleID, User: r.UserID, Status: "?", Reason: r.Reason, AdmittedAt: store.Time(r.AdmittedAt)}
		if r.RequestID != nil {
			row.RequestID = *r.RequestID
		}
		if r.Status > 0 && r.Status < int64(len(statusNames)) {
			row.Status = statusNames[r.Status]
		}
		w.Rows[r.ID] = row
	}
	return nil
}
