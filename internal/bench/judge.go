package bench

import (
	"fmt"
	"slices"
	"time"
)

// Order is an order as the server or its database shows it.
type Order struct {
	Sale       int    // index into Facts.Sales
	Owner      string // whoever owns it, in any spelling that is equal for one user
	Status     string // as in the API: queued, unpaid, …
	Reason     string
	AdmittedAt time.Time // zero when not known
}

// live orders hold a unit of the stock.
func (o Order) live() bool {
	return o.Status == "unpaid" || o.Status == "paid" || o.Status == "used" || o.Status == "refunding"
}

// SaleFacts are a sale's figures at rest.
type SaleFacts struct {
	Limit            int
	BeginsAt, EndsAt time.Time
	Released         int64  // units ever put on sale
	Stock            int64  // units left in the database
	Gate             *int64 // units left at the gate; nil while it is not loaded
	Live, Failed     int64  // orders in the database
	PeakLive         int64  // most live orders seen at any time of the run
	OverLimit        int    // users over the limit, by the server's own count
	QueueEmpty       bool   // no message waits or is in hand; an order without a row then has no future
	AtRest           bool   // two equal snapshots without anything under way
}

// Facts are what server and database hold when a run is over.
type Facts struct {
	Sales      []SaleFacts
	Lookups    map[string]Order // what GET /orders/{id} told its owner; absent = 404
	Unverified map[string]bool  // ids whose lookup was never answered
	Missed     []string         // ids that were 404 right after they were accepted
	Rows       map[string]Order // orders found otherwise: rows, or the buyers' own lists
	Complete   bool             // Rows holds every row of the sales
	Planted    map[string]bool  // ids of rows bench made itself
	Stuck      int              // orders seen without a row and without a message, though nothing was killed
	Excused    map[string]bool  // owners who never got an answer to some attempt
}

// Invariants count what must never happen. OK is true when all counts are zero and all flags true.
type Invariants struct {
	Oversold      int      `json:"oversold"`      // live orders beyond the units released
	OverLimit     int      `json:"overLimit"`     // users with more live orders than allowed
	Lost          int      `json:"lost"`          // accepted ids that are nowhere, or were nowhere for a while
	Ghost         int      `json:"ghost"`         // live orders nobody was told about
	OutsideWindow int      `json:"outsideWindow"` // accepted before the begin or after the end
	Duplicate     int      `json:"duplicate"`     // ids told to two users
	WrongReplay   int      `json:"wrongReplay"`   // an equal key that got another order, a refusal that hides the buyer's own
	WrongAnswer   int      `json:"wrongAnswer"`   // definite answers that contradict the rules of the sale
	Unsettled     int      `json:"unsettled"`     // accepted ids without an end, or failed without a reason
	Recovered     int      `json:"recovered"`     // orders whose message got lost unprovoked; a later scan found them
	GateEqualsDB  bool     `json:"gateEqualsDb"`
	Conserved     bool     `json:"conserved"` // released = stock + live
	AtRest        bool     `json:"atRest"`
	OK            bool     `json:"ok"`
	Details       []string `json:"details,omitempty"` // the first violations in words
}

// total is the sum of all counts.
func (v *Invariants) total() int {
	return v.Oversold + v.OverLimit + v.Lost + v.Ghost + v.OutsideWindow + v.Duplicate + v.WrongReplay + v.WrongAnswer + v.Unsettled + v.Recovered
}

// note counts n violations and describes them, the first few of all.
func (v *Invariants) note(counter *int, n int, format string, args ...any) {
	const maxDetails = 20
	*counter += n
	if len(v.Details) < maxDetails {
		v.Details = append(v.Details, fmt.Sprintf(format, args...))
	}
}

// demand is note for a flag.
func (v *Invariants) demand(flag *bool, ok bool, format string, args ...any) {
	if !ok {
		*flag = false
		v.note(new(int), 1, format, args...)
	}
}

