package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Violation is a broken promise.
type Violation struct {
	Invariant string // I1, I2, …
	Text      string
}

// Report is the verdict on a history.
type Report struct {
	Attempted, OK, Fail, Info int // requests, and what they were told

	Lost       int // ids that were told and are nowhere
	Ghost      int // orders that nobody was told of and nobody may have caused
	Duplicated int // ids told twice, keys with two orders
	Recovered  int // orders of requests without an answer

	Acted int            // requests about orders and their money
	Ends  map[string]int // orders by the status in which they ended

	Violations []Violation
}

// Broken reports whether an invariant is broken.
func (r *Report) Broken(invariant string) bool {
	return slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Invariant == invariant })
}

// String shows the figures and the first violations.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d attempted, %d ok, %d fail, %d info; %d lost, %d ghost, %d duplicated, %d recovered", r.Attempted, r.OK, r.Fail, r.Info,
		r.Lost, r.Ghost, r.Duplicated, r.Recovered)
	const most = 20
	for i, v := range r.Violations {
		if i == most {
			fmt.Fprintf(&b, "\n  and %d more", len(r.Violations)-most)
			break
		}
		fmt.Fprintf(&b, "\n  %s: %s", v.Invariant, v.Text)
	}
	return b.String()
}

func (r *Report) broken(invariant, format string, args ...any) {
	r.Violations = append(r.Violations, Violation{invariant, fmt.Sprintf(format, args...)})
}

// skew is how far the clocks of test and stores may be apart, which run on one machine and count in milliseconds.
const skew = 2 * time.Millisecond

// Check judges what was told against what is there. It may be called when the sales are at rest, once their owners
// have been asked for all told orders.
func Check(h *History, w World) *Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := &check{Report: &Report{Ends: map[string]int{}}, History: h, World: w, byKey: map[key][]Op{}, told: map[string]Op{}}
	c.count()
	c.stock()
	c.promises()
	c.keys()
	c.rows()
	c.seen()
	c.moved()
	c.acted()
	c.money()
	c.releases()
	if w.Rest > w.Bound {
		c.broken("I11", "came to rest after %v, may take %v", w.Rest, w.Bound)
	}
	return c.Report
}

// check is a verdict in the making.
type check struct {
	*Report
	*History
	World

	byKey map[key][]Op
	told  map[string]Op // the first answer with this id
}

// key is an attempt: all requests with it are one.
type key struct{ user, sale, request string }

func (c *check) count() {
	for _, op := range c.ops {
		c.Attempted++
		switch op.Outcome {
		case OK:
			c.OK++
		case Fail:
			c.Fail++
		default:
			c.Info++
		}
		k := key{op.User, op.Sale, op.RequestID}
		c.byKey[k] = append(c.byKey[k], op)
		if op.Outcome != OK {
			continue
		}
		if first, ok := c.told[op.OrderID]; !ok {
			c.told[op.OrderID] = op
		} else if first.User != op.User || first.Sale != op.Sale || first.RequestID != op.RequestID {
			c.Duplicated++
			c.broken("B7", "order %s was told for %s of user %s and for %s of user %s", op.OrderID, first.RequestID, first.User, op.RequestID, op.User)
		}
	}
}

// stock checks each sale's figures, during and after (I1, I2, I4, I11).
func (c *check) stock() {
	liveOf, slots := map[string]int64{}, map[key]int{}
	for _, row := range c.Rows {
		if live(row.Status) {
			liveOf[row.Sale]++
			slots[key{user: row.User, sale: row.Sale}]++
		}
	}
	for holder, n := range slots {
		if limit := c.Sales[holder.sale].Limit; n > limit {
			c.broken("I2", "user %s has %d live orders of sale %s, may have %d", holder.user, n, holder.sale, limit)
		}
	}
	for saleID, s := range c.Sales {
		n := liveOf[saleID]
		if !s.AtRest {
			c.broken("I11", "sale %s is not at rest", saleID)
		}
		if n > s.Released || s.Stock < 0 {
			c.broken("I1", "sale %s: %d live orders and stock %d, of %d released", saleID, n, s.Stock, s.Released)
		}
		if s.Stock+n != s.Released {
			c.broken("I4", "sale %s: stock %d and %d live orders are not the %d released", saleID, s.Stock, n, s.Released)
		}
		if s.Gate != s.Stock || s.Held != n {
			c.broken("I4", "sale %s: the gate has %d units and holds %d, the database %d and %d", saleID, s.Gate, s.Held, s.Stock, n)
		}
	}
	for _, s := range c.samples {
		if s.Live > s.Released || s.Stock < 0 {
			c.broken("I1", "sale %s at %s: %d live orders and stock %d, of %d released", s.Sale, s.At.Format(time.StampMilli), s.Live, s.Stock, s.Released)
		}
	}
}

