package flashsale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// Sweeper looks after the gates: it loads those of open sales that are lost, tells them what they have missed, sends
// pending reservations again whose message may have been lost, and unloads sales that are over. It cancels nothing: a
// reservation whose hand-over was refused has been ended by its tombstone, and one that the writer can't write is a dead
// letter and a person's.
type Sweeper struct {
	*Service
	next      map[id.ID]resend
	withdrawn map[id.ID]withdrawal // by sale
}

type resend struct {
	at    time.Time
	pause time.Duration
}

// withdrawal is what a gate said was withdrawn, and since when it has said so.
type withdrawal struct {
	units int64
	since time.Time
}

// NewSweeper returns a sweeper; one per process, its Turn called by one goroutine.
func NewSweeper(s *Service) *Sweeper {
	return &Sweeper{Service: s, next: map[id.ID]resend{}, withdrawn: map[id.ID]withdrawal{}}
}

const (
	sweepBatch   = 500
	longestPause = 5 * time.Minute
	unloadAfter  = time.Hour // past a sale's end
)

// Turn looks over all open and all loaded sales once.
func (s *Sweeper) Turn(ctx context.Context) error {
	now := s.Now()
	sales, failed := s.upkeep(ctx, now)
	depth, err := s.Broker.Depth(ctx, order.TopicCreate)
	// A backlog as old as the reservation explains its age: the writers are behind, nothing is lost.
	if err != nil || depth.Oldest >= s.SweepAfter {
		return errors.Join(failed, err)
	}
	seen := map[id.ID]resend{}
	for _, saleID := range sales {
		if ctx.Err() != nil {
			return nil
		}
		failed = errors.Join(failed, s.sendAgain(ctx, saleID, now, seen))
	}
	s.next = seen // what is no longer pending is forgotten
	return failed
}

// upkeep brings every gate into the state that SQL asks for, and returns the loaded ones.
func (s *Sweeper) upkeep(ctx context.Context, now time.Time) (loaded []id.ID, failed error) {
	known, err := s.Gate.Loaded(ctx)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	offers, err := s.offers(ctx, known)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	sales := slices.AppendSeq(known, maps.Keys(offers)) // the row of a known one may be gone
	slices.Sort(sales)
	sales = slices.Compact(sales)
	standings, err := s.Gate.Standings(ctx, sales)
	if err != nil {
		return nil, fmt.Errorf("sweep: %w", err)
	}
	for i, saleID := range sales {
		if ctx.Err() != nil {
			return nil, failed
		}
		if standings[i].Loaded {
			loaded = append(loaded, saleID)
		}
		failed = errors.Join(failed, s.adjust(ctx, saleID, offers[saleID], standings[i], now))
	}
	return loaded, failed
}

// sendAgain publishes the sale's old pending reservations that are due, each in a message of its own, and notes in seen
// when the next time is. The outcome doesn't matter: what is not written stays pending.
func (s *Sweeper) sendAgain(ctx context.Context, saleID id.ID, now time.Time, seen map[id.ID]resend) error {
	due, failed := s.due(ctx, saleID, now, seen)
	for _, r := range due {
		if ctx.Err() != nil {
			break
		}
		pause := s.SweepAfter
		if last, ok := s.next[r.OrderID]; ok {
			pause = min(2*last.pause, longestPause)
		}
		seen[r.OrderID] = resend{at: now.Add(pause), pause: pause}
		s.Metrics.resent.Inc()
		s.Log.InfoContext(ctx, "reservation sent again", "order", r.OrderID, "sale", r.SaleID, "age", now.Sub(time.UnixMilli(r.AdmittedAt)).String())
		failed = errors.Join(failed, order.PublishOne(ctx, s.Broker, r))
	}
	return failed
}

// due returns the oldest pending reservations that are to be sent again now, and notes in seen those whose pause is
// running. However many of these there are, and of dead letters, what is younger is found behind them.
func (s *Sweeper) due(ctx context.Context, saleID id.ID, now time.Time, seen map[id.ID]resend) (due []order.Reservation, err error) {
	for looked, limit := 0, sweepBatch; ; looked, limit = limit, 2*limit {
		pending, err := s.Gate.Pending(ctx, saleID, now.Add(-s.SweepAfter), limit)
		if err != nil {
			return nil, err
		}
		for some := range slices.Chunk(pending[min(looked, len(pending)):], sweepBatch) {
			dead, err := order.DeadLettered(ctx, s.DB.Read, some)
			if err != nil {
				return nil, err
			}
			for _, r := range some {
				switch last, ok := s.next[r.OrderID]; {
				case dead[r.OrderID]: // a person's
				case ok && now.Before(last.at):
					seen[r.OrderID] = last
				default:
					due = append(due, r)
				}
			}
			if len(due) >= sweepBatch {
				return due[:sweepBatch], nil
			}
		}
		if len(due) > 0 || len(pending) < limit {
			return due, nil
		}
	}
}

// adjust brings one gate into the state that SQL asks for. offer is nil if the sale's row is gone.
func (s *Sweeper) adjust(ctx context.Context, saleID id.ID, offer *voucher.Offer, st Standing, now time.Time) error {
	if offer == nil && !st.Loaded || offer != nil && !st.current(offer.Epoch) {
		return s.reopen(ctx, saleID, offer, now)
	}
	err := s.returnForgotten(ctx, saleID, st.Withdrawn, now)
	if offer != nil && st.Terms.Version < offer.Version { // whoever changed the row didn't get through to the gate
		err = errors.Join(err, s.Gate.Change(ctx, s.terms(offer)))
	} else if st.Pending == 0 && !now.Before(st.Terms.EndsAt.Add(unloadAfter)) {
		err = errors.Join(err, s.Gate.Unload(ctx, saleID)) // whoever needs it loads it
	}
	return err
}

// reopen loads a lost gate. Of a sale that is over, only what still waits for its row is a reason to.
func (s *Sweeper) reopen(ctx context.Context, saleID id.ID, offer *voucher.Offer, now time.Time) error {
	if offer == nil || !now.Before(store.Time(offer.EndsAt).Add(openFor)) {
		remains, err := s.Gate.Salvage(ctx, saleID)
		if err != nil {
			return err
		}
		if len(remains) == 0 {
			return s.Gate.Unload(ctx, saleID)
		}
	}
	err := s.load(ctx, saleID)
	if errors.Is(err, voucher.ErrSaleNotFound) {
		return nil
	}
	return err
}

// returnForgotten puts units back that somebody has withdrawn for a change and can't have in his hands any more: the
// process has died, or the gate's answer was lost.
func (s *Sweeper) returnForgotten(ctx context.Context, saleID id.ID, units int64, now time.Time) error {
	last, ok := s.withdrawn[saleID]
	switch {
	case units == 0:
		delete(s.withdrawn, saleID)
	case !ok || last.units != units:
		s.withdrawn[saleID] = withdrawal{units, now}
	case now.Sub(last.since) > 3*changeTimeout: // one to withdraw, one to change the row, one to put back
		delete(s.withdrawn, saleID)
		s.Log.WarnContext(ctx, "units that a change had set aside are put back", "sale", saleID, "units", units)
		_, err := s.Gate.Withdraw(ctx, saleID, -units)
		return err
	}
	return nil
}
