package flashsale

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/order"
)

// Sweeper looks after the loaded sales: it sends pending reservations again whose message may have been lost, and
// unloads sales that are over. It cancels nothing: a reservation whose hand-over was refused has been ended by its
// tombstone, and one that the writer can't write is a dead letter and a person's.
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
	unloadAfter  = time.Hour // past a sale's end
)

// Turn looks over all loaded sales once.
func (s *Sweeper) Turn(ctx context.Context) error {
	now := s.Now()
	depth, err := s.Broker.Depth(ctx, order.TopicCreate)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	sales, err := s.Gate.Loaded(ctx)
	if err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	var failed error
	seen := map[id.ID]resend{}
	for _, saleID := range sales {
		if ctx.Err() != nil {
			return nil
		}
		// A backlog as old as the reservation explains its age: the writers are behind, nothing is lost.
		if depth.Oldest < s.SweepAfter {
			failed = errors.Join(failed, s.sendAgain(ctx, saleID, now, seen))
		}
		failed = errors.Join(failed, s.unloadIfOver(ctx, saleID, now))
	}
	s.next = seen // what is no longer pending is forgotten
	return failed
}

// sendAgain publishes the sale's old pending reservations, each in a message of its own, and notes in seen when the
// next time is. The outcome doesn't matter: what is not written stays pending.
func (s *Sweeper) sendAgain(ctx context.Context, saleID id.ID, now time.Time, seen map[id.ID]resend) error {
	pending, err := s.Gate.Pending(ctx, saleID, now.Add(-s.SweepAfter), sweepBatch)
	if err != nil || len(pending) == 0 {
		return err
	}
	dead, err := order.DeadLettered(ctx, s.DB.Read, pending)
	if err != nil {
		return err
	}
	var failed error
	for _, r := range pending {
		if dead[r.OrderID] || ctx.Err() != nil {
			continue
		}
		last, ok := s.next[r.OrderID]
		if ok && now.Before(last.at) {
			seen[r.OrderID] = last
			continue
		}
		pause := s.SweepAfter
		if ok {
			pause = min(2*last.pause, longestPause)
		}
		seen[r.OrderID] = resend{at: now.Add(pause), pause: pause}
		s.Metrics.resent.Inc()
		s.Log.InfoContext(ctx, "reservation sent again", "order", r.OrderID, "sale", r.SaleID, "age", now.Sub(time.UnixMilli(r.AdmittedAt)).String())
		failed = errors.Join(failed, order.PublishOne(ctx, s.Broker, r))
	}
	return failed
}

// unloadIfOver forgets the gate of a sale that ended long ago and has nothing on its way. Whoever needs it loads it.
func (s *Sweeper) unloadIfOver(ctx context.Context, saleID id.ID, now time.Time) error {
	st, err := s.Gate.Standing(ctx, saleID)
	if err != nil || !st.Loaded || st.Pending > 0 || now.Before(st.Terms.EndsAt.Add(unloadAfter)) {
		return err
	}
	return s.Gate.Unload(ctx, saleID)
}
