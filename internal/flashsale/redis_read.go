package flashsale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

// Standing implements Gate.
func (g *RedisGate) Standing(ctx context.Context, saleID id.ID) (Standing, error) {
	standings, err := g.Standings(ctx, []id.ID{saleID})
	if err != nil {
		return Standing{}, err
	}
	return standings[0], nil
}

// Standings implements Gate. A gate that is missing in the list of the loaded ones is not loaded: its orders would
// not be found.
func (g *RedisGate) Standings(ctx context.Context, saleIDs []id.ID) ([]Standing, error) {
	if len(saleIDs) == 0 {
		return nil, nil
	}
	keys, names := make([][]string, len(saleIDs)), make([]string, len(saleIDs))
	for i, saleID := range saleIDs {
		keys[i], names[i] = saleKeys(saleID), saleID.String()
	}
	results := standingScript.read(ctx, g.client, keys)
	if err := ctx.Err(); err != nil { // to find out that there is no connection takes the client its own time, each time
		return nil, err
	}
	listed, err := g.client.Do(ctx, g.client.B().Smismember().Key(loadedKey).Member(names...).Build()).AsIntSlice()
	if err != nil && !wrongType(err) {
		return nil, err
	}
	standings := make([]Standing, len(saleIDs))
	for i, saleID := range saleIDs {
		if standings[i], err = standingFrom(saleID, results[i]); err != nil {
			return nil, fmt.Errorf("standing of sale %d: %w", saleID, err)
		}
		if standings[i].Loaded && (i >= len(listed) || listed[i] == 0) {
			standings[i] = Standing{Cause: CauseDamaged}
		}
	}
	return standings, nil
}

// standingFrom reads the answer of standing.lua.
func standingFrom(saleID id.ID, res rueidis.RedisResult) (Standing, error) {
	if cause, closed := causeOf(res); closed {
		return Standing{Cause: cause}, nil
	}
	parts, err := res.ToArray()
	if err != nil {
		return Standing{}, err
	}
	if len(parts) != 4 {
		return Standing{}, fmt.Errorf("answer of %d parts", len(parts))
	}
	meta, err := parts[3].AsStrMap()
	if err != nil {
		return Standing{}, err
	}
	s, err := standingOf(saleID, meta)
	if err != nil { // a number that isn't one of ours: somebody's hand
		return Standing{Cause: CauseDamaged}, nil
	}
	n := &numbers{values: parts[:3]}
	s.Stock, s.Pending, s.Orders = n.next(), n.next(), n.next()
	return s, n.err
}

// standingOf reads meta.
func standingOf(saleID id.ID, meta map[string]string) (s Standing, err error) {
	n := func(name string) int64 {
		v, e := strconv.ParseInt(meta[name], 10, 64)
		err = cmp.Or(err, e)
		return v
	}
	s = Standing{Loaded: true, Epoch: n("epoch"), Withdrawn: n("withdrawn"), IncompleteSince: store.Time(n("incomplete")),
		Terms: Terms{SaleID: saleID, VoucherID: id.ID(n("voucher")), Version: n("version"), Released: n("released"), BeginsAt: store.Time(n("begin")),
			EndsAt: store.Time(n("end")), Paused: meta["paused"] == "1", Limit: int(n("limit")), Amount: money.Fen(n("amount")),
			PayWindow: time.Duration(n("window")) * time.Millisecond}}
	return s, err
}

