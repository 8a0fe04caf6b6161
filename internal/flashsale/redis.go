package flashsale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/queue/stream"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

const (
	loadedKey     = "sales:loaded" // set of sale ids
	buyersAScript = 64
	scriptsAtOnce = 2
	turnTimeout   = 2 * time.Second // for which a buyer waits to get into a call
	scriptTimeout = 2 * time.Second // past it the outcome is unknown
	entriesALoad  = 1000
	loadTimeout   = time.Minute // how long a prepared gate that was never put in place is kept
)

// RedisGate is the gate of the production mode, shared by all instances. Concurrent buyers of a sale in this process
// share one script call; each gets his own verdict.
type RedisGate struct {
	client rueidis.Client
	now    func() time.Time
	// Append has the admitting script put whom it admits into the sale's stream, for a stream.Broker that reads it. It is
	// set before the first call.
	Append bool
	// Clock, in tests, stands in for the server's clock from the next Load on.
	Clock func() time.Time

	mu    sync.Mutex
	sales map[id.ID]*combiner[Request, Verdict] // guarded by mu
	hints hints
}

var _ Gate = (*RedisGate)(nil)

// OpenRedisGate connects to a server or cluster. now is this process's clock, by which it refuses on its own what is
// more than a second outside a sale's window. Close must be called.
func OpenRedisGate(o rueidis.ClientOption, now func() time.Time) (*RedisGate, error) {
	g := &RedisGate{now: now, sales: map[id.ID]*combiner[Request, Verdict]{},
		hints: hints{known: map[id.ID]*hint{}, rest: map[id.ID]time.Time{}, reading: map[id.ID]bool{}}}
	o.OnInvalidations = g.hints.invalidate
	var err error
	g.client, err = rueidis.NewClient(o)
	return g, err
}

// Close ends the connections.
func (g *RedisGate) Close() { g.client.Close() }

// tag makes the keys of a sale meet in one cluster slot.
func tag(saleID id.ID) string { return "{sale:" + saleID.String() + "}:" }

// saleKeys are KEYS[1…7] of the scripts.
func saleKeys(saleID id.ID) []string {
	sale := tag(saleID)
	return []string{sale + "meta", sale + "stock", sale + "buyers", sale + "orders", sale + "requests", sale + "pending", sale + "ended"}
}

const (
	metaKey = iota
	stockKey
	buyersKey
	ordersKey
	requestsKey
	pendingKey
	endedKey
)

func (g *RedisGate) combiner(saleID id.ID) *combiner[Request, Verdict] {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.sales[saleID]
	if c == nil {
		c = &combiner[Request, Verdict]{most: buyersAScript, places: scriptsAtOnce,
			run: func(ctx context.Context, batch []Request) ([]Verdict, error) { return g.admit(ctx, saleID, batch) }}
		g.sales[saleID] = c
	}
	return c
}

// forget drops the combiner of a sale that isn't loaded, and may not even exist. Who waits in it is served all the same.
func (g *RedisGate) forget(saleID id.ID) {
	g.hints.forget(saleID)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sales, saleID)
}

// Admit implements Gate. A server that answers slowly or not at all gets no longer and longer line before it.
func (g *RedisGate) Admit(ctx context.Context, saleID id.ID, r Request) (Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	return g.combiner(saleID).do(ctx, r)
}

func (g *RedisGate) admit(ctx context.Context, saleID id.ID, batch []Request) ([]Verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	keys, args := saleKeys(saleID), make([]string, 1, 1+3*len(batch))
	if g.Append {
		keys, args[0] = append(keys, streamKey(saleID)), stream.Bell(order.TopicCreate)
	}
	for _, r := range batch {
		args = append(args, r.OrderID.String(), r.UserID.String(), r.RequestID)
	}
	res := admitScript.Exec(ctx, g.client, keys, args)
	verdicts := make([]Verdict, len(batch)) // NotLoaded
	if _, closed := causeOf(res); closed {
		g.forget(saleID)
		return verdicts, nil
	}
	answer, err := res.ToArray()
	if err != nil {
		return nil, fmt.Errorf("admit to sale %d: %w", saleID, outcome(err))
	}
	if len(answer) != admitHead+len(batch) {
		return nil, fmt.Errorf("admit to sale %d: answer of %d parts for %d buyers", saleID, len(answer), len(batch))
	}
	head := &numbers{values: answer[1:admitHead]}
	now, amount, voucherID, window := head.next(), head.next(), head.next(), head.next()
	server, err := answer[0].ToString()
	if err := errors.Join(err, head.err); err != nil {
		return nil, fmt.Errorf("admit to sale %d: %w", saleID, err)
	}
	for i, r := range batch {
		parts, err := answer[admitHead+i].ToArray()
		if err != nil {
			return nil, fmt.Errorf("admit to sale %d: %w", saleID, err)
		}
		n := &numbers{values: parts}
		verdicts[i] = n.verdict(order.Reservation{OrderID: r.OrderID, SaleID: saleID, VoucherID: id.ID(voucherID), UserID: r.UserID,
			Amount: money.Fen(amount), RequestID: r.RequestID, AdmittedAt: now, PayBefore: now + window})
		if n.err != nil {
			return nil, fmt.Errorf("admit to sale %d: %w", saleID, n.err)
		}
	}
	if slices.ContainsFunc(verdicts, Verdict.forEverybody) {
		g.learn(ctx, saleID, server)
	}
	return verdicts, nil
}

