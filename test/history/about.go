package history

import (
	"fmt"
	"slices"
	"strings"
)

// About tells all that is on record of an order, a line each in the order of time: the requests of its buyer in this
// sale, what its owner was shown, and its row.
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
	const clock = "15:04:05.000"
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
	if found {
		fmt.Fprintf(&b, "    row: %s %s, key %s, admitted %s\n", row.Status, row.Reason, row.RequestID, row.AdmittedAt.UTC().Format(clock))
	} else {
		b.WriteString("    no row\n")
	}
	return b.String()
}
