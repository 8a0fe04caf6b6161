package account

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

// recallSize bounds a recall: beyond it what is used least goes.
const recallSize = 100_000

// askTimeout is how long a store may take to answer.
const askTimeout = time.Second

// recall is a bounded memory of what a store said, believed for the time trust and forgotten at once on request.
// Callers that miss the same key at the same time share one question. V is shared between callers.
type recall[K comparable, V any] struct {
	now     func() time.Time
	trust   time.Duration
	ask     func(ctx context.Context, key K) (V, error) // otter.ErrNotFound = there is none, which isn't remembered
	entries *otter.Cache[K, *memory[V]]
}

type memory[V any] struct {
	value   V
	askedAt time.Time
}

func newRecall[K comparable, V any](now func() time.Time, trust time.Duration, ask func(context.Context, K) (V, error)) *recall[K, V] {
	return &recall[K, V]{now, trust, ask, otter.Must(&otter.Options[K, *memory[V]]{MaximumSize: recallSize})}
}

// get returns what is remembered, if it is not too old at the instant, or asks.
func (r *recall[K, V]) get(ctx context.Context, key K, now time.Time) (v V, err error) {
	if m, ok := r.entries.GetIfPresent(key); ok {
		// A clock that was set back makes ages negative.
		if age := now.Sub(m.askedAt); age >= 0 && age < r.trust {
			return m.value, nil
		}
		r.drop(key, m)
	}
	m, err := r.entries.Get(ctx, key, r)
	if err != nil {
		return v, err
	}
	return m.value, nil
}

// drop removes the old memory unless somebody has put a new one there.
func (r *recall[K, V]) drop(key K, old *memory[V]) {
	r.entries.ComputeIfPresent(key, func(m *memory[V]) (*memory[V], otter.ComputeOp) {
		if m == old {
			return nil, otter.InvalidateOp
		}
		return m, otter.CancelOp
	})
}

// forget makes the next get ask. An answer that is under way is thrown away and asked for again, so call it after
// the change is committed.
func (r *recall[K, V]) forget(key K) { r.entries.Invalidate(key) }

// Load implements otter.Loader.
func (r *recall[K, V]) Load(ctx context.Context, key K) (*memory[V], error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m := &memory[V]{askedAt: r.now()}
	var err error
	m.value, err = r.ask(ctx, key)
	return m, err
}

// Reload implements otter.Loader.
func (r *recall[K, V]) Reload(ctx context.Context, key K, _ *memory[V]) (*memory[V], error) {
	return r.Load(ctx, key)
}
