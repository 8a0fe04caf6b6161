package order

import (
	"context"
	"maps"
	"slices"
	"sync"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

// Watch wakes those who wait for an order to change: at once for what this process has written (Poke), and by one
// query for all awaited ids a turn for what another instance has (Turn).
type Watch struct {
	DB *store.DB

	mu      sync.Mutex
	waiting map[id.ID]*awaited // by order; guarded by mu
	streams map[id.ID]int      // by user; guarded by mu
}

// mostStreams is how many orders a user may watch at a time.
const mostStreams = 8

type awaited struct {
	state   int64 // as of the last turn; 0 = no row
	waiters map[chan struct{}]struct{}
}

// NewWatch returns a watch without waiters.
func NewWatch(db *store.DB) *Watch {
	return &Watch{DB: db, waiting: map[id.ID]*awaited{}, streams: map[id.ID]int{}}
}

// On returns a channel that is signalled when the order may have changed, and a function that ends the waiting. It
// returns ErrStreams when the user watches too many already.
func (w *Watch) On(orderID, userID id.ID) (changed <-chan struct{}, stop func(), err error) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.streams[userID] >= mostStreams {
		return nil, nil, ErrStreams
	}
	w.streams[userID]++
	a := w.waiting[orderID]
	if a == nil {
		a = &awaited{waiters: map[chan struct{}]struct{}{}}
		w.waiting[orderID] = a
	}
	a.waiters[c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.streams[userID]--; w.streams[userID] == 0 {
			delete(w.streams, userID)
		}
		if delete(a.waiters, c); len(a.waiters) == 0 && w.waiting[orderID] == a {
			delete(w.waiting, orderID)
		}
	}, nil
}

// Poke signals the waiters of the ids.
func (w *Watch) Poke(ids []id.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting) == 0 {
		return
	}
	for _, v := range ids {
		w.waiting[v].signal()
	}
}

func (a *awaited) signal() {
	if a == nil {
		return
	}
	for c := range a.waiters {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// Turn looks up all awaited ids in one query and signals what has changed since the turn before.
func (w *Watch) Turn(ctx context.Context) error {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(w.waiting))
	w.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	states, err := changedSince(ctx, w.DB.Read, ids)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for orderID, state := range states {
		if a := w.waiting[orderID]; a != nil && a.state != state {
			a.state = state
			a.signal()
		}
	}
	return nil
}
