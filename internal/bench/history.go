package bench

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// Outcome is what an answer means to the buyer.
type Outcome uint8

// Unknown leaves open whether an order exists; Accepted promises one; all others
// promise that the attempt made none.
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

// Op is one attempt to buy. Questions repeated because the answer was Unknown
// are part of the same Op.
type Op struct {
	Sale       int // index into Facts.Sales
	User       int
	Key        int           // the attempt's Idempotency-Key; equal numbers of one user are equal keys
	Start, End time.Duration // since the run began
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
	switch {
	case r.status == http.StatusAccepted:
		if op.ID = jsonField(r.body, "orderId"); op.ID != "" {
			op.Outcome = Accepted
			return
		}
		op.Outcome = Unknown
	case r.status >= 400 && r.status < 500:
		op.Outcome = Refused
		if o, ok := outcomeOfCode[jsonField(r.body, "code")]; ok {
			op.Outcome = o
		}
		if op.Outcome == LimitReached {
			var problem struct{ OrderIDs []string }
			if json.Unmarshal(r.body, &problem) == nil {
				op.IDs = problem.OrderIDs
			}
		}
	case r.status == http.StatusServiceUnavailable && jsonField(r.body, "code") == "sale.busy":
		op.Outcome = Busy
	default:
		op.Outcome = Unknown
	}
}

// jsonField returns the string value of the first member called name, "" when
// there is none. It is for ids, codes and states, which hold no escapes.
func jsonField(body []byte, name string) string {
	for rest := body; ; {
		i := bytes.Index(rest, []byte(`"`+name+`"`))
		if i < 0 {
			return ""
		}
		rest = bytes.TrimLeft(rest[i+len(name)+2:], " \t\r\n")
		if len(rest) == 0 || rest[0] != ':' {
			continue // it was a value, not a name
		}
		value := bytes.TrimLeft(rest[1:], " \t\r\n")
		if len(value) == 0 || value[0] != '"' {
			return ""
		}
		end := bytes.IndexByte(value[1:], '"')
		if end < 0 {
			return ""
		}
		return string(value[1 : 1+end])
	}
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
