package flashsale_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"pgregory.net/rapid"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/order"
)

// ledger is SQL and the queue as the gate's neighbours see them: what is released, who has an order, what is on its way.
type ledger struct {
	gate   *flashsale.RedisGate
	terms  flashsale.Terms
	epoch  int64
	stock  int
	live   map[id.ID]order.Reservation
	ended  map[id.ID]order.Reservation
	queued []order.Reservation // on their way to their rows; what was never handed over only the gate knows
}

// load is what the service does when it finds the gate not loaded.
func (l *ledger) load(t *rapid.T, ctx context.Context) {
	remains, err := l.gate.Salvage(ctx, l.terms.SaleID)
	if err != nil {
		t.Fatal(err)
	}
	l.epoch++
	s := flashsale.Snapshot{Terms: l.terms, Epoch: l.epoch, Stock: int64(l.stock)}
	for _, r := range remains {
		if !l.written(r.OrderID) {
			s.InFlight = append(s.InFlight, r)
		}
	}
	for _, r := range l.live {
		s.Live = append(s.Live, r)
	}
	for _, r := range l.ended {
		s.Answered = append(s.Answered, r)
	}
	if ok, err := l.gate.Load(ctx, s); !ok || err != nil {
		t.Fatal("load:", ok, err)
	}
}

func (l *ledger) written(orderID id.ID) bool {
	_, live := l.live[orderID]
	_, ended := l.ended[orderID]
	return live || ended
}

// loaded carries fn out, loading the gate if it has to.
func (l *ledger) loaded(t *rapid.T, ctx context.Context, fn func() error) {
	err := fn()
	if err == flashsale.ErrNotLoaded {
		l.load(t, ctx)
		err = fn()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a row of a reservation, or a tombstone, as package order does.
func (l *ledger) write(t *rapid.T, ctx context.Context, r order.Reservation) {
	if l.written(r.OrderID) {
		return
	}
	taken := func(slot int) bool {
		for _, o := range l.live {
			if o.UserID == r.UserID && o.Slot == slot {
				return true
			}
		}
		return false
	}
	for r.Slot = 0; taken(r.Slot); r.Slot++ {
	}
	if l.stock == 0 || r.Slot >= l.terms.Limit {
		l.ended[r.OrderID] = r
		l.loaded(t, ctx, func() error { return l.gate.Release(ctx, r.SaleID, r.OrderID, false) })
		return
	}
	l.stock--
	l.live[r.OrderID] = r
	l.loaded(t, ctx, func() error { return l.gate.Settle(ctx, r.SaleID, []order.Reservation{r}) })
}

// F61: whatever a hand, a restart or an eviction does to a gate's keys at whatever moment, it converges: in the end the
// gate holds what SQL holds, nothing is sold beyond it, and nobody who was handed over is forgotten.
func TestGateConvergesAfterAnyHand(t *testing.T) {
	server := privateRedis(t, "redis")
	gate, err := flashsale.OpenRedisGate(rueidis.ClientOption{InitAddress: []string{server.addr}}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gate.Close)
	sale := id.ID(0)
	names := []string{"meta", "stock", "buyers", "orders", "requests", "pending", "ended"}
	rapid.Check(t, func(rt *rapid.T) {
		sale++
		ctx, stock := t.Context(), rapid.IntRange(0, 5).Draw(rt, "stock")
		l := &ledger{gate: gate, stock: stock, live: map[id.ID]order.Reservation{}, ended: map[id.ID]order.Reservation{},
			terms: flashsale.Terms{SaleID: sale, VoucherID: 7, Version: 1, Released: int64(stock), BeginsAt: time.Now().Add(-time.Hour), EndsAt: time.Now().Add(time.Hour),
				Limit: rapid.IntRange(1, 2).Draw(rt, "limit"), Amount: 4750, PayWindow: time.Minute}}
		l.load(rt, ctx)
		next := sale * 1000
		rt.Repeat(map[string]func(*rapid.T){
			"admit": func(rt *rapid.T) {
				next++
				r := flashsale.Request{OrderID: next, UserID: id.ID(rapid.IntRange(1, 4).Draw(rt, "user")), RequestID: fmt.Sprint("key-", next)}
				v, err := gate.Admit(ctx, sale, r)
				if err == nil && v.Result == flashsale.NotLoaded {
					l.load(rt, ctx)
					v, err = gate.Admit(ctx, sale, r)
				}
				switch {
				case err != nil || v.Result == flashsale.NotLoaded:
					rt.Fatal(v, err)
				case v.Result != flashsale.Admitted:
				case rapid.Bool().Draw(rt, "handed over"):
					l.queued = append(l.queued, v.Reservation)
				}
			},
			"write": func(rt *rapid.T) {
				if len(l.queued) == 0 {
					rt.Skip("nothing queued")
				}
				i := rapid.IntRange(0, len(l.queued)-1).Draw(rt, "which")
				r := l.queued[i]
				l.queued = slices.Delete(l.queued, i, i+1)
				l.write(rt, ctx, r)
			},
			"close": func(rt *rapid.T) {
				for orderID, r := range l.live {
					delete(l.live, orderID)
					l.ended[orderID] = r
					l.stock++
					l.loaded(rt, ctx, func() error { return gate.Release(ctx, sale, orderID, false) })
					return
				}
				rt.Skip("nothing to close")
			},
			"top up": func(rt *rapid.T) {
				n := rapid.IntRange(1, 2).Draw(rt, "units")
				l.stock += n
				l.terms.Version, l.terms.Released = l.terms.Version+1, l.terms.Released+int64(n)
				if err := gate.Change(ctx, l.terms); err != nil && err != flashsale.ErrNotLoaded {
					rt.Fatal(err)
				}
			},
			"hand": func(rt *rapid.T) {
				name := rapid.SampledFrom(names).Draw(rt, "key")
				key := fmt.Sprintf("{sale:%d}:%s", sale, name)
				switch rapid.IntRange(0, 3).Draw(rt, "how") {
				case 0:
					server.do(t, "DEL", key)
				case 1:
					server.do(t, "SET", key, "9999")
				case 2: // another server's
					server.client.Do(ctx, server.client.B().Hset().Key(fmt.Sprintf("{sale:%d}:meta", sale)).FieldValue().FieldValue("server", "elsewhere").Build())
				case 3:
					server.do(t, "FLUSHALL")
				}
			},
			"": func(rt *rapid.T) {
				st, err := gate.Standing(ctx, sale)
				if err != nil {
					rt.Fatal(err)
				}
				if st.Loaded && st.Stock > int64(l.stock) {
					rt.Fatalf("I1: the gate offers more than there is: %+v, SQL has %d", st, l.stock)
				}
			},
		})
		// The sweeper loads what is lost and hands over what the gate still knows; the writers write all.
		if st, err := gate.Standing(ctx, sale); err != nil || !st.Loaded {
			l.load(rt, ctx)
		}
		pending, err := gate.Pending(ctx, sale, time.Now().Add(time.Minute), 1000)
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range append(l.queued, pending...) {
			l.write(rt, ctx, r)
		}
		st, err := gate.Standing(ctx, sale)
		if err != nil || !st.Loaded || st.Stock != int64(l.stock) || st.Orders != int64(len(l.live)) || st.Pending != 0 || l.stock+len(l.live) != int(l.terms.Released) {
			rt.Fatalf("gate %+v; SQL stock %d, %d live, released %d; %v", st, l.stock, len(l.live), l.terms.Released, err)
		}
	})
}
