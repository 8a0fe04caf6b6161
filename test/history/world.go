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
	Amount         int64 // fen
	AdmittedAt     time.Time
	PayBefore      time.Time
}

// Move is a line of an order's history. It begins before the first one, as unpaid or failed.
type Move struct {
	From, To   string
	Reason, By string // By is a user's id, "system", or "" for a payment provider
	At         time.Time
}

// statusNames are the codes of orders.status; internal/order has the same list, and a test against the running server
// compares the two.
var statusNames = [...]string{"queued", "unpaid", "paid", "used", "closed", "refunding", "refunded", "failed"}

func nameOf(status int64) string {
	if status < 0 || status >= int64(len(statusNames)) {
		return "?"
	}
	return statusNames[status]
}

// live orders hold a unit of the stock and a slot of the buyer.
func live(status string) bool {
	return status == "unpaid" || status == "paid" || status == "used" || status == "refunding"
}

// kept reports whether the money of an order with this status is the shop's.
func kept(status string) bool { return status == "paid" || status == "used" }

// Sale is a sale at rest.
type Sale struct {
	Limit            int
	BeginsAt, EndsAt time.Time
	Released, Stock  int64 // in the database
	Gate             int64 // units left at the gate
	Held             int64 // units that the gate counts as somebody's
	AtRest           bool  // nothing is pending, queued or on its way back, and no money is on its way
}

// Payment is an attempt to pay as our books have it.
type Payment struct {
	ID, OrderID string
	Amount      int64
	Captured    bool
	PaidAt      time.Time // by the provider's clock; of a captured one
}

// Payback is a refund as our books have it.
type Payback struct {
	ID, PaymentID string
	Amount        int64
	Done          bool
}

// Trade is a payment as the provider's books have it.
type Trade struct {
	Paid         bool
	Amount, Back int64 // Back is what has been paid back
}

// Trouble is a time in which something was broken.
type Trouble struct{ From, To time.Time }

// World is what there is when all is over.
type World struct {
	Sales map[string]Sale
	Rows  map[string]Row    // by order id: all orders of these sales
	Shown map[string]string // by order id: the status its owner is shown; "" = not found, absent = not asked

	Moves    map[string][]Move // by order id, in their order
	Payments map[string]Payment
	Paybacks []Payback
	Trades   map[string]Trade // by the payment's id
	Troubles []Trouble
	At       time.Time // when the last sale was read

	// Rest is how long the sales took to come to rest once the last fault was lifted and the last deadline past; Bound how
	// long they may.
	Rest, Bound time.Duration
}

// ReadSale takes a sale's rows and figures from the database, the books of the built-in payment provider among them.
// Gate, Held and AtRest are for the caller to fill in.
func (w *World) ReadSale(ctx context.Context, db *store.DB, saleID string) error {
	if w.Sales == nil {
		w.Sales, w.Rows, w.Shown = map[string]Sale{}, map[string]Row{}, map[string]string{}
		w.Moves, w.Payments, w.Trades = map[string][]Move{}, map[string]Payment{}, map[string]Trade{}
	}
	for _, read := range []func(context.Context, *store.DB, string) error{w.readOrders, w.readMoves, w.readPayments, w.readPaybacks, w.readTrades} {
		if err := read(ctx, db, saleID); err != nil {
			return fmt.Errorf("read sale %s: %w", saleID, err)
		}
	}
	w.At = time.Now()
	return nil
}

