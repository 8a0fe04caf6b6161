package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandian/test/history"
)

// metric reads a counter or gauge without labels from the admin listener.
func (s *server) metric(t *testing.T, name string) float64 {
	t.Helper()
	admin := &server{URL: s.AdminURL, log: s.log}
	for line := range strings.Lines(admin.must(t, 200, "GET", "/metrics", "", "").Text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// B9, F35, F62, S14: of two instances one after the other is told to stop, drains, and is replaced, again and again while
// they sell. Each ends by itself and in time, no request that one of them has taken goes without its answer, nothing is
// lost and nothing is there twice.
func TestRollingRestart(t *testing.T) {
	const rounds, users, stock = 4, 1000, 700
	const drain = 15 * time.Second
	w := production(t)
	var serving [2]atomic.Pointer[server]
	flags := []string{"--shutdown-timeout", drain.String(), "--drain-delay", "200ms"} // the balancer here takes no longer to notice
	for i, s := range w.pair(t, flags...) {
		serving[i].Store(s)
	}
	first := serving[0].Load()
	c := gather(t, first, first.newSale(t, first.signIn(t, operatorPhone), stock, 1), users)
	c.sample(w.db)
	c.watchGate(serving[0].Load)
	r := c.rush(serving[0].Load, serving[1].Load)
	for round := range rounds {
		r.pass(users / (rounds + 1))
		old := serving[round%2].Load()
		serving[round%2].Store(serving[1-round%2].Load()) // the balancer takes it out before it is stopped
		began := time.Now()
		if err := old.stop(t); err != nil {
			t.Errorf("round %d: ended with %v\n%s", round, err, old.log)
		}
		if took := time.Since(began); took > drain {
			t.Errorf("round %d: drained in %v", round, took)
		}
		serving[round%2].Store(w.launch(t, binary(t, ""), nil, flags...))
	}
	r.wait()
	report := c.mustHold(w.db, afterAnInstance, serving[0].Load(), serving[1].Load())
	if len(c.Told()) != stock || report.Info > 0 {
		t.Errorf("%d orders of %d units, %d requests without an answer: %v", len(c.Told()), stock, report.Info, unanswered(c.Ops()))
	}
}

// unanswered describes the requests that got no answer.
func unanswered(ops []history.Op) (some []string) {
	for _, op := range ops {
		if op.Outcome == history.Info {
			some = append(some, fmt.Sprintf("%s after %v: %q", op.RequestID, op.End.Sub(op.Start), op.Code))
		}
	}
	return some
}
