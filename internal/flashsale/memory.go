package flashsale

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync"
	"time"

	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

// MemoryGate is the gate of the embedded mode: a mutex per sale. It dies with the process and is loaded again from
// SQL; what was accepted is in the queue's table by then.
type MemoryGate struct {
	now func() time.Time

	mu    sync.RWMutex
	sales map[id.ID]*memorySale // guarded by mu
}

var _ Gate = (*MemoryGate)(nil)

// memorySale is one loaded sale.
type memorySale struct {
	saleID          id.ID
	epoch           int64
	incompleteSince time.Time

	mu        sync.Mutex // guards all below
	terms     Terms
	stock     int64
	withdrawn int64
	buyers    map[id.ID]*buyer
	orders    map[id.ID]*held
	pending   map[id.ID]*held    // those of orders that have no row
	ended     map[id.ID]struct{} // released, so that a late Settle doesn't revive them
	requests  map[requestKey]id.ID
}

type requestKey struct {
	user    id.ID
	request string
}

// buyer holds units: bit s of slots is set when slot s is taken, by orders[s].
type buyer struct {
	slots  uint64
	orders []id.ID
}

type held struct{ order.Reservation }

// NewMemoryGate returns a gate without sales that reads the time from now.
func NewMemoryGate(now func() time.Time) *MemoryGate {
	return &MemoryGate{now: now, sales: map[id.ID]*memorySale{}}
}

func (g *MemoryGate) sale(saleID id.ID) *memorySale {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.sales[saleID]
}

// Load implements Gate.
func (g *MemoryGate) Load(_ context.Context, s Snapshot) (bool, error) {
	m := &memorySale{saleID: s.SaleID, epoch: s.Epoch, incompleteSince: s.IncompleteSince, terms: s.Terms, stock: s.Stock, buyers: map[id.ID]*buyer{}, orders: map[id.ID]*held{},
		pending: map[id.ID]*held{}, ended: map[id.ID]struct{}{}, requests: map[requestKey]id.ID{}}
	for _, r := range s.Answered {
		m.remember(r)
	}
	for _, r := range s.Live {
		m.hold(r, false)
	}
	for _, r := range s.InFlight {
		if m.orders[r.OrderID] == nil {
			m.stock--
			m.hold(r, true)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.sales[s.SaleID]; old != nil && old.epoch >= s.Epoch-1 {
		return false, nil
	}
	g.sales[s.SaleID] = m
	return true, nil
}

// Unload implements Gate.
func (g *MemoryGate) Unload(_ context.Context, saleID id.ID) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sales, saleID)
	return nil
}

// remember makes the request id answer a repeat, and its sender somebody whom Peek lets through.
func (m *memorySale) remember(r order.Reservation) *buyer {
	if r.RequestID != "" {
		m.requests[requestKey{r.UserID, r.RequestID}] = r.OrderID
	}
	b := m.buyers[r.UserID]
	if b == nil {
		b = &buyer{}
		m.buyers[r.UserID] = b
	}
	return b
}

// hold records a unit as taken; the stock is the caller's business. A slot that is taken already is shared: only
// SQL decides which of the two orders stays.
func (m *memorySale) hold(r order.Reservation, pending bool) {
	h := &held{Reservation: r}
	m.orders[r.OrderID] = h
	if pending {
		m.pending[r.OrderID] = h
	}
	b := m.remember(r)
	b.slots |= 1 << r.Slot
	if grow := r.Slot + 1 - len(b.orders); grow > 0 {
		b.orders = append(b.orders, make([]id.ID, grow)...)
	}
	b.orders[r.Slot] = r.OrderID
}

// refusal is the verdict that needs no change, false if there is none. The caller holds mu.
func (m *memorySale) refusal(now time.Time, userID id.ID) (Verdict, bool) {
	b := m.buyers[userID]
	switch {
	case now.Before(m.terms.BeginsAt):
		return Verdict{Result: NotStarted}, true
	case !now.Before(m.terms.EndsAt) && !failpoint.On(failpoint.IgnoreEnd):
		return Verdict{Result: Ended}, true
	case m.terms.Paused:
		return Verdict{Result: Paused}, true
	case b != nil && bits.OnesCount64(b.slots) >= m.terms.Limit && !failpoint.On(failpoint.SkipUnique):
		return Verdict{Result: LimitReached, Orders: b.holding()}, true
	case m.stock <= 0:
		return Verdict{Result: SoldOut}, true
	}
	return Verdict{}, false
}

