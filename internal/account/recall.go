package account

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"tandian/internal/kit/kv"
)

const (
	recallSize = 100_000     // beyond it what is used least goes
	recallFor  = time.Minute // however well its lease holds: the last resort against a change that nobody told of
	askTimeout = time.Second // that a store may take to answer
)

// recall is a bounded memory of what the stores said, believed while its lease holds. Callers that miss the same key
// at the same time share one question. V is shared between callers.
type recall[K comparable, V any] struct {
	now     func() time.Time
	ask     func(ctx context.Context, key K) (*memory[V], error) // otter.ErrNotFound = there is none, which isn't remembered
	entries *otter.Cache[K, *memory[V]]
	turns   atomic.Uint64 // counts the callers who had to ask
}

type memory[V any] struct {
	value V
	lease kv.Lease
	until time.Time
	turn  uint64 // of the last caller who came before the question
}

func newRecall[K comparable, V any](now func() time.Time, ask func(context.Context, K) (*memory[V], error)) *recall[K, V] {
	return &recall[K, V]{now: now, ask: ask, entries: otter.Must(&otter.Options[K, *memory[V]]{MaximumSize: recallSize})}
}

// get returns what is remembered, or asks. What it returns has been so after the call, or, if the lease holds, to the
// best of this process's knowledge.
func (r *recall[K, V]) get(ctx context.Context, key K, now time.Time) (v V, err error) {
	if m, ok := r.entries.GetIfPresent(key); ok {
		if m.holds(now) {
			return m.value, nil
		}
		r.drop(key, m)
	}
	turn := r.turns.Add(1)
	for {
		m, err := r.entries.Get(ctx, key, r)
		if err != nil {
			return v, err
		}
		// A question that others had put before this call may have been answered before a change that it must see.
		if m.turn >= turn || m.holds(now) {
			return m.value, nil
		}
		r.drop(key, m)
	}
}

func (m *memory[V]) holds(now time.Time) bool { return now.Before(m.until) && m.lease.Holds(now) }

// drop removes the old memory unless somebody has put a new one there.
func (r *recall[K, V]) drop(key K, old *memory[V]) {
	r.entries.ComputeIfPresent(key, func(m *memory[V]) (*memory[V], otter.ComputeOp) {
		if m == old {
			return nil, otter.InvalidateOp
		}
		return m, otter.CancelOp
	})
}

// Load implements otter.Loader.
func (r *recall[K, V]) Load(ctx context.Context, key K) (*memory[V], error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	turn := r.turns.Load()
	m, err := r.ask(ctx, key)
	if err != nil {
		return nil, err
	}
	m.turn = turn
	return m, nil
}

// Reload implements otter.Loader.
func (r *recall[K, V]) Reload(ctx context.Context, key K, _ *memory[V]) (*memory[V], error) {
	return r.Load(ctx, key)
}
