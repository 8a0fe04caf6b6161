package id

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// epoch is the second from which order ids count: 2022-01-01T00:00:00Z.
const epoch = 1640995200

// Block is a leased range of sequence numbers [From, From+N) and a floor in seconds since the Unix epoch: ids
// drawn from the block carry a time no earlier than the floor.
type Block struct {
	From  int64
	N     int64
	Floor int64
}

// Lease takes the next n numbers and writes max(stored floor, now) back as the floor, durably and atomically
// across instances. store.LeaseIDs is the one in use.
type Lease func(ctx context.Context, n, now int64) (Block, error)

// Sequence draws ids: seconds since 2022-01-01 in the high 31 bits, the low 32 bits of a number that only rises.
// Uniqueness rests on the number alone until it wraps after 4.3 billion ids, and then on the floor: a clock that
// jumps back can make ids unordered, never equal. Safe for concurrent use.
type Sequence struct {
	Lease Lease
	Now   func() time.Time
	Size  int64 // numbers per lease; what a crash wastes

	once  sync.Once
	turn  chan struct{} // holds whoever draws; made by once
	block Block         // guarded by turn
	last  int64         // guarded by turn: the latest second used
}

// leaseTimeout is for how long a caller waits, for his turn or for a block. Without it callers would stand one behind the
// other before a ledger that gives no answer.
const leaseTimeout = 2 * time.Second

var errBusy = errors.New("nobody has got numbers in time")

// Next draws one id. It returns an error when a block is due and can't be had soon.
func (s *Sequence) Next(ctx context.Context) (ID, error) {
	if err := s.enter(ctx); err != nil {
		return 0, fmt.Errorf("lease ids: %w", err)
	}
	defer func() { <-s.turn }()
	now := s.Now().Unix()
	if s.block.N == 0 {
		ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
		defer cancel()
		b, err := s.Lease(ctx, s.Size, now)
		if err != nil {
			return 0, fmt.Errorf("lease ids: %w", err)
		}
		s.block = b
	}
	s.last = max(s.last, s.block.Floor, now)
	n := s.block.From
	s.block.From++
	s.block.N--
	return ID((s.last-epoch)<<32 | n&(1<<32-1)), nil
}

// enter waits for the turn.
func (s *Sequence) enter(ctx context.Context) error {
	s.once.Do(func() { s.turn = make(chan struct{}, 1) })
	select {
	case s.turn <- struct{}{}:
		return nil
	default: // nearly always for a moment only
	}
	timeout := time.NewTimer(leaseTimeout)
	defer timeout.Stop()
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout.C:
		return errBusy
	}
}

// Time returns the second that an id drawn by Sequence carries.
func Time(i ID) time.Time { return time.Unix(int64(i)>>32+epoch, 0) }
