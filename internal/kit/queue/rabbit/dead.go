package rabbit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/supervise"
)

const (
	maxReason  = 1000            // bytes of a parked reason
	drainPause = 5 * time.Second // before a dead letter that can't be kept goes to the end of its queue
	drainAhead = 10              // messages fetched
)

// parked is a message on its way to the dead letter queue. Its own headers stay as they were: a forged message must
// not get a MAC of ours.
func parked(d *amqp.Delivery, topic string, reason error) amqp.Publishing {
	headers := maps.Clone(d.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	text := reason.Error()
	headers[headerTopic] = topic
	headers[headerReason] = strings.ToValidUTF8(text[:min(len(text), maxReason)], "")
	return amqp.Publishing{MessageId: d.MessageId, CorrelationId: d.CorrelationId, DeliveryMode: amqp.Persistent, Timestamp: d.Timestamp, Headers: headers, Body: d.Body}
}

// drain empties the dead letter queue into DeadLetter: what the server gave up on, and what was parked.
func (b *Broker) drain(ctx context.Context) error {
	return b.stay(ctx, b.Topology.DeadQueue, func(ctx context.Context, s *session) error {
		var ch *amqp.Channel
		raw, err := b.subscribe(s, b.Topology.DeadQueue, drainAhead, &ch)
		if err != nil {
			return err
		}
		defer func() { _ = s.within(answerTimeout, ch.Close) }() // it may be lost already
		for {
			select {
			case d, ok := <-raw:
				if !ok {
					return errCancelled
				}
				if err := b.drainOne(ctx, &d); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
}

func (b *Broker) drainOne(ctx context.Context, d *amqp.Delivery) error {
	topic, m, reason := b.autopsy(d)
	if err := b.bury(ctx, topic, m, reason); err != nil {
		b.Log.ErrorContext(ctx, "a dead letter stays in its queue", "queue", b.Topology.DeadQueue, "message", d.MessageId, "err", err)
		if !supervise.Sleep(ctx, drainPause) {
			return nil
		}
		// To the end of the queue, so that one that can never be kept doesn't stand before the others.
		if err := b.publisher.send(context.WithoutCancel(ctx), b.Topology.DeadExchange, b.Topology.DeadQueue, parked(d, topic, reason)); err != nil {
			return errors.Join(err, d.Nack(false, true))
		}
	}
	if err := d.Ack(false); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	return nil
}

// autopsy finds out whose message a dead letter was and what it died of. The topic is "" when nobody knows.
func (b *Broker) autopsy(d *amqp.Delivery) (topic string, m queue.Message, reason error) {
	topic, _ = d.Headers[headerTopic].(string)
	why, _ := d.Headers[headerReason].(string)
	if why == "" {
		from, died := lastDeath(d.Headers)
		if r, ok := b.Topology.route(func(r Route) bool { return r.Queue == from }); ok {
			topic = r.Topic
		}
		why = fmt.Sprintf("the server gave up: %s", died)
	}
	m, _, err := b.seal.open(topic, d)
	if err != nil {
		return topic, m, err
	}
	return topic, m, errors.New(why)
}

// lastDeath tells where and why the server gave a message up. Its first death is another one if it has ever waited: to
// leave a delay queue is to die there.
func lastDeath(headers amqp.Table) (queue, reason string) {
	deaths, _ := headers["x-death"].([]any)
	if len(deaths) == 0 {
		return "", ""
	}
	last, _ := deaths[0].(amqp.Table) // the latest comes first
	queue, _ = last["queue"].(string)
	reason, _ = last["reason"].(string)
	return queue, reason
}
