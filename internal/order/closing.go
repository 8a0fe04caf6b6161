package order

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

const (
	// CloseEvery lies between two scans for overdue orders: with closeGrace and askBudget what bounds how late an order
	// is closed when no check message comes.
	CloseEvery = 5 * time.Second
	// closeGrace is how long after its deadline an order stays open because a provider doesn't say what became of an
	// attempt to pay it. Money that arrives after the close is refunded.
	closeGrace = 20 * time.Second
	// askBudget is what one scan, or one check, spends on asking providers.
	askBudget = 4 * time.Second
	askAtOnce = 8 // orders
)

// Closer ends unpaid orders (P3, P4). Several may run, in one process or many: each close is a conditional update.
type Closer struct {
	DB       *store.DB
	Payments Payments // nil = there are none
	Now      func() time.Time
	Log      *slog.Logger
	Closed   func(ids []id.ID) // told of ids that have been closed; not nil
	Ended    func()            // told that gate_release rows are waiting; not nil
}

// Turn closes all orders that are overdue, the longest overdue first. Those that a provider may yet have money for stay
// for another turn, within closeGrace, and hold up no other.
func (c *Closer) Turn(ctx context.Context) error {
	now := c.Now()
	until := store.Millis(now)
	if failpoint.On(failpoint.CloseEarly) {
		until += time.Hour.Milliseconds()
	}
	asking, stop := context.WithTimeout(ctx, askBudget)
	defer stop()
	var after Order
	for {
		due, err := findDue(ctx, c.DB.Read, until, after, atOnce)
		if err != nil {
			return fmt.Errorf("read overdue orders: %w", err)
		}
		if len(due) == 0 {
			return nil
		}
		after = due[len(due)-1]
		if err := c.closeDue(ctx, asking, due, now); err != nil {
			return err
		}
		if len(due) < atOnce || ctx.Err() != nil {
			return nil
		}
	}
}

// findDue lists unpaid orders whose deadline has come, by deadline, after the given one.
func findDue(ctx context.Context, q store.Querier, now int64, after Order, limit int) ([]Order, error) {
	var due []Order
	err := q.NewSelect().Model(&due).Column("id", "sale_id", "pay_before").
		Where("status = ? AND pay_before >= ? AND pay_before <= ? AND (pay_before > ? OR id > ?)", Unpaid, after.PayBefore, now, after.PayBefore, after.ID).
		Order("pay_before", "id").Limit(int64(limit)).Scan(ctx)
	return due, err
}

// closeDue closes orders whose deadline lies at now or before; asking bounds what providers are asked.
func (c *Closer) closeDue(ctx, asking context.Context, due []Order, now time.Time) error {
	answers, err := c.ask(ctx, due, func(orderID id.ID) (bool, error) { return c.Payments.CloseOpen(asking, orderID) })
	if err != nil {
		return err
	}
	ready := due[:0:0]
	for _, o := range due {
		switch a := answers[o.ID]; {
		case a.err == nil && !a.paid:
			ready = append(ready, o)
		case a.err != nil && !now.Before(store.Time(o.PayBefore).Add(closeGrace)):
			c.Log.WarnContext(ctx, "closed although it isn't known whether money is on its way; it will be refunded", "order", o.ID, "err", a.err)
			ready = append(ready, o)
		}
	}
	_, err = c.close(ctx, ready, ReasonTimeout, System)
	return err
}

type answer struct {
	paid bool
	err  error
}

// ask asks about the payments of those orders that have an open attempt, some at a time. The others are not in the
// answers, and cost one query together.
func (c *Closer) ask(ctx context.Context, orders []Order, about func(orderID id.ID) (paid bool, err error)) (map[id.ID]answer, error) {
	if c.Payments == nil {
		return nil, nil
	}
	open, err := c.Payments.WithOpen(ctx, idsOf(orders))
	if err != nil {
		return nil, fmt.Errorf("read open payments: %w", err)
	}
	var mu sync.Mutex
	answers := make(map[id.ID]answer, len(open)) // guarded by mu
	var asking sync.WaitGroup
	room := make(chan struct{}, askAtOnce)
	for _, orderID := range open {
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			paid, err := about(orderID)
			mu.Lock()
			defer mu.Unlock()
			answers[orderID] = answer{paid, err}
		})
	}
	asking.Wait()
	return answers, nil
}

func idsOf(orders []Order) []id.ID {
	ids := make([]id.ID, len(orders))
	for i, o := range orders {
		ids[i] = o.ID
	}
	return ids
}

// Close closes one order, whatever its deadline, and reports whether it did: false = the order isn't unpaid (any more).
// It returns ErrUnknown while a provider doesn't say what became of an attempt to pay it.
func (c *Closer) Close(ctx context.Context, orderID id.ID, reason string, by Actor) (bool, error) {
	o, err := findByID(ctx, c.DB, c.DB.Read, orderID)
	if err != nil || o == nil || o.Status != Unpaid {
		return false, err
	}
	if c.Payments != nil {
		paid, err := c.Payments.CloseOpen(ctx, orderID)
		if err != nil {
			return false, ErrUnknown.With(err)
		}
		if paid {
			return false, nil
		}
	}
	closed, err := c.close(ctx, []Order{*o}, reason, by)
	if errors.Is(err, store.ErrCommitUnknown) {
		err = ErrUnknown.With(err)
	}
	return len(closed) == 1, err
}

// close moves those that are still unpaid, in one transaction.
func (c *Closer) close(ctx context.Context, orders []Order, reason string, by Actor) (closed []Order, err error) {
	if len(orders) == 0 {
		return nil, nil
	}
	err = c.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		closed, err = closeAll(ctx, tx, orders, reason, by, store.Millis(c.Now()))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("close %d orders: %w", len(orders), err)
	}
	c.Closed(idsOf(closed))
	c.Ended()
	return closed, nil
}
