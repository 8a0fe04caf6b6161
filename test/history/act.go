package history

import (
	"encoding/json"
	"net/http"
	"time"
)

// Kind is what an act is about.
type Kind string

// The acts, in the order of an order's life.
const (
	Begin  Kind = "begin"  // the buyer begins to pay
	Pay    Kind = "pay"    // he pays at the provider's cashier
	Notify Kind = "notify" // the provider's callback comes once more
	Close  Kind = "close"  // the buyer gives the order up
	Refund Kind = "refund" // he wants his money back
	Redeem Kind = "redeem" // a clerk uses the code up
	Undo   Kind = "undo"   // and takes that back
)

// Act is one request about an order that was told, and its answer.
type Act struct {
	OrderID   string    `json:"order"`
	Kind      Kind      `json:"act"`
	PaymentID string    `json:"payment,omitempty"` // of Begin, Pay and Notify
	Start     time.Time `json:"t_start"`
	End       time.Time `json:"t_end"`
	Outcome   Outcome   `json:"result"`
	Status    string    `json:"status,omitempty"` // of the order, or of the trade at the cashier, as the answer has it
	Code      string    `json:"code,omitempty"`   // of an answer that is an error
}

// Read fills in what an HTTP answer means; status 0 means that none came.
func (a *Act) Read(status int, body []byte) {
	var got struct{ Code, Status, State, PaymentID string }
	_ = json.Unmarshal(body, &got) // a body that is none leaves the status to speak
	a.Outcome, a.Code = Info, got.Code
	switch {
	case status/100 == 2:
		a.Outcome, a.Status = OK, got.Status+got.State
		if got.PaymentID != "" {
			a.PaymentID = got.PaymentID
		}
	case status >= 400 && status < 500 && got.Code != "" && status != http.StatusRequestTimeout:
		a.Outcome = Fail
	}
}

// Final reports whether asking again is no use.
func (a *Act) Final() bool {
	switch a.Code {
	case "limit.exceeded", "auth.required", "order.queued":
		return false
	}
	return a.Outcome != Info
}