func (w *World) readOrders(ctx context.Context, db *store.DB, saleID string) error {
	var s struct {
		Stock, StockReleased, BeginsAt, EndsAt int64
		LimitPerUser                           int
	}
	err := db.Read.NewRaw(`SELECT stock, stock_released, begins_at, ends_at, limit_per_user FROM sale WHERE id = ?`, saleID).Scan(ctx, &s)
	if err != nil {
		return err
	}
	var rows []struct {
		ID, UserID                            string
		RequestID                             *string
		Status, Amount, AdmittedAt, PayBefore int64
		Reason                                string
	}
	err = db.Read.NewRaw(`SELECT id, user_id, request_id, status, amount, admitted_at, pay_before, reason FROM orders WHERE sale_id = ?`, saleID).Scan(ctx, &rows)
	if err != nil {
		return err
	}
	w.Sales[saleID] = Sale{Limit: s.LimitPerUser, BeginsAt: store.Time(s.BeginsAt), EndsAt: store.Time(s.EndsAt), Released: s.StockReleased, Stock: s.Stock}
	for _, r := range rows {
		row := Row{ID: r.ID, Sale: saleID, User: r.UserID, Status: nameOf(r.Status), Reason: r.Reason, Amount: r.Amount,
			AdmittedAt: store.Time(r.AdmittedAt), PayBefore: store.Time(r.PayBefore)}
		if r.RequestID != nil {
			row.RequestID = *r.RequestID
		}
		w.Rows[r.ID] = row
	}
	return nil
}

func (w *World) readMoves(ctx context.Context, db *store.DB, saleID string) error {
	var rows []struct {
		OrderID                  string
		FromStatus, ToStatus, At int64
		Reason, Actor            string
	}
	err := db.Read.NewRaw(`SELECT m.order_id, m.from_status, m.to_status, m.reason, m.actor, m.at FROM order_move AS m JOIN orders AS o ON o.id = m.order_id
		WHERE o.sale_id = ? ORDER BY m.id`, saleID).Scan(ctx, &rows)
	for _, r := range rows {
		w.Moves[r.OrderID] = append(w.Moves[r.OrderID], Move{nameOf(r.FromStatus), nameOf(r.ToStatus), r.Reason, r.Actor, store.Time(r.At)})
	}
	return err
}

func (w *World) readPayments(ctx context.Context, db *store.DB, saleID string) error {
	var rows []struct {
		ID, OrderID    string
		Amount, Status int64
		PaidAt         *int64
	}
	err := db.Read.NewRaw(`SELECT p.id, p.order_id, p.amount, p.status, p.paid_at FROM payment AS p JOIN orders AS o ON o.id = p.order_id WHERE o.sale_id = ?`, saleID).Scan(ctx, &rows)
	for _, r := range rows {
		p := Payment{ID: r.ID, OrderID: r.OrderID, Amount: r.Amount, Captured: r.Status == 2}
		if r.PaidAt != nil {
			p.PaidAt = store.Time(*r.PaidAt)
		}
		w.Payments[r.ID] = p
	}
	return err
}

func (w *World) readPaybacks(ctx context.Context, db *store.DB, saleID string) error {
	var rows []struct {
		ID, PaymentID  string
		Amount, Status int64
	}
	err := db.Read.NewRaw(`SELECT r.id, r.payment_id, r.amount, r.status FROM refund AS r JOIN orders AS o ON o.id = r.order_id WHERE o.sale_id = ? ORDER BY r.id`, saleID).Scan(ctx, &rows)
	for _, r := range rows {
		w.Paybacks = append(w.Paybacks, Payback{r.ID, r.PaymentID, r.Amount, r.Status == 2})
	}
	return err
}

// readTrades reads the provider's books. Money that is on its way arrives when its time has come, whatever the trade's
// status says.
func (w *World) readTrades(ctx context.Context, db *store.DB, saleID string) error {
	var rows []struct {
		PaymentID    string
		Amount, Back int64
		PaidAt       *int64
	}
	err := db.Read.NewRaw(`SELECT t.payment_id, t.amount, t.paid_at, (SELECT COALESCE(SUM(r.amount), 0) FROM sandbox_refund AS r WHERE r.trade_no = t.trade_no AND r.status = 2) AS back
		FROM sandbox_trade AS t JOIN payment AS p ON p.id = t.payment_id JOIN orders AS o ON o.id = p.order_id WHERE o.sale_id = ?`, saleID).Scan(ctx, &rows)
	for _, r := range rows {
		w.Trades[r.PaymentID] = Trade{Paid: r.PaidAt != nil && *r.PaidAt <= time.Now().UnixMilli(), Amount: r.Amount, Back: r.Back}
	}
	return err
}
