package flashsale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/order"
)

// Sweeper sends pending reservations again whose message may have been lost. It cancels nothing: a reservation whose
// hand-over was refused has been ended by its tombstone already.
type Sweeper struct {
	*Service
	next map[id.ID]resend
}

type resend struct {
	at    time.Time
	pause time.Duration
}

// NewSweeper returns a sweeper; one per process, its Turn called by one goroutine.
func NewSweeper(s *Service) *Sweeper { return &Sweeper{Service: s, next: map[id.ID]resend{}} }

const (
	sweepBatch   = 500
	longestPause = 5 * time.Minute
)

// Turn looks over all loaded sales once.
func (s *Sweeper) Turn(ctx context.Context) error {
	now := s.Now()
	depth, err := s.Broker.Depth(ctx, order.TopicCreate)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	if depth.Oldest >= s.SweepAfter {
		return nil // the backlog explains the age: the writers are behind, nothing is lost
	}
	sales, err := s.Gate.Loaded(ctx)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	var failed error
	seen := map[id.ID]resend{}
	for _, saleID := range sales {
		pending, err := s.Gate.Pending(ctx, saleID, now.Add(-s.SweepAfter), sweepBatch)
		failed = errors.Join(failed, err)
		for _, r := range pending {
			seen[r.OrderID] = s.again(ctx, r, now)
		}
	}
	s.next = seen // what is no longer pending is forgotten
	return failed
}

// again sends a reservation unless its pause is still running, and returns when the next time is.
func (s *Sweeper) again(ctx context.Context, r order.Reservation, now time.Time) resend {
	n, ok := s.next[r.OrderID]
	if ok && now.Before(n.at) {
		return n
	}
	pause := s.SweepAfter
	if ok {
		pause = min(2*n.pause, longestPause)
	}
	s.Metrics.resent.Inc()
	s.Log.InfoContext(ctx, "reservation sent again", "order", r.OrderID, "sale", r.SaleID, "age", now.Sub(time.UnixMilli(r.AdmittedAt)))
	if _, err := s.handOver(ctx, r); err != nil {
		s.Log.WarnContext(ctx, "reservation still without a certain place", "order", r.OrderID, "err", err)
	}
	return resend{at: now.Add(pause), pause: pause}
}
