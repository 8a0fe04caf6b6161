package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/supervise"
)

// rungs are the pauses before each check of an unpaid order (P2). After the last the deadline itself is waited for.
var rungs = [...]time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute, 10 * time.Minute}

// check is the body of a check message: the orders of one batch of the writer's. Such a message only makes things
// happen earlier; a lost one is made good by the Closer's scan.
type check struct {
	Version    int     `json:"v"`
	MsgID      string  `json:"msgId"` // of the batch; the message's own id is this and the index
	OrderIDs   []id.ID `json:"orderIds"`
	CheckIndex int     `json:"checkIndex"` // from 0
}

// publish sends the check on its way.
func (c check) publish(ctx context.Context, b queue.Broker, after time.Duration) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return b.PublishAfter(ctx, TopicCheck, fmt.Sprintf("%s-%d", c.MsgID, c.CheckIndex), body, after)
}

// firstCheck is the bottom of the ladder for the orders of a created event.
func firstCheck(messageID string, created []byte) (check, error) {
	ids, err := decodeCreated(created)
	return check{Version: messageVersion, MsgID: messageID, OrderIDs: ids}, err
}

func decodeCheck(body []byte) (c check, err error) {
	switch err := json.Unmarshal(body, &c); {
	case err != nil:
		return c, fmt.Errorf("check message: %w", err)
	case c.Version != messageVersion:
		return c, fmt.Errorf("check message: version %d, want %d", c.Version, messageVersion)
	case len(c.OrderIDs) == 0 || c.MsgID == "" || c.CheckIndex < 0:
		return c, errors.New("check message: no orders, no id or no index")
	}
	return c, nil
}

// Checker is the consumer of TopicCheck.
type Checker struct {
	*Closer
	Broker queue.Broker
}

// Handle looks at the orders of each message: it closes those that are overdue, asks the providers about the attempts to
// pay the others, and sends the next check for these.
func (k *Checker) Handle(ctx context.Context, batch []queue.Message) []queue.Verdict {
	verdicts := make([]queue.Verdict, len(batch))
	asking, stop := context.WithTimeout(ctx, askBudget)
	defer stop()
	for i, m := range batch {
		c, err := decodeCheck(m.Body)
		if err != nil {
			verdicts[i] = queue.Dead(err)
			continue
		}
		if err := k.look(ctx, asking, c); err != nil {
			k.Log.WarnContext(ctx, "database or queue trouble, checking pauses", "err", err)
			supervise.Sleep(ctx, firstBackoff)
			continue // requeued
		}
		verdicts[i] = queue.Ack()
	}
	return verdicts
}

func (k *Checker) look(ctx, asking context.Context, c check) error {
	now := k.Now()
	var unpaid []Order
	err := k.DB.Read.NewSelect().Model(&unpaid).Column("id", "sale_id", "pay_before").
		Where("id IN (?) AND status = ?", bun.List(c.OrderIDs), Unpaid).Order("id").Scan(ctx)
	if err != nil {
		return fmt.Errorf("read orders: %w", err)
	}
	if len(unpaid) == 0 {
		return nil
	}
	reached, err := checksOf(ctx, k.DB.Read, idsOf(unpaid))
	if err != nil {
		return fmt.Errorf("read pay_check: %w", err)
	}
	var due, open []Order
	for _, o := range unpaid {
		switch {
		case o.PayBefore <= store.Millis(now):
			due = append(due, o)
		case reached[o.ID] <= c.CheckIndex: // else this check has been here before
			open = append(open, o)
		}
	}
	if len(due) > 0 {
		if err := k.closeDue(ctx, asking, due, now); err != nil {
			return err
		}
	}
	if len(open) == 0 {
		return nil
	}
	answers, err := k.ask(ctx, open, func(orderID id.ID) (bool, error) { return false, k.Payments.AskOpen(asking, orderID) })
	if err != nil {
		return err
	}
	for orderID, a := range answers {
		if a.err != nil {
			k.Log.DebugContext(ctx, "a provider didn't answer a check", "order", orderID, "err", a.err)
		}
	}
	return k.climb(ctx, c, open, reached, now)
}

// climb sends the next check of the orders and notes this one as done. In this order: a crash in between repeats the
// check, and the next one comes twice and is noticed by its index.
func (k *Checker) climb(ctx context.Context, c check, open []Order, reached map[id.ID]int, now time.Time) error {
	next := check{Version: messageVersion, MsgID: c.MsgID, OrderIDs: idsOf(open), CheckIndex: c.CheckIndex + 1}
	pause := time.Duration(1<<63 - 1)
	if next.CheckIndex < len(rungs) {
		pause = rungs[next.CheckIndex]
	}
	for _, o := range open {
		pause = min(pause, store.Time(o.PayBefore).Sub(now))
	}
	if err := next.publish(ctx, k.Broker, pause); err != nil {
		return err
	}
	return noteChecks(ctx, k.DB, next.OrderIDs, reached, next.CheckIndex)
}

// checksOf returns how many checks each of the orders has had.
func checksOf(ctx context.Context, q store.Querier, orders []id.ID) (map[id.ID]int, error) {
	var rows []struct {
		OrderID    id.ID
		CheckIndex int
	}
	err := q.NewSelect().Table("pay_check").Column("order_id", "check_index").Where("order_id IN (?)", bun.List(orders)).Scan(ctx, &rows)
	reached := make(map[id.ID]int, len(rows))
	for _, r := range rows {
		reached[r.OrderID] = r.CheckIndex
	}
	return reached, err
}

// noteChecks keeps how many checks the orders have had by now.
func noteChecks(ctx context.Context, db *store.DB, orders []id.ID, reached map[id.ID]int, n int) error {
	type payCheck struct {
		bun.BaseModel `bun:"table:pay_check"`
		OrderID       id.ID
		CheckIndex    int
	}
	var first []payCheck
	var later []id.ID
	for _, o := range orders {
		if _, known := reached[o]; known {
			later = append(later, o)
		} else {
			first = append(first, payCheck{OrderID: o, CheckIndex: n})
		}
	}
	if len(first) > 0 {
		// A duplicate means that the same check runs twice at once, to the same end.
		if _, err := db.Write.NewInsert().Model(&first).Exec(ctx); err != nil && !db.IsDuplicate(err) {
			return fmt.Errorf("note checks: %w", err)
		}
	}
	if len(later) > 0 {
		if _, err := db.Write.NewUpdate().Table("pay_check").Set("check_index = ?", n).
			Where("order_id IN (?) AND check_index < ?", bun.List(later), n).Exec(ctx); err != nil {
			return fmt.Errorf("note checks: %w", err)
		}
	}
	return nil
}
