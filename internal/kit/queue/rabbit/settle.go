package rabbit

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/supervise"
)

const (
	deadLetterTimeout = 10 * time.Second
	republishPause    = time.Second
)

// work hands the valid messages of a batch to the handler and carries out its verdicts. An error means that the
// channel is lost, and everything that was not settled comes again.
func (c *consumer) work(ctx context.Context, batch []*delivery, handle func(context.Context, []queue.Message) []queue.Verdict) error {
	var valid []*delivery
	var messages []queue.Message
	for _, d := range batch {
		var err error
		switch {
		case d.invalid != nil:
			err = c.dead(ctx, d, d.invalid)
		case d.wait > 0:
			err = c.delay(ctx, d, d.message, d.wait)
		default:
			valid = append(valid, d)
			messages = append(messages, d.message)
		}
		if err != nil {
			return err
		}
	}
	if len(valid) == 0 {
		return nil
	}
	return c.settle(ctx, valid, handle(ctx, messages))
}

// settle carries out verdicts. The acks come last, as one: whatever else is in the batch is settled by then.
func (c *consumer) settle(ctx context.Context, batch []*delivery, verdicts []queue.Verdict) (err error) {
	var acked []*delivery
	do := func(next error) {
		if err == nil {
			err = next
		}
	}
	queue.Sort(len(batch), verdicts, queue.Cases{
		Ack: func(i int) { acked = append(acked, batch[i]) },
		Retry: func(i int, after time.Duration) {
			if err == nil {
				m := batch[i].message
				m.Attempts++
				do(c.delay(ctx, batch[i], m, after))
			}
		},
		Dead: func(i int, reason error) {
			if err == nil {
				do(c.dead(ctx, batch[i], reason))
			}
		},
		Requeue: func(i int) {
			if err == nil {
				do(c.giveBack(batch[i]))
			}
		},
	})
	if err != nil || len(acked) == 0 {
		return err
	}
	if err := acked[len(acked)-1].Ack(true); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	c.settled(acked...)
	return nil
}

// delay puts a message into a delay queue and takes the delivered one out.
func (c *consumer) delay(ctx context.Context, d *delivery, m queue.Message, pause time.Duration) error {
	level, left := c.route.level(pause)
	return c.replace(ctx, d, "", c.route.delayQueue(level), c.seal.publishing(c.route.Topic, m, left))
}

// dead keeps a message as a dead letter and takes it out. While that can't be done it is parked in the dead letter
// queue, so that the others flow.
func (c *consumer) dead(ctx context.Context, d *delivery, reason error) error {
	if reason == nil {
		reason = fmt.Errorf("no reason given")
	}
	err := c.bury(ctx, c.route.Topic, d.message, reason)
	if err == nil {
		return c.ack(d)
	}
	c.Log.ErrorContext(ctx, "a dead letter could not be kept and is parked", "queue", c.Topology.DeadQueue, "message", d.MessageId, "reason", reason, "err", err)
	return c.replace(ctx, d, c.Topology.DeadExchange, c.Topology.DeadQueue, parked(&d.Delivery, c.route.Topic, reason))
}

// bury calls DeadLetter, also when the consumer is being stopped.
func (b *Broker) bury(ctx context.Context, topic string, m queue.Message, reason error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deadLetterTimeout)
	defer cancel()
	return b.DeadLetter(ctx, topic, m, reason)
}

// replace publishes what comes instead of a delivery and acks that. Until the other is certainly there it tries again;
// when the consumer is being stopped the delivery goes back instead. Consuming pauses meanwhile: the server is in
// trouble.
func (c *consumer) replace(ctx context.Context, d *delivery, exchange, key string, message amqp.Publishing) error {
	for {
		err := c.publisher.send(context.WithoutCancel(ctx), exchange, key, message)
		if err == nil {
			return c.ack(d)
		}
		if c.ch.IsClosed() {
			return errCancelled
		}
		if !supervise.Sleep(ctx, republishPause) {
			return c.giveBack(d)
		}
	}
}

func (c *consumer) ack(d *delivery) error {
	if err := d.Ack(false); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	c.settled(d)
	return nil
}

func (c *consumer) giveBack(d *delivery) error {
	if err := d.Nack(false, true); err != nil {
		return fmt.Errorf("requeue: %w", err)
	}
	c.settled(d)
	return nil
}

func (c *consumer) settled(done ...*delivery) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range done {
		delete(c.open, d.DeliveryTag)
	}
}