// Loaded implements Gate.
func (g *RedisGate) Loaded(ctx context.Context) ([]id.ID, error) {
	names, err := g.client.Do(ctx, g.client.B().Smembers().Key(loadedKey).Build()).AsStrSlice()
	if err != nil && !wrongType(err) {
		return nil, err
	}
	ids := make([]id.ID, 0, len(names))
	for _, name := range names {
		if saleID, err := id.Parse(name); err == nil { // what isn't a sale keeps nobody from the others
			ids = append(ids, saleID)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

// record is an order as the gate has it.
type record struct {
	order.Reservation
	pending bool
}

// recordsOf reads HMGET's answer about some orders of a sale; absent and unreadable ones are left out.
func recordsOf(saleID id.ID, orders []string, res rueidis.RedisResult) ([]record, error) {
	values, err := res.ToArray()
	if err != nil {
		return nil, err
	}
	var found []record
	for i, v := range values {
		value, err := v.ToString()
		orderID, err2 := id.Parse(orders[i])
		r, pending, err3 := recordAs(saleID, orderID, value)
		if errors.Join(err, err2, err3) == nil {
			found = append(found, record{r, pending})
		}
	}
	return found, nil
}

// each asks the same of several sales, in one round trip. A sale whose key has another type is damaged and says nothing:
// it will be loaded anew, and the others can be read meanwhile.
func (g *RedisGate) each(ctx context.Context, saleIDs []id.ID, command func(saleID id.ID) rueidis.Completed, read func(i int, res rueidis.RedisResult) error) error {
	if len(saleIDs) == 0 {
		return nil
	}
	commands := make(rueidis.Commands, len(saleIDs))
	for i, saleID := range saleIDs {
		commands[i] = command(saleID)
	}
	for i, res := range g.client.DoMulti(ctx, commands...) {
		if err := res.Error(); rueidis.IsRedisNil(err) || wrongType(err) {
			continue
		}
		if err := read(i, res); err != nil {
			return err
		}
	}
	return nil
}

// Find implements Gate. What an untrusted gate holds was admitted all the same, and the caller knows what has a row.
func (g *RedisGate) Find(ctx context.Context, orderID id.ID) (found *order.Reservation, pending bool, err error) {
	sales, err := g.Loaded(ctx)
	if err != nil {
		return nil, false, err
	}
	err = g.each(ctx, sales, func(saleID id.ID) rueidis.Completed {
		return g.client.B().Hget().Key(saleKeys(saleID)[ordersKey]).Field(orderID.String()).Build()
	}, func(i int, res rueidis.RedisResult) error {
		value, err := res.ToString()
		if err != nil {
			return err
		}
		r, p, err := recordAs(sales[i], orderID, value)
		found, pending = &r, p
		return err
	})
	return found, pending, err
}

// Waiting implements Gate.
func (g *RedisGate) Waiting(ctx context.Context, userID id.ID, saleIDs ...id.ID) ([]order.Reservation, error) {
	if len(saleIDs) == 0 {
		var err error
		if saleIDs, err = g.Loaded(ctx); err != nil {
			return nil, err
		}
	}
	held := map[id.ID][]string{} // orders by sale
	err := g.each(ctx, saleIDs, func(saleID id.ID) rueidis.Completed {
		return g.client.B().Hget().Key(saleKeys(saleID)[buyersKey]).Field(userID.String()).Build()
	}, func(i int, res rueidis.RedisResult) error {
		slots, err := res.ToString()
		for slot := range strings.SplitSeq(slots, ";") {
			_, orderID, _ := strings.Cut(slot, "=")
			held[saleIDs[i]] = append(held[saleIDs[i]], orderID)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	trusted, err := g.trusted(ctx, slices.Collect(maps.Keys(held)))
	if err != nil {
		return nil, err
	}
	var waiting []order.Reservation
	err = g.each(ctx, trusted, func(saleID id.ID) rueidis.Completed {
		return g.client.B().Hmget().Key(saleKeys(saleID)[ordersKey]).Field(held[saleID]...).Build()
	}, func(i int, res rueidis.RedisResult) error {
		records, err := recordsOf(trusted[i], held[trusted[i]], res)
		for _, r := range records {
			if r.pending {
				waiting = append(waiting, r.Reservation)
			}
		}
		return err
	})
	slices.SortFunc(waiting, func(a, b order.Reservation) int { return cmp.Compare(b.OrderID, a.OrderID) })
	return waiting, err
}

// trusted returns those of the sales that are loaded.
func (g *RedisGate) trusted(ctx context.Context, saleIDs []id.ID) ([]id.ID, error) {
	standings, err := g.Standings(ctx, saleIDs)
	var trusted []id.ID
	for i, s := range standings {
		if s.Loaded {
			trusted = append(trusted, saleIDs[i])
		}
	}
	return trusted, err
}

// Pending implements Gate.
func (g *RedisGate) Pending(ctx context.Context, saleID id.ID, before time.Time, limit int) ([]order.Reservation, error) {
	keys, b := saleKeys(saleID), g.client.B()
	max := "(" + strconv.FormatInt(store.Millis(before), 10)
	orders, err := g.client.Do(ctx, b.Zrangebyscore().Key(keys[pendingKey]).Min("-inf").Max(max).Limit(0, int64(limit)).Build()).AsStrSlice()
	if err != nil || len(orders) == 0 {
		return nil, err
	}
	records, err := recordsOf(saleID, orders, g.client.Do(ctx, b.Hmget().Key(keys[ordersKey]).Field(orders...).Build()))
	found := make([]order.Reservation, len(records))
	for i, r := range records {
		found[i] = r.Reservation
	}
	return found, err
}
