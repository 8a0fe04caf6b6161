package kv

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Memory keeps everything in one map. With a Journal it comes back after a restart.
type Memory struct {
	now    func() time.Time
	leases *leases

	mu      sync.Mutex
	entries map[string]*entry   // guarded by mu
	changed map[string]struct{} // guarded by mu: keys not yet flushed; nil without a journal
	sweepAt time.Time           // guarded by mu
}

type entry struct {
	value   []byte
	set     map[string]struct{}
	expires time.Time
}

var _ Store = (*Memory)(nil)

// sweepEvery bounds how long an expired entry that nobody asks for is kept.
const sweepEvery = time.Minute

// NewMemory returns an empty store that reads the time from now.
func NewMemory(now func() time.Time) *Memory {
	m := &Memory{now: now, leases: newLeases(now()), entries: map[string]*entry{}, sweepAt: now().Add(sweepEvery)}
	m.leases.trustForever()
	return m
}

// live returns the entry unless it is absent or expired. The caller holds mu.
func (m *Memory) live(key string) *entry {
	e := m.entries[key]
	if e == nil || !m.now().Before(e.expires) {
		return nil
	}
	return e
}

// put stores under the key and marks it. The caller holds mu.
func (m *Memory) put(key string, e *entry) {
	now := m.now()
	if now.After(m.sweepAt) {
		m.sweepAt = now.Add(sweepEvery)
		maps.DeleteFunc(m.entries, func(_ string, e *entry) bool { return !now.Before(e.expires) })
	}
	if e == nil {
		delete(m.entries, key)
	} else {
		m.entries[key] = e
	}
	m.mark(key)
}

// mark says that the key has changed. The caller holds mu.
func (m *Memory) mark(key string) {
	m.leases.broken(key)
	if m.changed != nil {
		m.changed[key] = struct{}{}
	}
}

func (m *Memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.live(key); e != nil {
		return slices.Clone(e.value), true, nil
	}
	return nil, false, nil
}

func (m *Memory) GetTTL(_ context.Context, key string) ([]byte, time.Duration, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.live(key); e != nil {
		return slices.Clone(e.value), e.expires.Sub(m.now()), true, nil
	}
	return nil, 0, false, nil
}

func (m *Memory) Set(_ context.Context, key string, value []byte, ttl time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, &entry{value: slices.Clone(value), expires: m.now().Add(ttl)})
	return nil
}

func (m *Memory) SetNX(_ context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.live(key) != nil {
		return false, nil
	}
	m.put(key, &entry{value: slices.Clone(value), expires: m.now().Add(ttl)})
	return true, nil
}

func (m *Memory) Take(_ context.Context, key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.live(key)
	if e == nil {
		return nil, false, nil
	}
	m.put(key, nil)
	return e.value, true, nil
}

func (m *Memory) Del(_ context.Context, keys ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		m.put(key, nil)
	}
	return nil
}

func (m *Memory) Touch(_ context.Context, key string, ttl time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.live(key)
	if e == nil {
		return false, nil
	}
	e.expires = m.now().Add(ttl)
	m.mark(key)
	return true, nil
}

func (m *Memory) TTL(_ context.Context, key string) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.live(key); e != nil {
		return e.expires.Sub(m.now()), nil
	}
	return 0, nil
}

func (m *Memory) Incr(_ context.Context, key string, ttl time.Duration) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.live(key)
	if e == nil {
		e = &entry{value: []byte("0"), expires: m.now().Add(ttl)}
	}
	n, err := strconv.ParseInt(string(e.value), 10, 64)
	if err != nil {
		return 0, err
	}
	m.put(key, &entry{value: strconv.AppendInt(nil, n+1, 10), expires: e.expires})
	return n + 1, nil
}

func (m *Memory) Add(_ context.Context, key string, ttl time.Duration, members ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	set := map[string]struct{}{}
	if e := m.live(key); e != nil {
		set = e.set
	}
	for _, member := range members {
		set[member] = struct{}{}
	}
	m.put(key, &entry{set: set, expires: m.now().Add(ttl)})
	return nil
}

func (m *Memory) Members(_ context.Context, key string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.live(key); e != nil {
		return slices.Collect(maps.Keys(e.set)), nil
	}
	return nil, nil
}

func (m *Memory) Remove(_ context.Context, key string, members ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.live(key); e != nil {
		for _, member := range members {
			delete(e.set, member)
		}
		m.mark(key)
	}
	return nil
}

func (m *Memory) Lease(key string) Lease { return m.leases.take(key, m.now()) }

// stored is how an entry travels to the journal.
type stored struct {
	Value []byte   `json:"v,omitempty"`
	Set   []string `json:"s,omitempty"`
}

func (e *entry) encode() ([]byte, error) {
	return json.Marshal(stored{Value: e.value, Set: slices.Collect(maps.Keys(e.set))})
}

func decode(b []byte, expires time.Time) (*entry, error) {
	var s stored
	if err := json.Unmarshal(b, &s); err != nil {
		return nil, err
	}
	e := &entry{value: s.Value, expires: expires}
	if s.Set != nil {
		e.set = map[string]struct{}{}
		for _, member := range s.Set {
			e.set[member] = struct{}{}
		}
	}
	return e, nil
}
