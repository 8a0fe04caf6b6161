package e2e

import (
	"fmt"
	"testing"
	"time"
)

// Check the checker: what the tests of this package conclude from is worth something only if it sees each fault that is
// switched on in the product itself.
func TestTheRecordShowsEachSeededFault(t *testing.T) {
	once := func(c *crowd, s *server) {
		each(len(c.buyers), func(i int) { c.insist(c.buyers[i], func(int) *server { return s }) })
	}
	twice := func(c *crowd, s *server) {
		once(c, s)
		for _, b := range c.buyers {
			again := *b
			again.key = "another-wish"
			c.ask(s, &again)
		}
	}
	late := func(c *crowd, s *server) {
		ends := time.Now().Truncate(time.Millisecond)
		s.must(c.t, 200, "PATCH", "/api/v1/sales/"+c.sale, s.operator(), fmt.Sprintf(`{"endsAt":%q}`, ends.Format(time.RFC3339Nano)))
		once(c, s)
	}
	for _, tc := range []struct {
		fault, invariant string
		act              func(*crowd, *server)
	}{
		{"none", "", twice},
		{"skip_unique", "I2", twice},
		{"ack_before_commit", "I6", once},
		{"release_twice,fail_some", "I4", once},
		{"ignore_end", "I10", late},
		{"accept_without_queue", "I6", once},
	} {
		t.Run(tc.fault, func(t *testing.T) {
			dir := t.TempDir()
			s := startWith(t, []string{"FAILPOINT=" + tc.fault}, binary(t, "fault"), dir, "--demo", "--writer-batch", "3")
			const users, stock = 60, 100
			c := gather(t, s, s.newSale(t, s.operator(), stock, 1), users)
			tc.act(c, s)
			r := c.judge(openSQLite(t, dir), 2*time.Second, s)
			if (len(r.Violations) > 0) != (tc.invariant != "") || tc.invariant != "" && !r.Broken(tc.invariant) {
				t.Fatalf("want %q: %v", tc.invariant, r)
			}
			if tc.invariant == "I6" && r.Lost == 0 {
				t.Errorf("an order that was told is nowhere: %v", r)
			}
			t.Log(r)
		})
	}
}
