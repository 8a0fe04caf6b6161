package flashsale

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/id"
)

// hints are what this process knows of sales that refuse everybody who holds nothing (S11). They are learned when a
// sale has refused for such a reason, and forgotten as soon as the server tells that one of the keys behind them has
// changed; Redis tracks them for us.
type hints struct {
	mu         sync.Mutex
	known      map[id.ID]*hint     // guarded by mu
	rest       map[id.ID]time.Time // guarded by mu: until when a sale isn't read again
	reading    map[id.ID]bool      // guarded by mu
	generation uint64              // guarded by mu: counts invalidations, so that what was read before one isn't kept
}

// hint is one sale as it was read.
type hint struct {
	standing Standing
	users    map[id.ID]struct{} // who holds a unit, or has a request that answers a repeat
	until    time.Time
}

const (
	hintFor   = time.Minute // at most, should an invalidation get lost
	hintShare = 10          // reading a sale may take this part of the time
	clockSkew = time.Second // of this process against the server
)

// forEverybody reports whether a verdict is about the sale rather than about the buyer.
func (v Verdict) forEverybody() bool {
	return v.Result == SoldOut || v.Result == NotStarted || v.Result == Ended || v.Result == Paused
}

// learn reads the sale, with the server's promise to tell of changes. Without an answer, or with one from another
// server than the one whose script has refused, nothing is known. A sale with many buyers whose units keep coming back
// and being sold again is not read each time: that would leave the server little time for buyers.
func (g *RedisGate) learn(ctx context.Context, saleID id.ID, server string) {
	generation, ok := g.hints.begin(saleID, g.now())
	if !ok {
		return
	}
	began := g.now()
	defer func() { g.hints.end(saleID, began, g.now()) }()
	keys, b := saleKeys(saleID), g.client.B()
	res := g.client.DoMultiCache(ctx,
		rueidis.CT(b.Hgetall().Key(keys[metaKey]).Cache(), hintFor), rueidis.CT(b.Get().Key(keys[stockKey]).Cache(), hintFor),
		rueidis.CT(b.Hkeys().Key(keys[buyersKey]).Cache(), hintFor), rueidis.CT(b.Hkeys().Key(keys[requestsKey]).Cache(), hintFor))
	h := &hint{users: map[id.ID]struct{}{}, until: g.now().Add(hintFor)}
	meta, err := res[0].AsStrMap()
	stock, err2 := res[1].AsInt64()
	if errors.Join(err, err2) != nil || meta["server"] != server {
		return
	}
	if h.standing, err = standingOf(saleID, meta); err != nil {
		return
	}
	h.standing.Stock = stock
	for _, part := range res[2:] {
		names, err := part.AsStrSlice()
		if err != nil {
			return
		}
		for _, name := range names {
			if name == "" {
				continue
			}
			user, _, _ := strings.Cut(name, ":")
			userID, err := id.Parse(user)
			if err != nil {
				return
			}
			h.users[userID] = struct{}{}
		}
	}
	g.hints.mu.Lock()
	defer g.hints.mu.Unlock()
	if g.hints.generation == generation {
		g.hints.known[saleID] = h
	}
}

// begin reports whether the sale is to be read now, and the generation before that.
func (h *hints) begin(saleID id.ID, now time.Time) (generation uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := h.known[saleID]
	if h.reading[saleID] || now.Before(h.rest[saleID]) || known != nil && now.Before(known.until) {
		return 0, false
	}
	h.reading[saleID] = true
	return h.generation, true
}

// end says that the sale has been read.
func (h *hints) end(saleID id.ID, began, ended time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.reading, saleID)
	h.rest[saleID] = ended.Add((hintShare - 1) * ended.Sub(began))
}

// forget drops what is kept about reading a sale.
func (h *hints) forget(saleID id.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.rest, saleID)
}

// invalidate is told which keys have changed; nil = the connection was lost, anything may have.
func (h *hints) invalidate(keys []rueidis.RedisMessage) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.generation++
	if keys == nil {
		clear(h.known)
		return
	}
	for _, m := range keys {
		key, err := m.ToString()
		if err != nil {
			clear(h.known)
			return
		}
		maps.DeleteFunc(h.known, func(saleID id.ID, _ *hint) bool { return strings.HasPrefix(key, "{sale:"+saleID.String()+"}:") })
	}
}

// Peek implements Gate.
func (g *RedisGate) Peek(saleID, userID id.ID) (Verdict, bool) {
	g.hints.mu.Lock()
	defer g.hints.mu.Unlock()
	h, now := g.hints.known[saleID], g.now()
	if h == nil || !now.Before(h.until) {
		return Verdict{}, false
	}
	if _, ok := h.users[userID]; ok {
		return Verdict{}, false
	}
	switch t := h.standing.Terms; {
	case now.Before(t.BeginsAt.Add(-clockSkew)):
		return Verdict{Result: NotStarted}, true
	case !now.Before(t.EndsAt.Add(clockSkew)):
		return Verdict{Result: Ended}, true
	case now.Before(t.BeginsAt.Add(clockSkew)) || !now.Before(t.EndsAt.Add(-clockSkew)):
		return Verdict{}, false // only the server knows
	case t.Paused:
		return Verdict{Result: Paused}, true
	case h.standing.Stock <= 0:
		return Verdict{Result: SoldOut}, true
	}
	return Verdict{}, false
}
