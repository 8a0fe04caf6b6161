package flashsale

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"tandian/internal/kit/id"
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

// Whoever goes away before his turn is not asked for, and whoever leads hands his place on.
func TestCombinerForgetsWhoHasLeft(t *testing.T) {
	entered, release := make(chan []int), make(chan struct{})
	c := &combiner[int, int]{most: 2, places: 1, run: func(_ context.Context, batch []int) ([]int, error) {
		entered <- batch
		<-release
		return batch, nil
	}}
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = c.do(t.Context(), 1) })
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { _, err := c.do(ctx, 2); left <- err }()
	cancel()
	if err := <-left; !errors.Is(err, ErrNotDone) || !errors.Is(err, context.Canceled) {
		t.Fatalf("he was never asked for, and is told %v", err)
	}
	wg.Go(func() {
		if got, err := c.do(t.Context(), 3); got != 3 || err != nil {
			t.Error(got, err)
		}
	})
	release <- struct{}{}
	if batch := <-entered; len(batch) != 1 || batch[0] != 3 {
		t.Errorf("asked for %v", batch)
	}
	release <- struct{}{}
	wg.Wait()
	if c.running != 0 || len(c.waiting) != 0 {
		t.Fatalf("%d places taken, %d waiting at rest", c.running, len(c.waiting))
	}
}

// F68: buyers don't wait without end before a server that gives no answers.
func TestTurnIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		silent := &combiner[Request, Verdict]{most: 1, places: 1, run: func(context.Context, []Request) ([]Verdict, error) {
			<-over
			return []Verdict{{Result: SoldOut}}, nil
		}}
		g := &RedisGate{sales: map[id.ID]*combiner[Request, Verdict]{42: silent}}
		var wg sync.WaitGroup
		wg.Go(func() {
			if v, err := g.Admit(t.Context(), 42, Request{UserID: 1}); v.Result != SoldOut || err != nil {
				t.Error(v, err)
			}
		})
		synctest.Wait()
		if _, err := g.Admit(t.Context(), 42, Request{UserID: 2}); !errors.Is(err, ErrNotDone) {
			t.Error(err)
		}
		close(over)
		wg.Wait()
	})
}
