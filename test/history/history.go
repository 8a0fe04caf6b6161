// Package history exists so that a test which breaks things can tell whether anything broke: it records what buyers
// asked and were told, and judges that against what the stores hold once the sale has come to rest. The tests of whole
// processes under test use it.
package history

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Outcome is what an answer means to a buyer.
type Outcome string

const (
	OK   Outcome = "ok"   // an order id was told
	Fail Outcome = "fail" // certainly no order by this request
	Info Outcome = "info" // no answer, or one that leaves it open
)

// Op is one request for a unit and its answer.
type Op struct {
	User      string    `json:"user"`
	Sale      string    `json:"sale"`
	RequestID string    `json:"request_id"` // the Idempotency-Key; requests without one are not for this package
	Start     time.Time `json:"t_start"`
	End       time.Time `json:"t_end"`
	Outcome   Outcome   `json:"result"`
	OrderID   string    `json:"order,omitempty"` // of OK
	Code      string    `json:"code,omitempty"`  // of an answer that is an error
	Named     []string  `json:"named,omitempty"` // the orders that a refusal named
}

// Read fills in what an HTTP answer to a grab means; status 0 means that none came. A refusal is definite only if
// the product's own word says so: a gateway's 502, say, leaves it open.
func (op *Op) Read(status int, body []byte) {
	var a struct {
		OrderID, Code string
		OrderIDs      []string
	}
	_ = json.Unmarshal(body, &a) // a body that is none leaves the status to speak
	op.Outcome, op.Code = Info, a.Code
	switch {
	case status == http.StatusAccepted && a.OrderID != "":
		op.Outcome, op.OrderID = OK, a.OrderID
	case a.Code == "sale.busy", status >= 400 && status < 500 && a.Code != "":
		op.Outcome, op.Named = Fail, a.OrderIDs
	}
}

// Final reports whether asking again with the same key is no use: a refusal that isn't about this very moment.
func (op *Op) Final() bool {
	return op.Outcome == OK || op.Outcome == Fail && op.Code != "sale.busy" && op.Code != "limit.exceeded"
}

// Sighting is one answer to an owner who asked for an order that he was told; the status of "not found" is "".
type Sighting struct {
	OrderID, Status string
	By              string // who answered; for the report
	At              time.Time
}

// Sample is a look at a sale in the middle of things. The figures needn't be of one instant, but Live and Stock are of
// one and Released isn't older.
type Sample struct {
	Sale                  string
	At                    time.Time
	Released, Live, Stock int64
	Releases              []string // orders whose unit the gate has yet to take back
}

// History is a record. It may be written concurrently.
type History struct {
	mu        sync.Mutex
	ops       []Op       // guarded by mu
	acts      []Act      // guarded by mu
	sightings []Sighting // guarded by mu, by time for each order
	samples   []Sample   // guarded by mu
}

// Add records an op that has ended.
func (h *History) Add(op Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// Did records an act that has ended.
func (h *History) Did(a Act) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acts = append(h.acts, a)
}

// See records a status answer. Answers about one order are added in the order in which they were asked for.
func (h *History) See(s Sighting) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sightings = append(h.sightings, s)
}

// Look records a sample.
func (h *History) Look(s Sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.samples = append(h.samples, s)
}

// Ops returns a copy of what has been recorded so far.
func (h *History) Ops() []Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ops)
}

// Acts returns a copy of what has been done so far.
func (h *History) Acts() []Act {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.acts)
}

// Told lists the orders that were told to a user, each once, by the time of the first answer.
func (h *History) Told() (orders []Op) {
	seen := map[string]bool{}
	for _, op := range h.Ops() {
		if op.Outcome == OK && !seen[op.OrderID] {
			seen[op.OrderID] = true
			orders = append(orders, op)
		}
	}
	return orders
}
