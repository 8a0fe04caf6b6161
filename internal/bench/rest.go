package bench

import (
	"context"
	"time"
)

// stallAfter is how long rows may stop coming before bench asks why. A healthy
// writer takes milliseconds.
const stallAfter = time.Second

// progress notices that a count has stopped growing.
type progress struct {
	count int64
	since time.Time
}

// stalled is true once per stallAfter without change.
func (p *progress) stalled(count int64, now time.Time) bool {
	if count != p.count || p.since.IsZero() {
		p.count, p.since = count, now
		return false
	}
	if now.Sub(p.since) < stallAfter {
		return false
	}
	p.since = now
	return true
}

// drained waits for the rows of all orders accepted so far.
func (g *grab) drained(ctx context.Context, start time.Time, load time.Duration) (written, drain time.Duration) {
	if g.stalled {
		return 0, 0
	}
	written, ok := g.awaitWritten(ctx, start, g.accepted.Load())
	g.stalled = !ok
	return written, max(written-load, 0)
}

// awaitWritten waits until the main sale has n rows and nothing is under way. It
// returns how long the rows took since start, and false when the sale did not
// come to rest in time.
func (g *grab) awaitWritten(ctx context.Context, start time.Time, n int64) (took time.Duration, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.RestTimeout)
	defer cancel()
	saleID := g.sales[mainSale].id
	var rows progress
	var stuck int64
	defer func() { g.stuck += stuck }()
	// Rows are counted in the file as long as possible: the console's answer
	// would cost the server CPU time that no order has caused.
	for g.db != nil {
		count, err := g.db.written(ctx, saleID)
		if err == nil && count >= n {
			took = time.Since(start)
			break
		}
		if err == nil && rows.stalled(count, time.Now()) {
			if s, err := g.state(ctx, saleID); err == nil {
				stuck = max(stuck, g.withoutMessage(s, n-count))
			}
		}
		if sleep(ctx, 10*time.Millisecond) != nil {
			return time.Since(start), false
		}
	}
	for {
		if s, err := g.state(ctx, saleID); err == nil {
			g.peaks[mainSale] = max(g.peaks[mainSale], s.DB.Live)
			count := s.DB.Live + s.DB.Failed
			if took == 0 && count >= n {
				took = time.Since(start)
			}
			if took == 0 && rows.stalled(count, time.Now()) {
				stuck = max(stuck, g.withoutMessage(s, n-count))
			}
			if took > 0 && s.AtRest && s.Queue.Ready+s.Queue.Unacked == 0 {
				return took, true
			}
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return time.Since(start), false
		}
	}
}

// withoutMessage is how many of the missing rows nobody is about to write. After
// a kill a scan may rightly have to find them; then it is none.
func (g *grab) withoutMessage(s saleState, missing int64) int64 {
	if s.Queue.Ready+s.Queue.Unacked > 0 || g.restarts() > 0 {
		return 0
	}
	return missing
}

// rest waits for two equal snapshots at rest, half a second apart. The last
// snapshot is returned in any case.
func (r *run) rest(ctx context.Context, saleID string, timeout time.Duration) (last saleState, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for equal := false; ; {
		s, err := r.state(ctx, saleID)
		if err == nil {
			if equal && s == last && s.AtRest {
				return s, true
			}
			last, equal = s, s.AtRest
		}
		if sleep(ctx, 500*time.Millisecond) != nil {
			return last, false
		}
	}
}
