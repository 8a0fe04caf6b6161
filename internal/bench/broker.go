package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Names of the queues on RabbitMQ, as the product documents them.
const (
	createQueue = "voucher.order.create.queue"
	retryDelay  = "voucher.order.notify.delay." // and a pause
	checkDelay  = "voucher.order.pay.delay."    // and a pause
)

// queues are all that may hold messages of a run. Those that a server doesn't have are passed over.
func queues() []string {
	list := []string{createQueue, "voucher.order.notify.queue", "voucher.order.pay.check.queue", "voucher.order.dlq"}
	for _, name := range []string{"voucher.order.create.delay.", retryDelay, "voucher.order.pay.check.delay.", checkDelay} {
		for _, pause := range []string{"1s", "2s", "4s", "10s", "15s", "30s", "1m0s", "3m0s", "10m0s"} {
			list = append(list, name+pause)
		}
	}
	return list
}

// broker is a connection to RabbitMQ beside that of the servers. Where there is none, nil, nothing waits and nobody
// consumes.
type broker struct {
	conn *amqp.Connection
	name string // with its version
}

func openBroker(url string) (*broker, error) {
	conn, err := amqp.DialConfig(url, amqp.Config{Dial: amqp.DefaultDial(3 * time.Second), Heartbeat: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	version, _ := conn.Properties["version"].(string)
	return &broker{conn, "RabbitMQ " + version}, nil
}

func (b *broker) close() {
	if b != nil {
		_ = b.conn.Close() // nothing is pending on it
	}
}

// each calls do for each queue that exists, on a channel of its own: a question about one that doesn't ends it.
func (b *broker) each(list []string, do func(*amqp.Channel, amqp.Queue) error) error {
	if b == nil {
		return nil
	}
	for _, name := range list {
		ch, err := b.conn.Channel()
		if err != nil {
			return err
		}
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		var missing *amqp.Error
		if errors.As(err, &missing) && missing.Code == amqp.NotFound {
			continue
		}
		if err == nil {
			err = do(ch, q)
		}
		if err = errors.Join(err, ch.Close()); err != nil {
			return fmt.Errorf("queue %s: %w", name, err)
		}
	}
	return nil
}

// depth counts the messages in all queues, and who consumes the orders.
func (b *broker) depth() (messages, consumers int, err error) {
	err = b.each(queues(), func(_ *amqp.Channel, q amqp.Queue) error {
		messages += q.Messages
		if q.Name == createQueue {
			consumers = q.Consumers
		}
		return nil
	})
	return messages, consumers, err
}

func (b *broker) purge() error {
	return b.each(queues(), func(ch *amqp.Channel, q amqp.Queue) error {
		_, err := ch.QueuePurge(q.Name, false)
		return err
	})
}

// delay puts Options.Delayed messages into the delay queue with the longest pause, where they wait until the run is
// over: what a sale leaves there for half an hour while the next one sells.
func (r *run) delay(ctx context.Context) error {
	if r.opts.Delayed == 0 {
		return nil
	}
	var found []string
	err := r.stores.broker.each([]string{checkDelay + "10m0s", retryDelay + "1m0s"}, func(_ *amqp.Channel, q amqp.Queue) error {
		found = append(found, q.Name)
		return nil
	})
	if err == nil && len(found) == 0 {
		err = errors.New("the server has no delay queue that is known here")
	}
	if err != nil {
		return err
	}
	r.meter.enter("delayed messages", r.opts.Delayed)
	r.delayed = &Delayed{Queue: found[0], Messages: r.opts.Delayed}
	return r.stores.broker.publish(ctx, found[0], r.opts.Delayed, func(n int) { r.meter.done.Store(int64(n)) })
}

// publish fills a queue with messages that nobody will read, and waits until the server has them all.
func (b *broker) publish(ctx context.Context, queue string, n int, progress func(int)) error {
	const window = 1000
	ch, err := b.conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }() // all that matters is confirmed
	if err := ch.Confirm(false); err != nil {
		return err
	}
	body := []byte(`{"msgId":"00000000-0000-0000-0000-000000000000","orderIds":["1000000000000000000"],"checkIndex":4}`)
	for done := 0; done < n; done += window {
		var confirms []*amqp.DeferredConfirmation
		for range min(window, n-done) {
			c, err := ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body})
			if err != nil {
				return err
			}
			confirms = append(confirms, c)
		}
		for _, c := range confirms {
			if ok, err := c.WaitContext(ctx); err != nil || !ok {
				return fmt.Errorf("fill %s: confirmed %v: %w", queue, ok, err)
			}
		}
		progress(done)
	}
	return nil
}

// countDelayed looks how many of the delayed messages are still there.
func (r *run) countDelayed() error {
	if r.delayed == nil {
		return nil
	}
	return r.stores.broker.each([]string{r.delayed.Queue}, func(_ *amqp.Channel, q amqp.Queue) error {
		r.delayed.Left = q.Messages
		return nil
	})
}
