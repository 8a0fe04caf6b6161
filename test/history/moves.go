package history

import (
	"maps"
	"slices"
	"time"
)

// next are the legal moves of an order.
var next = map[string][]string{
	"queued":    {"unpaid", "failed"},
	"unpaid":    {"paid", "closed"},
	"paid":      {"used", "refunding"},
	"used":      {"paid"}, // a redemption taken back
	"refunding": {"refunded"},
}

// Reasons of moves that somebody's request has caused.
const (
	byTimeout = "timeout"
	byBuyer   = "buyer"
)

// closesWithin is how long after its deadline an unpaid order may live (B6), apart from times of trouble.
const closesWithin = 30 * time.Second

// path is all states that an order has had.
func (c *check) path(row Row) []string {
	first := "unpaid"
	if row.Status == "failed" {
		first = row.Status
	}
	states := []string{"queued", first}
	for _, m := range c.Moves[row.ID] {
		states = append(states, m.To)
	}
	return states
}

// moved checks the whole history of each order: every move is legal, begins where the one before it ended and was caused
// by somebody who asked for it (I3); deadlines are kept (I10, B6).
func (c *check) moved() {
	acts := map[string][]Act{}
	for _, a := range c.acts {
		acts[a.OrderID] = append(acts[a.OrderID], a)
	}
	for _, id := range slices.Sorted(maps.Keys(c.Rows)) {
		row := c.Rows[id]
		states := c.path(row)
		at := states[1]
		for _, m := range c.Moves[id] {
			if m.From != at || !slices.Contains(next[at], m.To) {
				c.broken("I3", "order %s was %s and its next move leads from %s to %s", id, at, m.From, m.To)
			}
			at = m.To
			c.inTime(row, m)
			if !caused(row, m, acts[id]) {
				c.broken("I3", "order %s went from %s to %s (%s) at %s, and nobody had asked for it", id, m.From, m.To, m.Reason, m.At.UTC().Format(clock))
			}
		}
		if at != row.Status {
			c.broken("I3", "order %s is %s, and its history ends with %s", id, row.Status, at)
		}
		if row.Status == "unpaid" && c.late(row, c.At) {
			c.broken("B6", "order %s is still unpaid %v after its deadline", id, c.At.Sub(row.PayBefore))
		}
		c.toldOf(row, states, acts[id])
	}
}

// inTime checks that the deadline alone has closed an order, and not too late.
func (c *check) inTime(row Row, m Move) {
	if m.To != "closed" || m.Reason != byTimeout {
		return
	}
	if m.At.Before(row.PayBefore) {
		c.broken("I10", "order %s was closed %v before its deadline", row.ID, row.PayBefore.Sub(m.At))
	}
	if c.late(row, m.At) {
		c.broken("B6", "order %s was closed %v after its deadline", row.ID, m.At.Sub(row.PayBefore))
	}
}

// late reports whether an instant lies too long after an order's deadline. What passed while something was broken
// doesn't count.
func (c *check) late(row Row, at time.Time) bool {
	allowed := closesWithin
	from := row.PayBefore
	troubles := slices.SortedFunc(slices.Values(c.Troubles), func(a, b Trouble) int { return a.From.Compare(b.From) })
	for _, t := range troubles {
		if t.From.After(from) {
			from = t.From
		}
		to := t.To
		if to.After(at) {
			to = at
		}
		if to.After(from) {
			allowed += to.Sub(from)
			from = to
		}
	}
	return at.Sub(row.PayBefore) > allowed
}

// caused reports whether a move is the program's own affair or follows a request that may have led to it. One that got
// no answer may reach the server after its client has gone.
func caused(row Row, m Move, acts []Act) bool {
	kinds := map[string]Kind{"closed": Close, "refunding": Refund, "used": Redeem, "paid": Pay}
	kind := kinds[m.To]
	switch {
	case m.To == "closed" && m.Reason == byTimeout, m.To == "refunded":
		return true
	case (m.To == "closed" || m.To == "refunding") && (m.Reason != byBuyer || m.By != row.User):
		return false
	case m.From == "used":
		kind = Undo
	}
	return slices.ContainsFunc(acts, func(a Act) bool { return a.Kind == kind && a.Outcome != Fail && !m.At.Before(a.Start.Add(-skew)) })
}

// toldOf checks that what was told of an order is part of its history for ever (I3), and that each redemption that was
// told is a move of its own: a code is used up once at a time.
func (c *check) toldOf(row Row, states []string, acts []Act) {
	uses := map[int]bool{} // moves that a redemption has been matched with
	moves := c.Moves[row.ID]
	for _, a := range acts {
		if a.Outcome != OK {
			continue
		}
		switch a.Kind {
		case Begin:
			if p, ok := c.Payments[a.PaymentID]; !ok || p.OrderID != row.ID {
				c.broken("I6", "payment %s was told to the buyer of order %s and is order %q's", a.PaymentID, row.ID, p.OrderID)
			}
			continue
		case Pay:
			if money := a.Status == "paid" || a.Status == "onItsWay"; money && !c.Trades[a.PaymentID].Paid {
				c.broken("I5", "the cashier said %s of payment %s of order %s, and there is no money", a.Status, a.PaymentID, row.ID)
			}
			continue
		case Notify:
			continue
		}
		want := map[Kind]string{Close: "closed", Refund: "refunding", Redeem: "used", Undo: "paid"}[a.Kind]
		match := func(m Move) bool {
			return m.To == want && (a.Kind != Undo || m.From == "used") && !m.At.After(a.End.Add(skew))
		}
		i := slices.IndexFunc(moves, match)
		if a.Kind == Redeem {
			i = -1
			for k, m := range moves {
				if i < 0 && !uses[k] && match(m) && !m.At.Before(a.Start.Add(-skew)) {
					i, uses[k] = k, true
				}
			}
		}
		if i < 0 {
			c.broken("I3", "order %s: %s was told to be done between %s and %s, and no such move is left in its history", row.ID, a.Kind, a.Start.UTC().Format(clock), a.End.UTC().Format(clock))
		}
		if !slices.Contains(states, a.Status) {
			c.broken("I3", "order %s was told to be %q after %s, and never was", row.ID, a.Status, a.Kind)
		}
	}
}

// acted looks at the answers that need no order: a callback is never refused, and what was told has an order.
func (c *check) acted() {
	for _, a := range c.acts {
		c.Acted++
		if a.Kind == Notify && a.Outcome == Fail {
			c.broken("I5", "a callback of payment %s of order %s was refused: %s", a.PaymentID, a.OrderID, a.Code)
		}
	}
	for _, row := range c.Rows {
		c.Ends[row.Status]++
	}
}

// releases checks that a unit goes back once, and only as the consequence of an end (I8).
func (c *check) releases() {
	const waits, gone = 1, 2
	seen := map[string]int{}
	for _, s := range c.samples {
		now := map[string]bool{}
		for _, id := range s.Releases {
			now[id] = true
			if seen[id] == gone {
				c.broken("I8", "the unit of order %s went back, and at %s it was to go back once more", id, s.At.Format(time.StampMilli))
			}
			seen[id] = waits
		}
		for id, state := range seen {
			if row, ok := c.Rows[id]; ok && row.Sale == s.Sale && state == waits && !now[id] {
				seen[id] = gone
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		if row, ok := c.Rows[id]; !ok || live(row.Status) {
			c.broken("I8", "the unit of order %s went back, and it is %q", id, row.Status)
		}
	}
}