func (b *buyer) holding() []id.ID {
	ids := make([]id.ID, 0, len(b.orders))
	for slot, orderID := range b.orders {
		if b.slots&(1<<slot) != 0 {
			ids = append(ids, orderID)
		}
	}
	return ids
}

// Peek implements Gate.
func (g *MemoryGate) Peek(saleID, userID id.ID) (Verdict, bool) {
	m := g.sale(saleID)
	if m == nil {
		return Verdict{}, false
	}
	now := g.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.buyers[userID] != nil {
		return Verdict{}, false
	}
	return m.refusal(now, userID)
}

// Admit implements Gate.
func (g *MemoryGate) Admit(_ context.Context, saleID id.ID, r Request) (Verdict, error) {
	m := g.sale(saleID)
	if m == nil {
		return Verdict{Result: NotLoaded}, nil
	}
	now := g.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if earlier, ok := m.requests[requestKey{r.UserID, r.RequestID}]; ok {
		return Verdict{Result: Repeat, OrderID: earlier}, nil
	}
	if m.orders[r.OrderID] != nil {
		return Verdict{Result: Repeat, OrderID: r.OrderID}, nil
	}
	if v, refused := m.refusal(now, r.UserID); refused {
		return v, nil
	}
	slot := 0
	if b := m.buyers[r.UserID]; b != nil {
		slot = bits.TrailingZeros64(^b.slots)
	}
	if failpoint.On(failpoint.SkipUnique) {
		slot = 0
	}
	res := order.Reservation{OrderID: r.OrderID, SaleID: saleID, VoucherID: m.terms.VoucherID, UserID: r.UserID, Slot: slot, Amount: m.terms.Amount,
		RequestID: r.RequestID, AdmittedAt: store.Millis(now), PayBefore: store.Millis(now.Add(m.terms.PayWindow))}
	m.stock--
	m.hold(res, true)
	return Verdict{Result: Admitted, OrderID: res.OrderID, Reservation: res}, nil
}

