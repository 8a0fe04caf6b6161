package payment

import (
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/order"
)

// Status is where an attempt to pay stands.
type Status int

const (
	Open     Status = 1
	Captured Status = 2 // the money is here; from any other status, for a provider may take money after it said closed
	Closed   Status = 3
	Failed   Status = 4
)

var statusNames = map[Status]string{Open: "open", Captured: "captured", Closed: "closed", Failed: "failed"}

func (s Status) String() string { return statusNames[s] }

// Payment is a row of the table payment: one attempt to pay an order. Times are Unix milliseconds.
type Payment struct {
	bun.BaseModel `bun:"table:payment"`

	ID        id.ID `bun:",pk,autoincrement"`
	OrderID   id.ID
	Provider  string
	Amount    money.Fen
	Status    Status
	TradeNo   string // "" until known
	PaidAt    *int64 // by the provider's clock
	AskAt     *int64 // of one that ended without money: when the provider is asked once more
	CreatedAt int64
	UpdatedAt int64
}

// RefundStatus is where a refund stands.
type RefundStatus int

const (
	Asked   RefundStatus = 1
	Done    RefundStatus = 2
	Refused RefundStatus = 3 // by the provider, for ever
)

var refundStatusNames = map[RefundStatus]string{Asked: "asked", Done: "done", Refused: "refused"}

func (s RefundStatus) String() string { return refundStatusNames[s] }

// Reasons of refunds that are not wishes: the money paid nothing. The others are order.ReasonBuyer,
// order.ReasonOperator and order.ReasonExpired.
const (
	ReasonLate      = "late"      // at the deadline or after it, or the order has ended
	ReasonDuplicate = "duplicate" // another payment has paid the order
	ReasonMismatch  = "mismatch"  // not the amount that was asked for
)

// Refund is a row of the table refund: a captured payment on its way back.
type Refund struct {
	bun.BaseModel `bun:"table:refund"`

	ID        id.ID `bun:",pk,autoincrement"`
	OrderID   id.ID
	PaymentID id.ID
	Amount    money.Fen
	Reason    string
	Status    RefundStatus
	Attempts  int64
	NextAt    int64
	CreatedAt int64
	UpdatedAt int64
}

// ofOrder reports whether the refund takes the order itself along.
func (r *Refund) ofOrder() bool {
	return r.Reason == order.ReasonBuyer || r.Reason == order.ReasonOperator || r.Reason == order.ReasonExpired
}

// storedNotice is a row of payment_notice. Its body is the Notice as JSON.
type storedNotice struct {
	bun.BaseModel `bun:"table:payment_notice"`

	Provider   string `bun:",pk"`
	NoticeID   string `bun:",pk"`
	PaymentID  id.ID
	OrderID    id.ID // 0 while the payment isn't known
	Body       []byte
	ReceivedAt int64
	AppliedAt  *int64 // nil: it waits
	Outcome    Outcome
}

// Outcome is what a provider's word about a trade led to.
type Outcome string

const (
	OutcomePaid      Outcome = "paid"
	OutcomeLate      Outcome = ReasonLate
	OutcomeDuplicate Outcome = ReasonDuplicate
	OutcomeMismatch  Outcome = ReasonMismatch
	OutcomeRepeat    Outcome = "repeat" // known before
	OutcomeClosed    Outcome = "closed"
	OutcomeFailed    Outcome = "failed"
	OutcomeNothing   Outcome = "nothing" // still open
)

var (
	// ErrNotPayable answers a buyer who wants to pay what can't be paid (any more).
	ErrNotPayable = errs.Define("order.not_payable", errs.Conflict, "订单现在不能支付。", "The order can't be paid now.")
	// ErrQueued answers a buyer who is faster than the writer.
	ErrQueued = errs.Define("order.queued", errs.Conflict, "订单还在排队，请稍等。", "The order is still in the queue; wait a moment.").After(500 * time.Millisecond)
	// ErrNotRefundable answers a refund of an order that isn't paid, or is used.
	ErrNotRefundable = errs.Define("order.not_refundable", errs.Conflict, "订单现在不能退款。", "The order can't be refunded now.")
	// ErrNoProvider answers the name of a provider that this server doesn't offer.
	ErrNoProvider = errs.Define("payment.no_provider", errs.Invalid, "不支持这种支付方式。", "This way of paying is not offered.")
	// ErrUnavailable answers when the provider doesn't; nothing was paid.
	ErrUnavailable = errs.Define("payment.unavailable", errs.Unavailable, "支付渠道暂时没有响应，请再试一次。", "The payment provider doesn't answer; try again.").After(time.Second)
	// ErrUnsigned answers a notification that is not the provider's, or not for us.
	ErrUnsigned = errs.Define("payment.notice_invalid", errs.Unauthorized, "通知无效。", "The notification is not valid.")
	// ErrMismatch answers a notification that is the provider's but contradicts our books.
	ErrMismatch = errs.Define("payment.notice_mismatch", errs.Malformed, "通知与订单不符。", "The notification doesn't match the payment.")
)