// Judge compares what was answered with what exists. It has no side effects.
func Judge(h *History, f Facts) Invariants {
	v := Invariants{GateEqualsDB: true, Conserved: true, AtRest: true}
	t := tell(h, &v, f)
	for i, sale := range f.Sales {
		v.judgeSale(i, sale)
	}
	v.judgeAccepted(t, f)
	v.judgeAnswers(h, t, f)
	v.judgeRows(t, f)
	if n := f.Stuck - v.Lost - v.Unsettled; n > 0 {
		v.note(&v.Recovered, n, "%d accepted orders had no row though the queue was empty, and got one later", n)
	}
	v.OK = v.total() == 0 && v.GateEqualsDB && v.Conserved && v.AtRest
	return v
}

// buyer is one user at one sale.
type buyer struct{ sale, user int }

// told indexes the accepted answers of a history.
type told struct {
	first map[string]Op  // by id: the first answer that named it
	of    map[buyer][]Op // the first answers of each buyer
	// unsure are buyers with an attempt never answered, or answered "busy": the unit of a refused reservation may take
	// a moment to come back.
	unsure map[buyer]bool
	ids    []string // in order of answer, so that reports are stable
}

func tell(h *History, v *Invariants, f Facts) told {
	t := told{first: map[string]Op{}, of: map[buyer][]Op{}, unsure: map[buyer]bool{}}
	type attempt struct {
		buyer
		key int
	}
	byKey := map[attempt]string{}
	for _, op := range h.Ops {
		b := buyer{op.Sale, op.User}
		t.unsure[b] = t.unsure[b] || op.Outcome == Unknown || op.Outcome == Busy
		if op.Outcome != Accepted {
			continue
		}
		k := attempt{b, op.Key}
		// A key whose order failed may try again and then gets another order.
		if earlier, ok := byKey[k]; ok && earlier != op.ID && f.Lookups[earlier].Status != "failed" {
			v.note(&v.WrongReplay, 1, "user %d got order %s and then %s for the same key", op.User, earlier, op.ID)
		}
		byKey[k] = op.ID
		if first, ok := t.first[op.ID]; ok {
			if first.User != op.User || first.Sale != op.Sale {
				v.note(&v.Duplicate, 1, "order %s was promised to users %d and %d", op.ID, first.User, op.User)
			}
			continue
		}
		t.first[op.ID] = op
		t.of[b] = append(t.of[b], op)
		t.ids = append(t.ids, op.ID)
	}
	return t
}

func (v *Invariants) judgeSale(i int, s SaleFacts) {
	if n := max(s.Live, s.PeakLive) - s.Released; n > 0 {
		v.note(&v.Oversold, int(n), "sale %d: %d live orders, %d units released", i, max(s.Live, s.PeakLive), s.Released)
	} else if s.Stock < 0 {
		v.note(&v.Oversold, int(-s.Stock), "sale %d: stock is %d", i, s.Stock)
	}
	v.demand(&v.Conserved, s.Stock+s.Live == s.Released, "sale %d: %d left and %d live are not the %d released", i, s.Stock, s.Live, s.Released)
	if s.Gate != nil {
		v.demand(&v.GateEqualsDB, *s.Gate == s.Stock, "sale %d: the gate has %d units, the database %d", i, *s.Gate, s.Stock)
	}
	v.demand(&v.AtRest, s.AtRest, "sale %d did not come to rest", i)
}

