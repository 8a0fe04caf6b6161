package e2e

import (
	"testing"

	"tandian/test/history"
)

// F21, F22, F23: the instance that writes dies in the middle of its transaction, before the commit, or after the commit
// and before the ack. Another one gets the same messages again: each order is there once, and cost one unit.
func TestWriterKilled(t *testing.T) {
	const users, stock = 60, 100
	w := production(t)
	entry := w.launch(t, binary(t, ""), nil, "--writers", "0", "--sweep-after", "1h") // nothing is sent again: redelivery alone must do
	operator := entry.signIn(t, operatorPhone)
	for _, place := range []string{"before_stock", "before_commit", "after_commit"} {
		t.Run(place, func(t *testing.T) {
			c := gather(t, entry, entry.newSale(t, operator, stock, 1), users)
			dies := w.launch(t, binary(t, "fault"), []string{"FAILPOINT=" + place + ":kill"}, "--sweep-after", "1h")
			each(users, func(i int) {
				if op := c.insist(c.buyers[i], func(int) *server { return entry }); op.Outcome != history.OK {
					t.Errorf("%+v", op)
				}
			})
			<-dies.ended
			takesOver := w.launch(t, binary(t, ""), nil, "--sweep-after", "1h")
			c.mustHold(w.db, afterAnInstance, entry, takesOver)
			if n := len(c.Told()); n != users {
				t.Errorf("%d orders of %d buyers", n, users)
			}
			if err := takesOver.stop(t); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
}
