package order

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
)

// noteExpired is the note of a letter that was ignored by itself.
const noteExpired = "its pay window is over"

// Turn takes in new letters, ends those whose consumer has succeeded or whose time is over, and sends each one again
// once, after the pause.
func (d *DeadLetters) Turn(ctx context.Context) error {
	return errors.Join(d.takeIn(ctx), d.endFixed(ctx), d.endExpired(ctx), d.retry(ctx))
}

// takeIn reads rows that a broker, or an instance of an older version, has only just written: it finds out whose they
// are and puts another death of a pending letter to the first.
func (d *DeadLetters) takeIn(ctx context.Context) error {
	for {
		var letters []Letter
		q := d.DB.Read.NewSelect().Model(&letters).Where("state = ? AND last_at = 0", LetterPending)
		if d.Leave > 0 {
			q = q.Where("created_at <= ?", store.Millis(d.Now().Add(-d.Leave)))
		}
		if err := q.Order("id").Limit(atOnce).Scan(ctx); err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		for i := range letters {
			if err := d.takeInOne(ctx, &letters[i]); err != nil {
				return fmt.Errorf("take in dead letter %d: %w", letters[i].ID, err)
			}
		}
		if len(letters) < atOnce || ctx.Err() != nil {
			return nil
		}
	}
}

func (d *DeadLetters) takeInOne(ctx context.Context, l *Letter) error {
	orders, readErr := about(l.Topic, l.Body)
	l.Ours = readErr == nil && !forged(l.Reason)
	mine := false
	err := d.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := store.Affected(ctx, tx, `UPDATE dead_letter SET last_at = created_at, attempts = attempts + 1, ours = ? WHERE id = ? AND last_at = 0`, l.Ours, int64(l.ID))
		if mine = n == 1; err != nil || !mine {
			return err
		}
		earlier, err := d.earlier(ctx, tx, l, orders)
		if err != nil {
			return err
		}
		if earlier != 0 {
			if err := store.Exec(ctx, tx, `UPDATE dead_letter SET last_at = ?, attempts = attempts + ?, reason = ? WHERE id = ?`,
				l.CreatedAt, l.Attempts+1, l.Reason, int64(earlier)); err != nil {
				return err
			}
			return store.Exec(ctx, tx, `DELETE FROM dead_letter WHERE id = ?`, int64(l.ID))
		}
		if !l.Ours {
			return nil
		}
		for _, o := range orders {
			if err := store.Exec(ctx, tx, `INSERT INTO dead_letter_order (letter_id, order_id, pay_before) VALUES (?, ?, ?)`, int64(l.ID), int64(o.OrderID), o.PayBefore); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || !mine {
		return err
	}
	d.Metrics.died.WithLabelValues(topicLabel(l.Topic)).Inc()
	d.Log.ErrorContext(ctx, "a message is a dead letter", "letter", l.ID, "topic", l.Topic, "message", l.Name(), "reason", Masked(l.Reason), "ours", l.Ours)
	return nil
}

// earlier returns the pending letter whose death this one repeats, 0 if there is none: of a reservation that of its
// order, of anything else the same message. What isn't ours is compared whole: it may call itself as it likes.
func (d *DeadLetters) earlier(ctx context.Context, tx bun.Tx, l *Letter, orders []letterOrder) (id.ID, error) {
	var found []Letter
	q := tx.NewSelect().Model(&found).Column("id", "body").Where("topic = ? AND state = ? AND id < ? AND last_at > 0 AND ours = ?", l.Topic, LetterPending, l.ID, l.Ours)
	reservation := l.Ours && l.Topic == TopicCreate && len(orders) == 1
	if reservation {
		about, err := lettersAbout(ctx, tx, orders[0].OrderID)
		if err != nil {
			return 0, err
		}
		q = q.Where("id IN (?)", bun.List(about))
	} else {
		q = q.Where("message_id = ?", l.MessageID)
	}
	if err := q.Order("id").Scan(ctx); err != nil {
		return 0, err
	}
	for _, f := range found {
		if reservation || bytes.Equal(f.Body, l.Body) {
			return f.ID, nil
		}
	}
	return 0, nil
}

// pendingReservations begins a query for pending letters of reservations, with their orders.
func (d *DeadLetters) pendingReservations() *bun.SelectQuery {
	return d.DB.Read.NewSelect().Model((*Letter)(nil)).Column("l.id").Join("JOIN dead_letter_order AS d ON d.letter_id = l.id").
		Where("l.state = ? AND l.topic = ? AND l.ours = ?", LetterPending, TopicCreate, true).Group("l.id").Order("l.id").Limit(atOnce)
}

// endFixed ends the letters of reservations that all have a row by now. It asks for the rows, not for what was sent.
func (d *DeadLetters) endFixed(ctx context.Context) error {
	var ids []id.ID
	err := d.pendingReservations().Join("LEFT JOIN orders AS o ON o.id = d.order_id").Having("COUNT(*) = COUNT(o.id)").Scan(ctx, &ids)
	if err != nil {
		return fmt.Errorf("read fixed dead letters: %w", err)
	}
	return d.end(ctx, ids)
}

// end marks letters as fixed.
func (d *DeadLetters) end(ctx context.Context, ids []id.ID) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := d.DB.Write.NewUpdate().Model((*Letter)(nil)).Set("state = ?", LetterFixed).Set("ended_at = ?", store.Millis(d.Now())).
		Where("id IN (?) AND state = ?", bun.List(ids), LetterPending).Exec(ctx)
	if err != nil {
		return fmt.Errorf("end fixed dead letters: %w", err)
	}
	d.Log.InfoContext(ctx, "dead letters are fixed", "letters", ids)
	return nil
}

