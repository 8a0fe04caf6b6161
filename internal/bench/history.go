package bench

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// Outcome is what an answer means to the buyer.
type Outcome uint8

// Unknown leaves open whether an order exists; Accepted promises one; all others promise that the attempt made none.
const (
	Unknown Outcome = iota
	Accepted
	SoldOut
	LimitReached
	NotStarted
	Ended
	Paused
	Busy
	Refused
	outcomes // their number
)

var outcomeOfCode = map[string]Outcome{
	"sale.sold_out":      SoldOut,
	"sale.limit_reached": LimitReached,
	"sale.not_started":   NotStarted,
	"sale.ended":         Ended,
	"sale.paused":        Paused,
	"sale.busy":          Busy,
}

func (o Outcome) String() string {
	return [...]string{"unknown", "accepted", "sold out", "limit reached", "not started", "ended", "paused", "busy", "refused"}[o]
}

// Op is one attempt to buy. Questions repeated because the answer was Unknown are part of the same Op.
type Op struct {
	Sale       int // index into Facts.Sales
	User       int
	Key        int           // the attempt's Idempotency-Key; equal numbers of one user are equal keys
	Start, End time.Duration // since the run began
	Waited     time.Duration // from when the request was due to the answer
	Outcome    Outcome
	ID         string    // Accepted: the order's id
	IDs        []string  // LimitReached: the orders named
	Replay     bool      // the key had been answered before
	Asked      int       // times asked; more than 1 when answers were Unknown
	ServerTime time.Time // Date of the answer, whole seconds; zero when absent
	Want       Outcome   // the only right outcome; Unknown when several are
}

// History is the record of a run. It may be written concurrently.
type History struct {
	mu  sync.Mutex
	Ops []Op // guarded by mu while the run goes on
}

func (h *History) add(op Op) {
	h.mu.Lock()
	h.Ops = append(h.Ops, op)
	h.mu.Unlock()
}

// classify reads the answer to a grab into op.
func (op *Op) classify(r response) {
	op.ServerTime = r.date
	var answer problem
	_ = json.Unmarshal(r.body, &answer) // a body that is none leaves the status to speak
	known, ok := outcomeOfCode[answer.Code]
	op.Outcome = Unknown
	switch {
	case r.status == http.StatusAccepted && answer.OrderID != "":
		op.Outcome, op.ID = Accepted, answer.OrderID
	case r.status >= 400 && r.status < 500 && ok:
		op.Outcome, op.IDs = known, answer.OrderIDs
	case r.status >= 400 && r.status < 500:
		op.Outcome = Refused
	case r.status == http.StatusServiceUnavailable && known == Busy:
		op.Outcome = Busy
	}
}

// problem is what bench reads of an answer to an attempt, and of any answer other than 2xx.
type problem struct {
	OrderID, Code, Detail string
	OrderIDs              []string
}

// Tally counts a history's attempts. Attempted is the sum of the others.
type Tally struct {
	Attempted int `json:"attempted"`
	Accepted  int `json:"accepted"` // new orders
	SoldOut   int `json:"soldOut"`
	Repeat    int `json:"repeat"`  // replayed keys and limit_reached
	Refused   int `json:"refused"` // any other definite no
	Errors    int `json:"errors"`  // never answered
}

func (t *Tally) add(op Op) {
	t.Attempted++
	switch {
	case op.Outcome == Unknown:
		t.Errors++
	case op.Outcome == LimitReached || op.Outcome == Accepted && op.Replay:
		t.Repeat++
	case op.Outcome == Accepted:
		t.Accepted++
	case op.Outcome == SoldOut:
		t.SoldOut++
	default:
		t.Refused++
	}
}

func (t Tally) plus(o Tally) Tally {
	return Tally{t.Attempted + o.Attempted, t.Accepted + o.Accepted, t.SoldOut + o.SoldOut, t.Repeat + o.Repeat, t.Refused + o.Refused, t.Errors + o.Errors}
}
