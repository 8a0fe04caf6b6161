package kv

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"
)

// Lease tells whether a key is still as it was when the lease was taken, so that what was read meanwhile may be
// remembered. Take the lease first and read afterwards. The zero Lease never holds.
type Lease struct {
	table   *leases
	slot    uint32
	changes uint32 // of the keys in the slot, before the lease
	era     uint64 // of the table
}

// Holds reports whether nobody has changed the key since the lease was taken, as far as this process knows: it may
// be up to half a second behind other processes. now is the present by the clock that the store was given.
func (l Lease) Holds(now time.Time) bool {
	// The trust is looked at first: it is taken away before the counts change, and given back after.
	t := l.table
	return t != nil && t.trusted(now) && t.era.Load() == l.era && t.changes[l.slot].Load() == l.changes
}

// leaseSlots bounds the memory of leases to 1 MiB. Keys that share a slot break each other's leases, which costs
// reading again and nothing else.
const leaseSlots = 1 << 18

// leases counts changes of keys. There is nothing to clean up: a lease is a count that somebody remembers.
type leases struct {
	seed    maphash.Seed
	epoch   time.Time
	until   atomic.Int64  // nanoseconds after epoch; from then on nothing holds
	era     atomic.Uint64 // counts the times when any key may have changed
	changes [leaseSlots]atomic.Uint32
}

func newLeases(now time.Time) *leases {
	t := &leases{seed: maphash.MakeSeed(), epoch: now}
	t.until.Store(math.MinInt64)
	return t
}

// trustForever is for whoever makes all changes himself.
func (t *leases) trustForever() { t.until.Store(math.MaxInt64) }

// trust lets leases hold before the given time.
func (t *leases) trust(until time.Time) { t.until.Store(int64(until.Sub(t.epoch))) }

func (t *leases) trusted(now time.Time) bool { return int64(now.Sub(t.epoch)) < t.until.Load() }

// take returns a lease, the zero Lease if changes could pass unheard.
func (t *leases) take(key string, now time.Time) Lease {
	slot := t.slot(key)
	// The counts are looked at first: whatever breaks all leases in between breaks this one, too.
	l := Lease{t, slot, t.changes[slot].Load(), t.era.Load()}
	if !t.trusted(now) {
		return Lease{}
	}
	return l
}

// broken says that the key has changed.
func (t *leases) broken(key string) { t.changes[t.slot(key)].Add(1) }

// allBroken says that any key may have changed.
func (t *leases) allBroken() { t.era.Add(1) }

// distrust breaks all leases and gives no more of them until there is trust again.
func (t *leases) distrust() {
	t.until.Store(math.MinInt64)
	t.allBroken()
}

func (t *leases) slot(key string) uint32 { return uint32(maphash.String(t.seed, key) % leaseSlots) }