// promises follows every id that was told or named to its row (I3, I6).
func (c *check) promises() {
	for _, id := range slices.Sorted(maps.Keys(c.told)) {
		op := c.told[id]
		row, ok := c.Rows[id]
		shown, asked := c.Shown[id]
		switch {
		case !ok:
			c.Lost++
			c.broken("I6", "order %s was told for %s of user %s and has no row", id, op.RequestID, op.User)
		case row.User != op.User || row.Sale != op.Sale:
			c.broken("I6", "order %s was told to user %s and is user %s's", id, op.User, row.User)
		case asked && shown != row.Status:
			c.broken("I6", "order %s is %s, its owner is shown %q", id, row.Status, shown)
		case row.Status == "failed" && row.Reason == "":
			c.broken("I3", "order %s failed without a reason", id)
		}
	}
	for _, op := range c.ops {
		for _, id := range op.Named {
			if row, ok := c.Rows[id]; !ok || row.User != op.User || row.Sale != op.Sale {
				c.broken("I6", "a refusal of %s named order %s to user %s, whose it is not", op.RequestID, id, op.User)
			}
		}
	}
}

// keys checks that one key means one order (B7). A key whose order failed may get another.
func (c *check) keys() {
	for k, ops := range c.byKey {
		said := ""
		for _, op := range ops {
			if op.Outcome != OK {
				continue
			}
			if said != "" && said != op.OrderID && c.Rows[said].Status != "failed" && c.Rows[op.OrderID].Status != "failed" {
				c.Duplicated++
				c.broken("B7", "%s of user %s means order %s and order %s", k.request, k.user, said, op.OrderID)
			}
			if said == "" || c.Rows[said].Status == "failed" {
				said = op.OrderID
			}
		}
	}
}

// rows looks for orders that should not be (I7, I10).
func (c *check) rows() {
	for _, id := range slices.Sorted(maps.Keys(c.Rows)) {
		row := c.Rows[id]
		if s := c.Sales[row.Sale]; row.AdmittedAt.Before(s.BeginsAt) || !row.AdmittedAt.Before(s.EndsAt) {
			c.broken("I10", "order %s was admitted at %s, outside of the sale's time", id, row.AdmittedAt.UTC().Format(time.RFC3339Nano))
		}
		if row.Status == "failed" {
			continue
		}
		excused := slices.ContainsFunc(c.byKey[key{row.User, row.Sale, row.RequestID}], func(op Op) bool { return op.mayHaveCaused(row) })
		_, told := c.told[id]
		switch {
		case !excused && told:
			c.Ghost++
			c.broken("I7", "order %s was admitted when no request with its key was under way that wasn't refused", id)
		case !excused:
			c.Ghost++
			c.broken("I7", "order %s of user %s is %s, and every request with its key %q was refused", id, row.User, row.Status, row.RequestID)
		case c.askedInVain(row):
			c.Recovered++
		}
	}
}

// mayHaveCaused reports whether the order can be of this request. One that got no answer may reach the gate after its
// client has gone.
func (op *Op) mayHaveCaused(row Row) bool {
	if op.Outcome == Fail || row.AdmittedAt.Before(op.Start.Add(-skew)) {
		return false
	}
	return op.Outcome == Info || op.OrderID == row.ID && !row.AdmittedAt.After(op.End.Add(skew))
}

// askedInVain reports whether the request that made the order got no answer.
func (c *check) askedInVain(row Row) bool {
	return !slices.ContainsFunc(c.byKey[key{row.User, row.Sale, row.RequestID}], func(op Op) bool {
		return op.Outcome == OK && op.mayHaveCaused(row)
	})
}

// seen checks what was seen of each order along the way: a part of its history, in its order (I3, I6).
func (c *check) seen() {
	reached := map[string]int{} // places in the orders' histories
	for _, s := range c.sightings {
		if s.Status == "" {
			c.broken("I6", "order %s was not found at %s by %s", s.OrderID, s.At.Format(time.StampMilli), s.By)
			continue
		}
		row, ok := c.Rows[s.OrderID]
		if !ok {
			continue // lost, which is told elsewhere
		}
		states := c.path(row)
		from := reached[row.ID]
		i := slices.Index(states[from:], s.Status)
		if i < 0 {
			c.broken("I3", "order %s was seen as %s at %s by %s, and was %v from what was seen before on", row.ID, s.Status, s.At.Format(time.StampMilli), s.By, states[from:])
			continue
		}
		reached[row.ID] = from + i
	}
}
