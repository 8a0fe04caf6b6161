package flashsale

import (
	"context"
	"fmt"
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
	taken bool // into a call; guarded by combiner.mu
	left  bool // and must not be taken; guarded by combiner.mu
}

// do returns the caller's own part of a call, or ErrNotDone if ctx ends before a call has taken him in. A call is not
// ended by one caller's going away.
func (c *combiner[In, Out]) do(ctx context.Context, in In) (out Out, err error) {
	a := &ask[In, Out]{in: in, done: make(chan struct{}), lead: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, a)
	if c.running < c.places {
		c.running++
		a.leads = true
		close(a.lead)
	}
	c.mu.Unlock()
	for lead, gone := a.lead, ctx.Done(); ; {
		select {
		case <-a.done:
			c.passOn(a)
			return a.out, a.err
		case <-gone:
			if c.leave(a) {
				return out, fmt.Errorf("%w: %w", ErrNotDone, ctx.Err())
			}
			gone = nil
			continue
		case <-lead:
		}
		select {
		case <-a.done: // another's call has served us meanwhile
		default:
			if !c.call(ctx) {
				lead = nil // another's call has taken us, and nobody else waits
				c.passOn(a)
			}
		}
	}
}

// call asks for those who wait, and reports whether there was anybody.
func (c *combiner[In, Out]) call(ctx context.Context) bool {
	batch := c.take()
	if len(batch) == 0 {
		return false
	}
	ins := make([]In, len(batch))
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
	return true
}

// take removes the first who wait, as many as a call may have.
func (c *combiner[In, Out]) take() (batch []*ask[In, Out]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.waiting) > 0 && len(batch) < c.most {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		if !next.left {
			next.taken = true
			batch = append(batch, next)
		}
	}
	return batch
}

// leave has a caller not be taken in any more, and reports false if he has been already.
func (c *combiner[In, Out]) leave(a *ask[In, Out]) bool {
	c.mu.Lock()
	if a.taken {
		c.mu.Unlock()
		return false
	}
	a.left = true
	c.mu.Unlock()
	c.passOn(a)
	return true
}

// passOn gives the caller's place, if he has one, to the first who waits and has none, or frees it.
func (c *combiner[In, Out]) passOn(a *ask[In, Out]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !a.leads {
		return
	}
	a.leads = false
	for _, next := range c.waiting {
		if !next.leads && !next.left {
			next.leads = true
			close(next.lead)
			return
		}
	}
	c.running--
}
