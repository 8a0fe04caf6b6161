package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
)

// Status is where an order stands. Queued exists without a row: it is a reservation that waits for its writer.
type Status int

const (
	Queued    Status = 0
	Unpaid    Status = 1
	Paid      Status = 2
	Used      Status = 3
	Closed    Status = 4
	Refunding Status = 5
	Refunded  Status = 6
	Failed    Status = 7
)

var statusNames = [...]string{"queued", "unpaid", "paid", "used", "closed", "refunding", "refunded", "failed"}

func (s Status) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("status(%d)", int(s))
	}
	return statusNames[s]
}

// ParseStatus is the inverse of String.
func ParseStatus(name string) (Status, bool) {
	for s, n := range statusNames {
		if n == name {
			return Status(s), true
		}
	}
	return 0, false
}

// Live reports whether an order of this status holds a slot.
func (s Status) Live() bool { return s == Unpaid || s == Paid || s == Used || s == Refunding }

// Final reports whether no move leads on from this status.
func (s Status) Final() bool { return s == Closed || s == Refunded || s == Failed }

// Reservation is an admitted unit without a row: the whole message, as the gate recorded it.
type Reservation struct {
	OrderID    id.ID     `json:"orderId"`
	SaleID     id.ID     `json:"saleId"`
	VoucherID  id.ID     `json:"voucherId"`
	UserID     id.ID     `json:"userId"`
	Slot       int       `json:"slot"` // 0-based; the gate's proposal, the writer may find another free one
	Amount     money.Fen `json:"amount"`
	RequestID  string    `json:"requestId"`
	AdmittedAt int64     `json:"admittedAt"` // Unix ms, by the gate's clock
	PayBefore  int64     `json:"payBefore"`  // Unix ms
}

// Reasons of a failed order.
const (
	ReasonSoldOut = "sold_out" // SQL had no stock though the gate admitted
	ReasonLimit   = "limit"    // no slot left for this buyer
	ReasonRepeat  = "repeat"   // another order carries the same request id
	ReasonNoSale  = "no_sale"  // the sale's row is gone
	ReasonRefused = "refused"  // the queue refused the message; the buyer was told to try again
	ReasonDropped = "dropped"  // the database refused the row, and its dead letter was given up
)

// TopicCreate carries reservations to the writer; TopicCreated tells that orders have been written; TopicCheck has the
// Checker look at unpaid ones.
const (
	TopicCreate  = "voucher.order.create"
	TopicCreated = "voucher.order.created"
	TopicCheck   = "voucher.order.pay.check"
)

// Topics lists them all: each has a consumer, a depth and dead letters (S9).
func Topics() []string { return []string{TopicCreate, TopicCreated, TopicCheck} }

// Order is a row of the table orders. Times are Unix milliseconds.
type Order struct {
	bun.BaseModel `bun:"table:orders,alias:o"`

	ID         id.ID `bun:",pk"`
	SaleID     id.ID
	VoucherID  id.ID
	UserID     id.ID
	Slot       *int    // nil unless live
	RequestID  *string // nil on a tombstone: its key may try again
	Status     Status
	Reason     string
	Amount     money.Fen
	AdmittedAt int64
	PayBefore  int64
	CreatedAt  int64
	UpdatedAt  int64
}

// Reservation is what the order was admitted as. It must hold a slot.
func (o *Order) Reservation() Reservation {
	r := Reservation{OrderID: o.ID, SaleID: o.SaleID, VoucherID: o.VoucherID, UserID: o.UserID, Amount: o.Amount, AdmittedAt: o.AdmittedAt, PayBefore: o.PayBefore}
	if o.Slot != nil {
		r.Slot = *o.Slot
	}
	if o.RequestID != nil {
		r.RequestID = *o.RequestID
	}
	return r
}

// Move is one line of an order's history: a row of order_move. The beginning is no move and has no row, see first.
type Move struct {
	bun.BaseModel `bun:"table:order_move"`

	ID         int64 `bun:",pk,autoincrement"`
	OrderID    id.ID
	FromStatus Status
	ToStatus   Status
	Reason     string
	Actor      Actor
	At         int64
}

// first is how the order's history begins: with the row itself.
func (o *Order) first() Move {
	m := Move{OrderID: o.ID, ToStatus: Unpaid, Actor: System, At: o.CreatedAt}
	if o.Status == Failed {
		m.ToStatus, m.Reason = Failed, o.Reason
	}
	return m
}

var (
	// ErrNotFound answers an id that is not an order of the asking user, whoever else's it may be.
	ErrNotFound = errs.Define("order.not_found", errs.NotFound, "没有这个订单。", "No such order.")
	// ErrNotClosable answers a buyer who gives up what isn't unpaid.
	ErrNotClosable = errs.Define("order.not_closable", errs.Conflict, "只有待支付的订单可以取消。", "Only an unpaid order can be cancelled.")
	// ErrUnknown answers when it can't be told right now whether the id was accepted.
	ErrUnknown = errs.Define("order.unknown", errs.Unknown, "订单状态暂时查不到，请稍后再查。", "The order can't be looked up right now; ask again in a moment.")
	// ErrStreams answers a user who has too many event streams open.
	ErrStreams = errs.Define("order.too_many_streams", errs.TooMany, "同时打开的页面太多，请关掉一些。", "Too many event streams are open; close some.")
)

// messageVersion is the schema of the create message; a reader refuses versions it doesn't know.
const messageVersion = 1

type message struct {
	Version      int           `json:"v"`
	Reservations []Reservation `json:"reservations"`
}

// Encode makes the body of a create message. One message carries what was handed over together.
func Encode(rs []Reservation) ([]byte, error) { return json.Marshal(message{messageVersion, rs}) }

// ownMessageID names the message that carries this one reservation, and its dead letter.
func ownMessageID(orderID id.ID) string { return "order-" + orderID.String() }

// PublishOne sends one reservation in a message of its own.
func PublishOne(ctx context.Context, b queue.Broker, r Reservation) error {
	body, err := Encode([]Reservation{r})
	if err != nil {
		return err
	}
	return b.Publish(ctx, TopicCreate, ownMessageID(r.OrderID), body)
}

// Decode reads a create message. It refuses anything that Encode could not have made.
func Decode(body []byte) ([]Reservation, error) {
	var m message
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, fmt.Errorf("create message: %w", err)
	}
	if m.Version != messageVersion {
		return nil, fmt.Errorf("create message: version %d, want %d", m.Version, messageVersion)
	}
	if len(m.Reservations) == 0 {
		return nil, errors.New("create message: no reservations")
	}
	for _, r := range m.Reservations {
		if r.OrderID <= 0 || r.SaleID <= 0 || r.VoucherID <= 0 || r.UserID <= 0 || r.Slot < 0 || r.Slot >= MaxPerUser ||
			r.Amount < 0 || len(r.RequestID) > MaxRequestID || r.AdmittedAt <= 0 || r.PayBefore < r.AdmittedAt {
			return nil, fmt.Errorf("create message: order %d is not a reservation", r.OrderID)
		}
	}
	return m.Reservations, nil
}

const (
	MaxPerUser   = 63 // live orders a buyer may hold in one sale: slots are the bits of a word
	MaxRequestID = 64 // bytes
)

// age is how long ago a time in Unix milliseconds was.
func age(now time.Time, ms int64) time.Duration { return max(0, now.Sub(store.Time(ms))) }
