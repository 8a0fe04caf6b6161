package flashsale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tandian/internal/order"
)

// An accepted id is held by a gate or has a row. After the loss of a gate there is a while in which neither may be true,
// because the reservation is still in a queue that can't be listed. Until it has had time to arrive, "nobody holds this
// id" is no answer.

// recallTime is how long a gate that was loaded anew may lack reservations that are on their way, if the queue doesn't
// say itself that it holds older ones.
const recallTime = time.Minute

// errForgotten says that an id may have been admitted by a gate that is lost.
var errForgotten = errors.New("flashsale: a gate may have forgotten reservations")

// complete returns nil if the gates of all open sales know every reservation that has no row.
func (s *Service) complete(ctx context.Context) error {
	offers, err := s.offers(ctx, nil)
	if err != nil {
		return err
	}
	open := slices.Collect(maps.Keys(offers))
	standings, err := s.Gate.Standings(ctx, open)
	if err != nil {
		return err
	}
	for i, st := range standings {
		if !st.current(offers[open[i]].Epoch) {
			return fmt.Errorf("%w: sale %d is not loaded: %s", errForgotten, open[i], st.Cause)
		}
		if st.IncompleteSince.IsZero() {
			continue
		}
		if err := s.arrived(ctx, st.IncompleteSince); err != nil {
			return fmt.Errorf("sale %d: %w", open[i], err)
		}
	}
	return nil
}

// arrived returns nil if what was handed over before the instant has left the queue.
func (s *Service) arrived(ctx context.Context, lost time.Time) error {
	age := s.Now().Sub(lost)
	if age < recallTime {
		return fmt.Errorf("%w: loaded anew %s ago", errForgotten, age)
	}
	depth, err := s.Broker.Depth(ctx, order.TopicCreate)
	if err != nil {
		return err
	}
	if depth.Oldest >= age || depth.Ready > 0 && depth.Unacked == 0 { // nobody consumes: their age can't be told
		return fmt.Errorf("%w: the queue holds older messages", errForgotten)
	}
	return nil
}
