package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const clock = "15:04:05.000"

// About tells all that is on record of an order, a line each in the order of time: the requests of its buyer in this
// sale and those about the order, its moves, what its owner was shown, its money and its row.
func (h *History) About(w World, orderID string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	row, found := w.Rows[orderID]
	user := row.User
	for _, op := range h.ops {
		if op.OrderID == orderID || slices.Contains(op.Named, orderID) {
			user = op.User
		}
	}
	type line struct {
		at   int64
		text string
	}
	var lines []line
	for _, op := range h.ops {
		if op.User != user {
			continue
		}
		text := fmt.Sprintf("%s–%s %s %s %s", op.Start.UTC().Format(clock), op.End.UTC().Format(clock), op.RequestID, op.Outcome, op.OrderID+op.Code)
		if len(op.Named) > 0 {
			text += fmt.Sprint(" naming ", op.Named)
		}
		lines = append(lines, line{op.End.UnixNano(), text})
	}
	for _, a := range h.acts {
		if a.OrderID == orderID {
			lines = append(lines, line{a.End.UnixNano(), fmt.Sprintf("%s–%s %s %s %s %s", a.Start.UTC().Format(clock), a.End.UTC().Format(clock), a.Kind, a.PaymentID, a.Outcome, a.Status+a.Code)})
		}
	}
	for _, m := range w.Moves[orderID] {
		lines = append(lines, line{m.At.UnixNano(), fmt.Sprintf("%s moved from %s to %s %s by %q", m.At.UTC().Format(clock), m.From, m.To, m.Reason, m.By)})
	}
	for _, s := range h.sightings {
		if s.OrderID == orderID {
			lines = append(lines, line{s.At.UnixNano(), fmt.Sprintf("%s shown %q", s.At.UTC().Format(clock), s.Status)})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return int(a.at - b.at) })
	var b strings.Builder
	fmt.Fprintf(&b, "  order %s of user %s:\n", orderID, user)
	for _, l := range lines {
		fmt.Fprintf(&b, "    %s\n", l.text)
	}
	for _, id := range slices.Sorted(maps.Keys(w.Payments)) {
		if p := w.Payments[id]; p.OrderID == orderID {
			fmt.Fprintf(&b, "    payment %s of %d: captured %v, paid %s; at the provider %+v; refunds", id, p.Amount, p.Captured, p.PaidAt.UTC().Format(clock), w.Trades[id])
			for _, r := range w.Paybacks {
				if r.PaymentID == id {
					fmt.Fprintf(&b, " %+v", r)
				}
			}
			b.WriteString("\n")
		}
	}
	if found {
		fmt.Fprintf(&b, "    row: %s %s, key %s, admitted %s, to be paid before %s\n", row.Status, row.Reason, row.RequestID, row.AdmittedAt.UTC().Format(clock), row.PayBefore.UTC().Format(clock))
	} else {
		b.WriteString("    no row\n")
	}
	return b.String()
}
