package flashsale

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// Everybody gets his own answer, calls are shared, and never more run side by side than there are places.
func TestCombiner(t *testing.T) {
	var calls, side, most atomic.Int64
	c := &combiner[int, int]{most: 8, places: 2, run: func(_ context.Context, batch []int) ([]int, error) {
		calls.Add(1)
		most.Store(max(most.Load(), side.Add(1)))
		defer side.Add(-1)
		if len(batch) > 8 {
			t.Errorf("batch of %d", len(batch))
		}
		outs := make([]int, len(batch))
		for i, n := range batch {
			outs[i] = n * n
			if n == 13 {
				return nil, errors.New("unlucky")
			}
		}
		return outs, nil
	}}
	var wg sync.WaitGroup
	var failed atomic.Int64
	for n := range 5000 {
		wg.Go(func() {
			got, err := c.do(t.Context(), n)
			if err != nil {
				failed.Add(1)
			} else if got != n*n {
				t.Errorf("%d got %d", n, got)
			}
		})
	}
	wg.Wait()
	if most.Load() > 2 || failed.Load() < 1 || failed.Load() > 8 || calls.Load() < 5000/8 {
		t.Fatalf("%d at once, %d failed, %d calls", most.Load(), failed.Load(), calls.Load())
	}
	if c.running != 0 || len(c.waiting) != 0 {
		t.Fatalf("%d places taken, %d waiting at rest", c.running, len(c.waiting))
	}
}
