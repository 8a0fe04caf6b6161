package flashsale

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue/stream"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

// Load implements Gate. The entries are written beside the live gate, under names of the epoch, and put in its place
// by one script.
func (g *RedisGate) Load(ctx context.Context, s Snapshot) (bool, error) {
	ready := prepare(s)
	keys := saleKeys(s.SaleID)
	suffix := ":" + strconv.FormatInt(s.Epoch, 10)
	args := []string{strconv.FormatInt(s.Epoch, 10), strconv.FormatInt(ready.stock, 10)}
	for i, entries := range []map[string]string{ready.buyers, ready.orders, ready.requests, ready.pending} {
		key := keys[buyersKey+i] + suffix
		keys, args = append(keys, key), append(args, strconv.Itoa(len(entries)))
		if err := g.write(ctx, key, entries, buyersKey+i == pendingKey); err != nil {
			return false, fmt.Errorf("load sale %d: %w", s.SaleID, outcome(err))
		}
	}
	args = append(args, metaOf(s.Terms)...)
	args = append(args, "incomplete", strconv.FormatInt(store.Millis(s.IncompleteSince), 10))
	if g.Clock != nil {
		args = append(args, "clock", strconv.FormatInt(g.Clock().UnixMilli(), 10))
	}
	// Before the load: from the first order on, whoever looks for one finds this sale on the list.
	if err := g.list(ctx, s.SaleID); err != nil {
		return false, fmt.Errorf("load sale %d: %w", s.SaleID, outcome(err))
	}
	done, err := loadScript.Exec(ctx, g.client, keys, args).AsInt64()
	if err == nil && done < 0 {
		err = errors.New("what was prepared is gone: the server has lost data meanwhile")
	}
	if err != nil {
		return false, fmt.Errorf("load sale %d: %w", s.SaleID, outcome(err))
	}
	return done == 1, nil
}

// list puts a sale on the list of the loaded ones, in the place of whatever else lies there.
func (g *RedisGate) list(ctx context.Context, saleID id.ID) error {
	err := g.client.Do(ctx, g.client.B().Sadd().Key(loadedKey).Member(saleID.String()).Build()).Error()
	if !wrongType(err) {
		return err
	}
	for _, res := range g.client.DoMulti(ctx, g.client.B().Del().Key(loadedKey).Build(), g.client.B().Sadd().Key(loadedKey).Member(saleID.String()).Build()) {
		if err := res.Error(); err != nil {
			return err
		}
	}
	return nil
}

// write fills a hash, or a sorted set of members and their scores.
func (g *RedisGate) write(ctx context.Context, key string, entries map[string]string, sorted bool) error {
	commands := rueidis.Commands{g.client.B().Del().Key(key).Build()}
	name, pairs := "HSET", make([]string, 0, 2*len(entries))
	if sorted {
		name = "ZADD"
	}
	for field, value := range entries {
		if sorted {
			field, value = value, field
		}
		pairs = append(pairs, field, value)
	}
	for chunk := range slices.Chunk(pairs, 2*entriesALoad) {
		commands = append(commands, g.client.B().Arbitrary(name).Keys(key).Args(chunk...).Build())
	}
	commands = append(commands, g.client.B().Pexpire().Key(key).Milliseconds(loadTimeout.Milliseconds()).Build())
	for _, res := range g.client.DoMulti(ctx, commands...) {
		if err := res.Error(); err != nil {
			return err
		}
	}
	return nil
}

// Unload implements Gate. A stream that holds something stays, and the sale on the list, so that the stream is read.
func (g *RedisGate) Unload(ctx context.Context, saleID id.ID) error {
	g.forget(saleID)
	if err := g.client.Do(ctx, g.client.B().Unlink().Key(saleKeys(saleID)...).Build()).Error(); err != nil {
		return err
	}
	if g.Append {
		if removed, err := stream.Remove(ctx, g.client, streamKey(saleID)); err != nil || !removed {
			return err
		}
	}
	return g.client.Do(ctx, g.client.B().Srem().Key(loadedKey).Member(saleID.String()).Build()).Error()
}

// Salvage implements Gate. Records of orders outlive the loss of most other keys, and an older copy of them is as good:
// whether an order has a row meanwhile is for the caller to look up. A gate that one release can't use may be good
// enough for the scripts of another one beside it, but no script goes on when a key has another type than it should.
func (g *RedisGate) Salvage(ctx context.Context, saleID id.ID) ([]order.Reservation, error) {
	shut := g.client.B().Set().Key(saleKeys(saleID)[endedKey]).Value("shut").Build()
	if err := g.client.Do(ctx, shut).Error(); err != nil {
		return nil, fmt.Errorf("shut the gate of sale %d: %w", saleID, err)
	}
	var found []order.Reservation
	err := g.Held(ctx, saleID, func(r order.Reservation, pending bool) {
		if pending {
			found = append(found, r)
		}
	})
	if err != nil && !wrongType(err) {
		return nil, fmt.Errorf("remains of sale %d: %w", saleID, err)
	}
	return found, nil
}

// streamKey is the stream that admit.lua appends to.
func streamKey(saleID id.ID) string { return tag(saleID) + "stream" }

// Streams returns the keys of the streams of the sales that are loaded and of those given, which are open whatever Redis
// says: its list may be lost when accepted orders are not.
func (g *RedisGate) Streams(ctx context.Context, open []id.ID) ([]string, error) {
	loaded, err := g.Loaded(ctx)
	if err != nil {
		return nil, err
	}
	sales := append(loaded, open...)
	slices.Sort(sales)
	sales = slices.Compact(sales)
	keys := make([]string, len(sales))
	for i, saleID := range sales {
		keys[i] = streamKey(saleID)
	}
	return keys, nil
}
