package order

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
)

// atOnce bounds how many rows one turn of a worker takes.
const atOnce = 200

// Releaser gives units back to the gate from gate_release rows. Several may run: Release changes nothing the second
// time, and so does deleting the row.
type Releaser struct {
	DB    *store.DB
	Seats Seats
}

// Turn works off all waiting rows, oldest order first. A row whose gate can't be told stays for the next turn and
// holds up no other.
func (r *Releaser) Turn(ctx context.Context) error {
	var failed error
	for after := id.ID(0); ; {
		var rows []release
		if err := r.DB.Read.NewSelect().Model(&rows).Where("order_id > ?", after).Order("order_id").Limit(atOnce).Scan(ctx); err != nil {
			return errors.Join(failed, fmt.Errorf("read gate_release: %w", err))
		}
		var done []id.ID
		for _, row := range rows {
			after = row.OrderID
			if err := r.Seats.Release(ctx, row.SaleID, row.OrderID, row.ForgetRequest); err != nil {
				failed = errors.Join(failed, fmt.Errorf("release order %d: %w", row.OrderID, err))
				continue
			}
			done = append(done, row.OrderID)
		}
		if len(done) > 0 {
			if _, err := r.DB.Write.NewDelete().Model((*release)(nil)).Where("order_id IN (?)", bun.List(done)).Exec(ctx); err != nil {
				return errors.Join(failed, fmt.Errorf("delete gate_release: %w", err))
			}
		}
		if len(rows) < atOnce || ctx.Err() != nil {
			return failed
		}
	}
}

// Forwarder publishes the messages that committed transactions have promised. A message may go out twice. With a created
// event goes the first check of its orders: what the one promises the other does, too, and the writer's transaction has
// a row less to write.
type Forwarder struct {
	DB     *store.DB
	Broker queue.Broker
}

type outboxRow struct {
	bun.BaseModel `bun:"table:outbox"`
	ID            int64 `bun:",pk"`
	Topic         string
	MessageID     string
	Body          []byte
}

// Turn publishes all waiting rows in their order and stops at the first that isn't taken.
func (f *Forwarder) Turn(ctx context.Context) error {
	for {
		var rows []outboxRow
		if err := f.DB.Read.NewSelect().Model(&rows).Order("id").Limit(atOnce).Scan(ctx); err != nil {
			return fmt.Errorf("read outbox: %w", err)
		}
		var done []int64
		var failed error
		for _, row := range rows {
			if failed = f.forward(ctx, row); failed != nil {
				failed = fmt.Errorf("forward outbox row %d: %w", row.ID, failed)
				break
			}
			done = append(done, row.ID)
		}
		if len(done) > 0 {
			if _, err := f.DB.Write.NewDelete().Model((*outboxRow)(nil)).Where("id IN (?)", bun.List(done)).Exec(ctx); err != nil {
				return errors.Join(failed, fmt.Errorf("delete outbox: %w", err))
			}
		}
		if failed != nil || len(rows) < atOnce || ctx.Err() != nil {
			return failed
		}
	}
}

func (f *Forwarder) forward(ctx context.Context, row outboxRow) error {
	if row.Topic == TopicCreated {
		// What can't be read goes on without: its own consumer makes a dead letter of it.
		if c, err := firstCheck(row.MessageID, row.Body); err == nil {
			if err := c.publish(ctx, f.Broker, rungs[0]); err != nil {
				return err
			}
		}
	}
	return f.Broker.Publish(ctx, row.Topic, row.MessageID, row.Body)
}
