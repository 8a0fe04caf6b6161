package payment

import (
	"context"
	"net/http"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
)

// Provider takes money: the built-in sandbox, WeChat Pay, Alipay. It is safe for concurrent use and bounded by the
// context.
//
// An error always means unknown: the provider may or may not have done it, and is asked again. What it answers for
// certain, a refusal too, is a value. Each method may be repeated with the same id: the id is what makes it one.
type Provider interface {
	// Name is a short word that stands in paths and rows for ever, such as "sandbox".
	Name() string
	// Create opens a trade and returns where the buyer pays: an absolute address, or a path of this server. Repeated,
	// it returns the same trade's.
	Create(ctx context.Context, c Charge) (payURL string, err error)
	// Query tells how a trade stands.
	Query(ctx context.Context, paymentID id.ID) (Trade, error)
	// Close makes a trade take no more money and tells how it stands: TradePaid means that the money was first.
	Close(ctx context.Context, paymentID id.ID) (Trade, error)
	// Refund gives the money of a paid trade back. Repeated, it tells what became of the first.
	Refund(ctx context.Context, r RefundRequest) (RefundState, error)
	// QueryRefund tells how a refund stands.
	QueryRefund(ctx context.Context, refundID id.ID) (RefundState, error)
	// Verify checks that a notification is the provider's, meant for us and fresh, and reads it. It returns a
	// RefusedNoticeError otherwise. It neither asks nor changes anything.
	Verify(header http.Header, body []byte) (Notice, error)
}

// Charge is what a provider is asked to take.
type Charge struct {
	PaymentID   id.ID // what the provider knows the trade by
	OrderID     id.ID
	Amount      money.Fen
	Description string    // for the buyer's eyes
	ExpiresAt   time.Time // no money is wanted from then on
	ReturnTo    string    // path of this server where the buyer goes afterwards
}

// TradeState is where a trade stands at its provider.
type TradeState string

const (
	TradeAbsent TradeState = "absent" // the provider has never heard of it
	TradeOpen   TradeState = "open"
	TradePaid   TradeState = "paid"
	TradeClosed TradeState = "closed" // it takes no money any more
	TradeFailed TradeState = "failed" // the buyer tried and could not pay
)

// Trade is a provider's word about a trade. Amount and PaidAt are known only of a paid one.
type Trade struct {
	State   TradeState `json:"state"`
	TradeNo string     `json:"tradeNo"` // the provider's own number
	Amount  money.Fen  `json:"amount,omitempty"`
	PaidAt  int64      `json:"paidAt,omitempty"` // Unix ms, by the provider's clock
}

// Notice is a provider's notification about a trade, verified.
type Notice struct {
	ID        string `json:"id"` // the same for each delivery; at most 64 bytes
	PaymentID id.ID  `json:"paymentId"`
	Trade     Trade  `json:"trade"`
	Raw       string `json:"raw"` // as it came, for disputes
}

// RefusedNoticeError says why a notification was not believed: one word for metrics and logs.
type RefusedNoticeError struct{ Reason string }

func (e *RefusedNoticeError) Error() string { return "notification refused: " + e.Reason }

// Reasons of a RefusedNoticeError.
const (
	NoticeSignature = "signature" // missing, empty, or of other bytes
	NoticeStale     = "stale"     // its time is too far from ours
	NoticeBody      = "body"      // signed, but not readable
	NoticeMerchant  = "merchant"  // meant for somebody else
	NoticeCurrency  = "currency"
	NoticeAmount    = "amount"   // not what the payment asks for
	NoticeProvider  = "provider" // the payment belongs to another one
)

// RefundRequest asks for the whole of a captured payment back.
type RefundRequest struct {
	RefundID  id.ID // what the provider knows the refund by; never another one for the same payment
	PaymentID id.ID
	TradeNo   string
	Amount    money.Fen
	Reason    string
}

// RefundState is where a refund stands at its provider.
type RefundState string

const (
	RefundAbsent   RefundState = "absent" // the provider has never heard of it
	RefundUnderWay RefundState = "underWay"
	RefundDone     RefundState = "done"
	RefundRefused  RefundState = "refused" // it will never be done
)