// endExpired gives up the reservations that nobody could pay for any more.
func (d *DeadLetters) endExpired(ctx context.Context) error {
	var ids []id.ID
	if err := d.pendingReservations().Having("MAX(d.pay_before) <= ?", store.Millis(d.Now())).Scan(ctx, &ids); err != nil {
		return fmt.Errorf("read expired dead letters: %w", err)
	}
	letters, err := d.findAll(ctx, ids)
	if err != nil {
		return fmt.Errorf("read expired dead letters: %w", err)
	}
	var failed error
	for i := range letters {
		if err := d.giveUp(ctx, &letters[i], 0, noteExpired); err != nil {
			failed = errors.Join(failed, fmt.Errorf("give up dead letter %d: %w", letters[i].ID, err))
		}
	}
	return failed
}

// retry sends each letter of ours again, once. The claim comes first, so that of several instances one does it; if the
// message can't be handed over the claim is taken back.
func (d *DeadLetters) retry(ctx context.Context) error {
	now := d.Now()
	var letters []Letter
	err := d.DB.Read.NewSelect().Model(&letters).Where("state = ? AND ours = 1 AND sent = 0 AND last_at > 0 AND last_at <= ?", LetterPending, store.Millis(now.Add(-d.Pause))).
		Order("id").Limit(atOnce).Scan(ctx)
	if err != nil {
		return fmt.Errorf("read dead letters: %w", err)
	}
	for i := range letters {
		l := &letters[i]
		n, err := store.Affected(ctx, d.DB.Write, `UPDATE dead_letter SET sent = 1, sent_at = ? WHERE id = ? AND state = ? AND sent = 0`, store.Millis(now), int64(l.ID), int(LetterPending))
		if err != nil {
			return fmt.Errorf("claim dead letter %d: %w", l.ID, err)
		}
		if n == 0 {
			continue
		}
		if err := d.send(ctx, l); err != nil {
			undo := store.Exec(context.WithoutCancel(ctx), d.DB.Write, `UPDATE dead_letter SET sent = 0 WHERE id = ? AND sent = 1 AND actor_id = 0`, int64(l.ID))
			return errors.Join(fmt.Errorf("send dead letter %d again: %w", l.ID, err), undo)
		}
		d.Log.InfoContext(ctx, "dead letter sent again by itself", "letter", l.ID, "topic", l.Topic)
	}
	return nil
}

// Watched wraps the consumer of a topic whose success leaves no row: letters of messages that it acks are fixed.
func (d *DeadLetters) Watched(topic string, handle func(context.Context, []queue.Message) []queue.Verdict) func(context.Context, []queue.Message) []queue.Verdict {
	return func(ctx context.Context, batch []queue.Message) []queue.Verdict {
		verdicts := handle(ctx, batch)
		var acked []string
		queue.Sort(len(batch), verdicts, queue.Cases{Ack: func(i int) { acked = append(acked, batch[i].ID) }})
		if err := d.succeeded(context.WithoutCancel(ctx), topic, acked); err != nil {
			d.Log.WarnContext(ctx, "a letter's success could not be noted; it stays pending", "topic", topic, "err", err)
		}
		return verdicts
	}
}

func (d *DeadLetters) succeeded(ctx context.Context, topic string, messages []string) error {
	if len(messages) == 0 {
		return nil
	}
	var ids []id.ID
	err := d.DB.Read.NewSelect().Model((*Letter)(nil)).Column("id").
		Where("topic = ? AND message_id IN (?) AND state = ? AND ours = 1", topic, bun.List(messages), LetterPending).Scan(ctx, &ids)
	if err != nil {
		return err
	}
	return d.end(ctx, ids)
}
