package bench

import (
	"context"
	"time"
)

// drained waits until a sale has the rows of all orders accepted so far, want, and nothing is under way. It returns the
// time from start to the last row, 0 when the sale did not come to rest in time, and the CPU time used when it was at
// rest but had not been asked yet whether it is: the console counts all orders, which no order has to pay for.
func (g *grab) drained(ctx context.Context, sale int, start time.Time, want int64) (written time.Duration, atRest usage) {
	const (
		maxPause   = 100 * time.Millisecond // looking costs CPU time that the server may need
		grace      = 50 * time.Millisecond  // for acknowledging the messages of the last rows and settling the gate
		stallAfter = time.Second            // how long rows may stop coming before we ask why; a healthy writer takes milliseconds
	)
	if g.stalled {
		return 0, usage{}
	}
	ctx, cancel := context.WithTimeout(ctx, g.opts.RestTimeout)
	defer cancel()
	var rows, stuck int64
	defer func() { g.stuck += stuck }()
	count, exact := g.rows, false
	for changed, pause := time.Now(), 2*time.Millisecond; ; pause = min(2*pause, maxPause) {
		n, err := count(ctx, sale)
		switch now := time.Now(); {
		case err != nil: // busy or restarting
		case n >= want && written == 0:
			written = now.Sub(start)
		case n != rows:
			rows, changed = n, now
		case n < want && now.Sub(changed) >= stallAfter && g.db != nil && !exact:
			count, exact = g.count, true // orders that failed, perhaps
		case n < want && now.Sub(changed) >= stallAfter:
			stuck, changed = max(stuck, g.abandoned(ctx, sale, want-n)), now
		}
		if written > 0 && sleep(ctx, grace) == nil {
			atRest = g.usage()
			if s, err := g.state(ctx, g.sales[sale].ID); err == nil && s.AtRest && s.queueEmpty() {
				g.peaks[sale] = max(g.peaks[sale], s.DB.Live)
				return written, atRest
			}
		}
		if sleep(ctx, pause) != nil {
			g.stalled = true
			return 0, usage{}
		}
	}
}

// rows counts a sale's orders, in the database if possible, where those that failed are left out: the console's answer
// would cost the server CPU time that no order has caused.
func (g *grab) rows(ctx context.Context, sale int) (int64, error) {
	if g.db != nil {
		return g.db.taken(ctx, g.sales[sale].ID)
	}
	s, err := g.state(ctx, g.sales[sale].ID)
	return s.DB.Live + s.DB.Failed, err
}

// count counts the rows themselves.
func (g *grab) count(ctx context.Context, sale int) (int64, error) {
	return g.db.written(ctx, g.sales[sale].ID)
}

// abandoned is how many of the missing rows nobody is about to write. After a kill a scan may rightly have to find
// them; then it is none.
func (g *grab) abandoned(ctx context.Context, sale int, missing int64) int64 {
	s, err := g.state(ctx, g.sales[sale].ID)
	if err != nil || !s.queueEmpty() || g.servers.restarts() > 0 {
		return 0
	}
	return missing
}

// rest waits for two equal snapshots at rest, some time apart. The last snapshot is returned in any case.
func (g *grab) rest(ctx context.Context, sale int, timeout time.Duration) (last saleState, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for equal := false; ; {
		s, err := g.state(ctx, g.sales[sale].ID)
		if err == nil {
			if equal && s == last && s.AtRest {
				return s, true
			}
			last, equal = s, s.AtRest
		}
		if sleep(ctx, 300*time.Millisecond) != nil {
			return last, false
		}
	}
}
