package flashsale_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/order"
)

// model is the gate as one would write it with nothing but a list.
type model struct {
	stock, limit int
	paused       bool
	held         []heldOrder
	requests     map[string]id.ID
}

type heldOrder struct {
	id, user id.ID
	key      string
	slot     int
	pending  bool
}

func (m *model) of(user id.ID) (mine []heldOrder) {
	for _, h := range m.held {
		if h.user == user {
			mine = append(mine, h)
		}
	}
	slices.SortFunc(mine, func(a, b heldOrder) int { return a.slot - b.slot })
	return mine
}

func (m *model) admit(orderID, user id.ID, key string) (flashsale.Result, id.ID) {
	if earlier, ok := m.requests[fmt.Sprint(user, key)]; ok {
		return flashsale.Repeat, earlier
	}
	mine := m.of(user)
	switch {
	case m.paused:
		return flashsale.Paused, 0
	case len(mine) >= m.limit:
		return flashsale.LimitReached, 0
	case m.stock <= 0:
		return flashsale.SoldOut, 0
	}
	slot := 0
	for slices.ContainsFunc(mine, func(h heldOrder) bool { return h.slot == slot }) {
		slot++
	}
	m.stock--
	m.held = append(m.held, heldOrder{orderID, user, key, slot, true})
	m.requests[fmt.Sprint(user, key)] = orderID
	return flashsale.Admitted, orderID
}

// Random buyers, settlements, releases, top-ups and pauses: the gate and the model agree at every step.
func TestGateAgreesWithModel(t *testing.T) {
	for name, open := range gates() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				g := open(t)
				m := &model{stock: rapid.IntRange(0, 6).Draw(rt, "stock"), limit: rapid.IntRange(1, 3).Draw(rt, "limit"), requests: map[string]id.ID{}}
				s := g.snapshot(int64(m.stock), m.limit)
				g.load(t, s)
				next := id.ID(0)
				pick := func(label string) (heldOrder, int) {
					if len(m.held) == 0 {
						rt.Skip("nothing held")
					}
					i := rapid.IntRange(0, len(m.held)-1).Draw(rt, label)
					return m.held[i], i
				}
				rt.Repeat(map[string]func(*rapid.T){
					"admit": func(rt *rapid.T) {
						next++
						user, key := id.ID(rapid.IntRange(1, 4).Draw(rt, "user")), rapid.StringMatching("[abcde]").Draw(rt, "key")
						want, wantID := m.admit(next, user, key)
						if v := g.admit(t, next, user, key); v.Result != want || v.OrderID != wantID {
							rt.Fatalf("gate says %d %d, model %d %d", v.Result, v.OrderID, want, wantID)
						}
					},
					"settle": func(rt *rapid.T) {
						h, i := pick("settled")
						m.held[i].pending = false
						if err := g.Settle(t.Context(), saleID, []order.Reservation{{OrderID: h.id, SaleID: saleID, UserID: h.user, Slot: h.slot, RequestID: h.key}}); err != nil {
							rt.Fatal(err)
						}
					},
					"release": func(rt *rapid.T) {
						h, i := pick("released")
						forget := rapid.Bool().Draw(rt, "forget")
						m.held = slices.Delete(m.held, i, i+1)
						m.stock++
						if forget {
							delete(m.requests, fmt.Sprint(h.user, h.key))
						}
						for range rapid.IntRange(1, 3).Draw(rt, "times") {
							if err := g.Release(t.Context(), saleID, h.id, forget); err != nil {
								rt.Fatal(err)
							}
						}
					},
					"stock": func(rt *rapid.T) {
						delta := rapid.IntRange(-2, 3).Draw(rt, "delta")
						m.stock += delta
						s.Version, s.Released = s.Version+1, s.Released+int64(delta)
						if err := g.Change(t.Context(), s.Terms); err != nil {
							rt.Fatal(err)
						}
					},
					"terms": func(rt *rapid.T) {
						m.paused, m.limit = rapid.Bool().Draw(rt, "paused"), rapid.IntRange(1, 3).Draw(rt, "limit")
						s.Paused, s.Limit, s.Version = m.paused, m.limit, s.Version+1
						if err := g.Change(t.Context(), s.Terms); err != nil {
							rt.Fatal(err)
						}
					},
					"": func(rt *rapid.T) {
						var pending int64
						for _, h := range m.held {
							if h.pending {
								pending++
							}
						}
						st, err := g.Standing(t.Context(), saleID)
						if err != nil || st.Stock != int64(m.stock) || st.Pending != pending || st.Orders != int64(len(m.held)) {
							rt.Fatalf("gate %+v, model stock %d pending %d orders %d", st, m.stock, pending, len(m.held))
						}
						for user := id.ID(1); user <= 4; user++ {
							if v, ok := g.Peek(saleID, user); ok && len(m.of(user)) > 0 {
								rt.Fatalf("peek refused a holder: %+v", v)
							}
						}
					},
				})
			})
		})
	}
}
