package flashsale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	keys := saleKeys(saleID)
	res := g.client.DoMulti(ctx, g.client.B().Hgetall().Key(keys[metaKey]).Build(), g.client.B().Get().Key(keys[stockKey]).Build(),
		g.client.B().Zcard().Key(keys[pendingKey]).Build(), g.client.B().Hlen().Key(keys[ordersKey]).Build())
	s, err := standingOf(saleID, res[0], res[1])
	if err != nil || !s.Loaded {
		return s, err
	}
	var err2 error
	s.Pending, err = res[2].AsInt64()
	s.Orders, err2 = res[3].AsInt64()
	return s, errors.Join(err, err2)
}

// standingOf reads meta and stock; without either of them the sale is not loaded.
func standingOf(saleID id.ID, metaResult, stockResult rueidis.RedisResult) (Standing, error) {
	meta, err := metaResult.AsStrMap()
	if err != nil {
		return Standing{}, err
	}
	stock, err := stockResult.AsInt64()
	if len(meta) == 0 || rueidis.IsRedisNil(err) {
		return Standing{}, nil
	}
	n := func(name string) int64 {
		v, e := strconv.ParseInt(meta[name], 10, 64)
		err = cmp.Or(err, e)
		return v
	}
	s := Standing{Loaded: true, Epoch: n("epoch"), Stock: stock, Terms: Terms{SaleID: saleID, VoucherID: id.ID(n("voucher")), Version: n("version"),
		Released: n("released"), BeginsAt: store.Time(n("begin")), EndsAt: store.Time(n("end")), Paused: meta["paused"] == "1", Limit: int(n("limit")),
		Amount: money.Fen(n("amount")), PayWindow: time.Duration(n("window")) * time.Millisecond}}
	return s, err
}

// Loaded implements Gate.
func (g *RedisGate) Loaded(ctx context.Context) ([]id.ID, error) {
	names, err := g.client.Do(ctx, g.client.B().Smembers().Key(loadedKey).Build()).AsStrSlice()
	if err != nil {
		return nil, err
	}
	ids := make([]id.ID, 0, len(names))
	for _, name := range names {
		saleID, err := id.Parse(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", loadedKey, err)
		}
		ids = append(ids, saleID)
	}
	slices.Sort(ids)
	return ids, nil
}

// records reads some orders of a sale; absent ones are left out.
func (g *RedisGate) records(ctx context.Context, saleID id.ID, orders []string, each func(r order.Reservation, pending bool)) error {
	if len(orders) == 0 {
		return nil
	}
	found, err := g.client.Do(ctx, g.client.B().Hmget().Key(saleKeys(saleID)[ordersKey]).Field(orders...).Build()).ToArray()
	if err != nil {
		return err
	}
	for i, v := range found {
		record, err := v.ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		orderID, err2 := id.Parse(orders[i])
		r, pending, err3 := recordAs(saleID, orderID, record)
		if err := errors.Join(err, err2, err3); err != nil {
			return err
		}
		each(r, pending)
	}
	return nil
}

// Find implements Gate.
func (g *RedisGate) Find(ctx context.Context, orderID id.ID) (found *order.Reservation, pending bool, err error) {
	sales, err := g.Loaded(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, saleID := range sales {
		err = errors.Join(err, g.records(ctx, saleID, []string{orderID.String()}, func(r order.Reservation, p bool) { found, pending = &r, p }))
	}
	return found, pending, err
}

// Waiting implements Gate.
func (g *RedisGate) Waiting(ctx context.Context, userID id.ID) ([]order.Reservation, error) {
	sales, err := g.Loaded(ctx)
	if err != nil {
		return nil, err
	}
	var waiting []order.Reservation
	for _, saleID := range sales {
		slots, err := g.client.Do(ctx, g.client.B().Hget().Key(saleKeys(saleID)[buyersKey]).Field(userID.String()).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var orders []string
		for slot := range strings.SplitSeq(slots, ";") {
			_, orderID, _ := strings.Cut(slot, "=")
			orders = append(orders, orderID)
		}
		err = g.records(ctx, saleID, orders, func(r order.Reservation, pending bool) {
			if pending {
				waiting = append(waiting, r)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(waiting, func(a, b order.Reservation) int { return cmp.Compare(b.OrderID, a.OrderID) })
	return waiting, nil
}

// Pending implements Gate.
func (g *RedisGate) Pending(ctx context.Context, saleID id.ID, before time.Time, limit int) ([]order.Reservation, error) {
	max := "(" + strconv.FormatInt(store.Millis(before), 10)
	orders, err := g.client.Do(ctx, g.client.B().Zrangebyscore().Key(saleKeys(saleID)[pendingKey]).Min("-inf").Max(max).Limit(0, int64(limit)).Build()).AsStrSlice()
	if err != nil {
		return nil, err
	}
	var found []order.Reservation
	err = g.records(ctx, saleID, orders, func(r order.Reservation, _ bool) { found = append(found, r) })
	return found, err
}