// judgeAccepted follows every promise to its end.
func (v *Invariants) judgeAccepted(t told, f Facts) {
	for _, id := range f.Missed {
		v.note(&v.Lost, 1, "order %s was not found right after it was accepted", id)
	}
	for _, id := range t.ids {
		order, found := f.Lookups[id]
		_, row := f.Rows[id]
		switch {
		case f.Unverified[id] && !row:
			v.note(&v.Unsettled, 1, "order %s: its lookup was never answered", id)
		case f.Unverified[id]:
		case !found && !slices.Contains(f.Missed, id):
			v.note(&v.Lost, 1, "order %s was accepted and is not found", id)
		case f.Complete && !row && order.Status != "queued":
			v.note(&v.Lost, 1, "order %s is %q and has no row", id, order.Status)
		case found && order.Status == "queued" && f.Complete && !row && f.Sales[order.Sale].QueueEmpty:
			v.note(&v.Lost, 1, "order %s waits for a row and the queue is empty", id)
		case found && order.Status == "queued":
			v.note(&v.Unsettled, 1, "order %s is still queued", id)
		case found && order.Status == "failed" && order.Reason == "":
			v.note(&v.Unsettled, 1, "order %s failed without a reason", id)
		}
		v.judgeTime(id, t.first[id], order, f.Sales)
	}
}

func (v *Invariants) judgeTime(id string, op Op, order Order, sales []SaleFacts) {
	s := sales[op.Sale]
	at := order.AdmittedAt
	outside := !at.IsZero() && (at.Before(s.BeginsAt) || !at.Before(s.EndsAt))
	// The Date header has whole seconds and is written at the end of the request: it proves an early answer, but a
	// late one only says "not before".
	early := !op.ServerTime.IsZero() && op.ServerTime.Add(time.Second).Before(s.BeginsAt)
	late := op.Want == Ended || op.Want == NotStarted
	if outside || early || late {
		v.note(&v.OutsideWindow, 1, "order %s was accepted outside the sale's time", id)
	}
}

// judgeAnswers checks refusals against the rules and the buyer's own orders.
func (v *Invariants) judgeAnswers(h *History, t told, f Facts) {
	for _, op := range h.Ops {
		b := buyer{op.Sale, op.User}
		if op.Want != Unknown && op.Outcome != op.Want && op.Outcome >= SoldOut && op.Outcome <= Paused {
			v.note(&v.WrongAnswer, 1, "user %d was told %q instead of %q", op.User, op.Outcome, op.Want)
		}
		if op.Outcome != LimitReached || t.unsure[b] {
			continue
		}
		if own := len(t.of[b]); own < f.Sales[op.Sale].Limit {
			v.note(&v.WrongAnswer, 1, "user %d was told the limit is reached with %d orders", op.User, own)
		}
		for _, earlier := range t.of[b] {
			if earlier.End < op.Start && f.Lookups[earlier.ID].live() && !slices.Contains(op.IDs, earlier.ID) {
				v.note(&v.WrongReplay, 1, "user %d was not reminded of order %s", op.User, earlier.ID)
			}
		}
	}
}

// judgeCount is judgeRows where the rows can't be read: more live orders than were told of and found again are ghosts.
func (v *Invariants) judgeCount(f Facts) {
	for i, s := range f.Sales {
		ghosts := s.Live - int64(len(f.Excused)+len(f.Unverified))
		for _, order := range f.Lookups {
			if order.Sale == i && order.live() {
				ghosts--
			}
		}
		if ghosts > 0 {
			v.note(&v.Ghost, int(ghosts), "sale %d: nobody was told of %d live orders", i, ghosts)
		}
	}
}

// judgeRows looks for orders that should not be there.
func (v *Invariants) judgeRows(t told, f Facts) {
	type holder struct {
		sale  int
		owner string
	}
	held := map[holder]int{}
	for id, row := range f.Rows {
		if !row.live() {
			continue
		}
		held[holder{row.Sale, row.Owner}]++
		if _, ok := t.first[id]; !ok && !f.Planted[id] && !f.Excused[row.Owner] {
			v.note(&v.Ghost, 1, "order %s is %s and nobody was told", id, row.Status)
		}
	}
	if !f.Complete {
		v.judgeCount(f)
	}
	over := make([]int, len(f.Sales))
	for who, n := range held {
		if n > f.Sales[who.sale].Limit {
			over[who.sale]++
		}
	}
	for i, s := range f.Sales {
		if n := max(over[i], s.OverLimit); n > 0 {
			v.note(&v.OverLimit, n, "sale %d: %d users own more than %d", i, n, s.Limit)
		}
	}
}