// admitHead is how many parts of admit.lua's answer stand before the verdicts.
const admitHead = 5

// numbers reads the parts of a script's answer, keeping the first error.
type numbers struct {
	values []rueidis.RedisMessage
	err    error
}

func (n *numbers) next() int64 {
	if n.err != nil || len(n.values) == 0 {
		n.err = cmp.Or(n.err, errors.New("answer too short"))
		return 0
	}
	v, err := n.values[0].AsInt64()
	n.values, n.err = n.values[1:], err
	return v
}

// verdict reads what admit.lua says about one buyer.
func (n *numbers) verdict(r order.Reservation) Verdict {
	switch code := n.next(); code {
	case 1:
		r.Slot = int(n.next())
		return Verdict{Result: Admitted, OrderID: r.OrderID, Reservation: r}
	case 2:
		return Verdict{Result: Repeat, OrderID: id.ID(n.next())}
	case 3:
		v := Verdict{Result: LimitReached}
		for len(n.values) > 0 && n.err == nil {
			v.Orders = append(v.Orders, id.ID(n.next()))
		}
		return v
	case 4:
		return Verdict{Result: SoldOut}
	case 5:
		return Verdict{Result: NotStarted}
	case 6:
		return Verdict{Result: Ended}
	case 7:
		return Verdict{Result: Paused}
	default:
		n.err = cmp.Or(n.err, fmt.Errorf("verdict %d", code))
		return Verdict{}
	}
}

// Answer implements Gate.
func (g *RedisGate) Answer(ctx context.Context, saleID, userID id.ID, requestID string) (id.ID, error) {
	res := answerScript.Exec(ctx, g.client, saleKeys(saleID), []string{userID.String(), requestID})
	if err := loadedOr(res); err != nil {
		return 0, err
	}
	n, err := res.AsInt64()
	return id.ID(n), err
}

// Settle implements Gate.
func (g *RedisGate) Settle(ctx context.Context, saleID id.ID, rs []order.Reservation) error {
	for chunk := range slices.Chunk(rs, entriesALoad) {
		args := make([]string, 0, 8*len(chunk))
		for _, r := range chunk {
			args = append(args, r.OrderID.String(), r.UserID.String(), strconv.Itoa(r.Slot), strconv.FormatInt(int64(r.Amount), 10),
				strconv.FormatInt(r.AdmittedAt, 10), strconv.FormatInt(r.PayBefore, 10), r.VoucherID.String(), r.RequestID)
		}
		if err := loadedOr(settleScript.Exec(ctx, g.client, saleKeys(saleID), args)); err != nil {
			return err
		}
	}
	return nil
}

// Release implements Gate.
func (g *RedisGate) Release(ctx context.Context, saleID, orderID id.ID, forget bool) error {
	flag := "0"
	if forget {
		flag = "1"
	}
	return loadedOr(releaseScript.Exec(ctx, g.client, saleKeys(saleID), []string{orderID.String(), flag}))
}

// loadedOr turns a script's refusal into ErrNotLoaded.
func loadedOr(res rueidis.RedisResult) error {
	if _, closed := causeOf(res); closed {
		return ErrNotLoaded
	}
	return outcome(res.Error())
}

func metaOf(t Terms) []string {
	paused := "0"
	if t.Paused {
		paused = "1"
	}
	return []string{"version", strconv.FormatInt(t.Version, 10), "released", strconv.FormatInt(t.Released, 10), "begin", strconv.FormatInt(store.Millis(t.BeginsAt), 10), "end", strconv.FormatInt(store.Millis(t.EndsAt), 10), "paused", paused,
		"limit", strconv.Itoa(t.Limit), "voucher", t.VoucherID.String(), "amount", strconv.FormatInt(int64(t.Amount), 10),
		"window", strconv.FormatInt(t.PayWindow.Milliseconds(), 10)}
}

// Change implements Gate.
func (g *RedisGate) Change(ctx context.Context, t Terms) error {
	return loadedOr(changeScript.Exec(ctx, g.client, saleKeys(t.SaleID), metaOf(t)))
}

// Withdraw implements Gate.
func (g *RedisGate) Withdraw(ctx context.Context, saleID id.ID, n int64) (bool, error) {
	res := withdrawScript.Exec(ctx, g.client, saleKeys(saleID), []string{strconv.FormatInt(n, 10)})
	if err := loadedOr(res); err != nil {
		return false, err
	}
	return res.AsBool()
}
