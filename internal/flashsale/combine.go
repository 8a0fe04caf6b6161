package flashsale

import (
	"context"
	"sync"
)

// combiner lets concurrent callers share one costly call: whoever finds a place free makes the call for all who wait,
// and hands his place to the next of those who came meanwhile.
type combiner[In, Out any] struct {
	run    func(ctx context.Context, batch []In) ([]Out, error) // one Out for each In
	most   int                                                  // inputs a call
	places int                                                  // calls side by side

	mu      sync.Mutex
	waiting []*ask[In, Out] // guarded by mu
	running int             // guarded by mu
}

type ask[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{} // closed when out or err is there
	lead chan struct{} // closed when this caller has a place

	leads bool // guarded by combiner.mu
}

// do returns the caller's own part of a call. The call is not ended by one caller's going away.
func (c *combiner[In, Out]) do(ctx context.Context, in In) (Out, error) {
	a := &ask[In, Out]{in: in, done: make(chan struct{}), lead: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, a)
	if c.running < c.places {
		c.running++
		a.leads = true
		close(a.lead)
	}
	c.mu.Unlock()
	for {
		select {
		case <-a.done:
			c.passOn(a)
			return a.out, a.err
		case <-a.lead:
		}
		select {
		case <-a.done: // another's call has served us meanwhile
		default:
			c.call(ctx)
		}
	}
}

func (c *combiner[In, Out]) call(ctx context.Context) {
	c.mu.Lock()
	n := min(len(c.waiting), c.most)
	batch := c.waiting[:n:n]
	c.waiting = c.waiting[n:]
	c.mu.Unlock()
	ins := make([]In, n)
	for i, a := range batch {
		ins[i] = a.in
	}
	outs, err := c.run(context.WithoutCancel(ctx), ins)
	for i, a := range batch {
		if a.err = err; err == nil {
			a.out = outs[i]
		}
		close(a.done)
	}
}

// passOn gives the caller's place, if he has one, to the first who waits and has none, or frees it.
func (c *combiner[In, Out]) passOn(a *ask[In, Out]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !a.leads {
		return
	}
	for _, next := range c.waiting {
		if !next.leads {
			next.leads = true
			close(next.lead)
			return
		}
	}
	c.running--
}
