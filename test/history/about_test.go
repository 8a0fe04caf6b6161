package history_test

import (
	"strings"
	"testing"

	"tandian/test/history"
)

// Whoever looks into a violation sees all requests of the buyer, what he was shown, and the row or that there is none.
func TestAbout(t *testing.T) {
	r := honest()
	var h history.History
	for _, op := range r.ops {
		h.Add(op)
	}
	for _, s := range r.sightings {
		h.See(s)
	}
	text := h.About(r.World, "102")
	for _, want := range []string{"order 102 of user bert", "b info", "b ok 102", "row: unpaid", "12:00:00.110"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "anna") || strings.Index(text, "b info") > strings.Index(text, "b ok") {
		t.Errorf("not his, or not in order:\n%s", text)
	}
	delete(r.Rows, "101")
	if text := h.About(r.World, "101"); !strings.Contains(text, "no row") || !strings.Contains(text, `shown "queued"`) || !strings.Contains(text, "sale.limit_reached") {
		t.Errorf("%s", text)
	}
}