// Answer implements Gate.
func (g *MemoryGate) Answer(_ context.Context, saleID, userID id.ID, requestID string) (id.ID, error) {
	m := g.sale(saleID)
	if m == nil {
		return 0, ErrNotLoaded
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[requestKey{userID, requestID}], nil
}

// Settle implements Gate.
func (g *MemoryGate) Settle(_ context.Context, saleID id.ID, rs []order.Reservation) error {
	m := g.sale(saleID)
	if m == nil {
		return ErrNotLoaded
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rs {
		h, waiting := m.orders[r.OrderID], m.pending[r.OrderID] != nil
		_, ended := m.ended[r.OrderID]
		switch {
		case h == nil && !ended: // in flight while the gate was loaded
			m.stock--
			m.hold(r, false)
		case waiting:
			delete(m.pending, r.OrderID)
			if h.Slot != r.Slot { // the writer found another one free
				m.freeSlot(&h.Reservation)
				h.Slot = r.Slot
				m.hold(h.Reservation, false)
			}
		}
	}
	return nil
}

// freeSlot takes an order out of its buyer's slots, unless the slot has become another order's.
func (m *memorySale) freeSlot(r *order.Reservation) {
	b := m.buyers[r.UserID]
	if b == nil || r.Slot >= len(b.orders) || b.orders[r.Slot] != r.OrderID {
		return
	}
	b.slots &^= 1 << r.Slot
	b.orders[r.Slot] = 0
}

// Release implements Gate.
func (g *MemoryGate) Release(_ context.Context, saleID, orderID id.ID, forget bool) error {
	m := g.sale(saleID)
	if m == nil {
		return ErrNotLoaded
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended[orderID] = struct{}{}
	h := m.orders[orderID]
	if h == nil {
		return nil
	}
	delete(m.orders, orderID)
	delete(m.pending, orderID)
	m.stock++
	if failpoint.On(failpoint.ReleaseTwice) {
		m.stock++
	}
	m.freeSlot(&h.Reservation)
	if key := (requestKey{h.UserID, h.RequestID}); forget && m.requests[key] == orderID {
		delete(m.requests, key)
	}
	return nil
}

// Change implements Gate.
func (g *MemoryGate) Change(_ context.Context, t Terms) error {
	m := g.sale(t.SaleID)
	if m == nil {
		return ErrNotLoaded
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.Version > m.terms.Version {
		m.stock += t.Released - m.terms.Released
		m.terms = t
	}
	return nil
}

// Withdraw implements Gate.
func (g *MemoryGate) Withdraw(_ context.Context, saleID id.ID, n int64) (bool, error) {
	m := g.sale(saleID)
	if m == nil {
		return false, ErrNotLoaded
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if n > 0 && m.stock < n {
		return false, nil
	}
	n = max(n, -m.withdrawn)
	m.stock -= n
	m.withdrawn += n
	return true, nil
}

// Standing implements Gate.
func (g *MemoryGate) Standing(_ context.Context, saleID id.ID) (Standing, error) {
	m := g.sale(saleID)
	if m == nil {
		return Standing{Cause: CauseAbsent}, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return Standing{Loaded: true, Epoch: m.epoch, Stock: m.stock, Pending: int64(len(m.pending)), Orders: int64(len(m.orders)),
		Withdrawn: m.withdrawn, Terms: m.terms, IncompleteSince: m.incompleteSince}, nil
}

// Standings implements Gate.
func (g *MemoryGate) Standings(ctx context.Context, saleIDs []id.ID) ([]Standing, error) {
	standings := make([]Standing, len(saleIDs))
	for i, saleID := range saleIDs {
		standings[i], _ = g.Standing(ctx, saleID)
	}
	return standings, nil
}

// Loaded implements Gate.
func (g *MemoryGate) Loaded(context.Context) ([]id.ID, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	ids := make([]id.ID, 0, len(g.sales))
	for saleID := range g.sales {
		ids = append(ids, saleID)
	}
	slices.Sort(ids)
	return ids, nil
}

// all returns the loaded sales.
func (g *MemoryGate) all() []*memorySale {
	g.mu.RLock()
	defer g.mu.RUnlock()
	sales := make([]*memorySale, 0, len(g.sales))
	for _, m := range g.sales {
		sales = append(sales, m)
	}
	return sales
}

// Find implements Gate.
func (g *MemoryGate) Find(_ context.Context, orderID id.ID) (*order.Reservation, bool, error) {
	for _, m := range g.all() {
		if r, pending := m.find(orderID); r != nil {
			return r, pending, nil
		}
	}
	return nil, false, nil
}

func (m *memorySale) find(orderID id.ID) (r *order.Reservation, pending bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := m.orders[orderID]; h != nil {
		r := h.Reservation
		return &r, m.pending[orderID] != nil
	}
	return nil, false
}

// Waiting implements Gate.
func (g *MemoryGate) Waiting(_ context.Context, userID id.ID, saleIDs ...id.ID) ([]order.Reservation, error) {
	var found []order.Reservation
	for _, m := range g.all() {
		if len(saleIDs) > 0 && !slices.Contains(saleIDs, m.saleID) {
			continue
		}
		m.mu.Lock()
		if b := m.buyers[userID]; b != nil {
			for _, orderID := range b.holding() {
				if h := m.pending[orderID]; h != nil {
					found = append(found, h.Reservation)
				}
			}
		}
		m.mu.Unlock()
	}
	slices.SortFunc(found, func(a, b order.Reservation) int { return cmp.Compare(b.OrderID, a.OrderID) })
	return found, nil
}

// Pending implements Gate.
func (g *MemoryGate) Pending(_ context.Context, saleID id.ID, before time.Time, limit int) ([]order.Reservation, error) {
	m := g.sale(saleID)
	if m == nil {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []order.Reservation
	for _, h := range m.pending {
		if h.AdmittedAt < store.Millis(before) {
			found = append(found, h.Reservation)
		}
	}
	slices.SortFunc(found, func(a, b order.Reservation) int { return cmp.Compare(a.AdmittedAt, b.AdmittedAt) })
	return found[:min(len(found), limit)], nil
}

// Salvage implements Gate: a gate in memory is current or gone.
func (g *MemoryGate) Salvage(context.Context, id.ID) ([]order.Reservation, error) { return nil, nil }
