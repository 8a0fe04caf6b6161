package order

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/supervise"
)

// Notification tells the outside that orders have been written (S10). It comes at least once: ID is the same every time,
// and so is all else, so that a receiver may drop what he has seen.
type Notification struct {
	ID     string         `json:"id"`
	Type   string         `json:"type"` // "order.created"
	Orders []CreatedOrder `json:"orders"`
}

// CreatedOrder is an order as it was written. Where it stands now is another question.
type CreatedOrder struct {
	OrderID    id.ID     `json:"orderId"`
	SaleID     id.ID     `json:"saleId"`
	VoucherID  id.ID     `json:"voucherId"`
	UserID     id.ID     `json:"userId"`
	Amount     money.Fen `json:"amount"`
	AdmittedAt time.Time `json:"admittedAt"`
	PayBefore  time.Time `json:"payBefore"`
}

// Sender carries a notification to somebody: LogSender to the log, WebhookSender to a server of the operator's.
type Sender interface {
	// Send returns nil when the notification has arrived, ErrGone (wrapped) when it never will, and any other error
	// when it should be tried again. It may be called for several notifications at once.
	Send(ctx context.Context, n Notification) error
}

// ErrGone means that the receiver wants no more notifications.
var ErrGone = errors.New("order: the receiver of notifications is gone")

// LogSender writes notifications to the log.
type LogSender struct{ Log *slog.Logger }

// Send implements Sender.
func (s LogSender) Send(ctx context.Context, n Notification) error {
	ids := make([]id.ID, len(n.Orders))
	for i, o := range n.Orders {
		ids[i] = o.OrderID
	}
	s.Log.DebugContext(ctx, "orders created", "notification", n.ID, "orders", ids)
	return nil
}

const (
	notifyAttempts   = 8               // until a notification is a dead letter
	notifyLongest    = 5 * time.Minute // between two attempts, whatever the receiver asks for
	createdEventType = "order.created"
)

// Notifier is the consumer of TopicCreated.
type Notifier struct {
	DB     *store.DB
	Sender Sender
	Log    *slog.Logger
}

// Handle sends the batch's notifications side by side, so that one receiver who is slow to answer costs one wait.
func (n *Notifier) Handle(ctx context.Context, batch []queue.Message) []queue.Verdict {
	verdicts := make([]queue.Verdict, len(batch))
	var wg sync.WaitGroup
	for i, m := range batch {
		wg.Go(func() { verdicts[i] = n.notify(ctx, m) })
	}
	wg.Wait()
	return verdicts
}

func (n *Notifier) notify(ctx context.Context, m queue.Message) queue.Verdict {
	ids, err := decodeCreated(m.Body)
	if err != nil {
		return queue.Dead(err)
	}
	note := Notification{ID: m.ID, Type: createdEventType}
	if note.Orders, err = n.created(ctx, ids); err != nil {
		n.Log.WarnContext(ctx, "database trouble, notifying pauses", "err", err)
		supervise.Sleep(ctx, firstBackoff)
		return queue.Requeue() // no attempt is counted for it
	}
	err = n.Sender.Send(ctx, note)
	var later *RetryLaterError
	switch {
	case err == nil:
		return queue.Ack()
	case ctx.Err() != nil: // we are going away, which is not the receiver's fault
		return queue.Requeue()
	case errors.Is(err, ErrGone) || m.Attempts+1 >= notifyAttempts:
		n.Log.ErrorContext(ctx, "notification becomes a dead letter", "notification", m.ID, "err", err)
		return queue.Dead(err)
	case errors.As(err, &later):
		return queue.Retry(min(max(later.After, firstBackoff), notifyLongest), err)
	}
	return queue.Retry(min(firstBackoff<<m.Attempts, notifyLongest), err)
}

// created reads the orders' rows; they were written by the transaction that promised the event.
func (n *Notifier) created(ctx context.Context, ids []id.ID) ([]CreatedOrder, error) {
	var rows []Order
	err := n.DB.Read.NewSelect().Model(&rows).Column("id", "sale_id", "voucher_id", "user_id", "amount", "admitted_at", "pay_before").
		Where("id IN (?)", bun.List(ids)).Order("id").Scan(ctx)
	orders := make([]CreatedOrder, len(rows))
	for i, r := range rows {
		orders[i] = CreatedOrder{OrderID: r.ID, SaleID: r.SaleID, VoucherID: r.VoucherID, UserID: r.UserID, Amount: r.Amount,
			AdmittedAt: store.Time(r.AdmittedAt), PayBefore: store.Time(r.PayBefore)}
	}
	return orders, err
}

// decodeCreated reads the ids of a created event. It refuses anything that Writer could not have announced.
func decodeCreated(body []byte) ([]id.ID, error) {
	var event struct {
		Version  int     `json:"v"`
		OrderIDs []id.ID `json:"orderIds"`
	}
	if err := json.Unmarshal(body, &event); err != nil {
		return nil, fmt.Errorf("created event: %w", err)
	}
	if event.Version != messageVersion {
		return nil, fmt.Errorf("created event: version %d, want %d", event.Version, messageVersion)
	}
	if len(event.OrderIDs) == 0 {
		return nil, errors.New("created event: no orders")
	}
	return event.OrderIDs, nil
}
