package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/supervise"
)

// Options say how to reach the server and what to do there. All are needed but ConfirmTimeout.
type Options struct {
	URL      string // amqp:// or amqps://user:password@host:port/vhost; never logged
	Topology Topology
	Secret   []byte // key of the MAC, shared by all instances; at least 16 bytes
	Now      func() time.Time
	Log      *slog.Logger
	// DeadLetter keeps a message that will not be delivered again. It may be called twice for one message and from
	// several goroutines. What a forged message says of itself, its id above all, is arbitrary.
	DeadLetter func(ctx context.Context, topic string, m queue.Message, reason error) error
	// ConfirmTimeout bounds Publish, whatever its context allows. 0 = 5 s.
	ConfirmTimeout time.Duration
}

const (
	minSecret      = 16              // bytes
	confirmTimeout = 5 * time.Second // by default
	maxID          = 255             // bytes; what AMQP can carry
)

func (o *Options) check() error {
	if _, err := amqp.ParseURI(o.URL); err != nil {
		return errors.New("RabbitMQ: not a URL of the form amqp://user:password@host:port/vhost") // the cause would show the password
	}
	if len(o.Secret) < minSecret {
		return fmt.Errorf("RabbitMQ: the secret has %d bytes, want at least %d", len(o.Secret), minSecret)
	}
	if o.Now == nil || o.Log == nil || o.DeadLetter == nil {
		return errors.New("RabbitMQ: an option is missing")
	}
	if o.ConfirmTimeout == 0 {
		o.ConfirmTimeout = confirmTimeout
	}
	return o.Topology.check()
}

// Broker implements queue.Broker over RabbitMQ 3.10 or newer.
type Broker struct {
	Options
	seal       seal
	publisher  *publisher
	publishing *link
	consuming  *link
	workers    *supervise.Group
	mend       chan struct{} // capacity 1: something is missing on the server
	declaring  sync.Mutex    // two connections declaring one quorum queue at once get in each other's way

	mu        sync.Mutex
	consumers map[string]map[*consumer]struct{} // by topic; guarded by mu
}

var _ queue.Broker = (*Broker)(nil)

// Open starts connecting and returns at once: the server may come up later. It fails only if the options can't work.
// The broker must be closed. Its workers don't end with ctx.
func Open(ctx context.Context, o Options) (*Broker, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	b := &Broker{Options: o, seal: seal(o.Secret), mend: make(chan struct{}, 1), consumers: map[string]map[*consumer]struct{}{},
		publishing: newLink("publishing", o.URL, o.Log), consuming: newLink("consuming", o.URL, o.Log), workers: supervise.New(o.Log, nil)}
	b.publisher = &publisher{timeout: o.ConfirmTimeout, declare: b.declare, repair: b.repair}
	b.publishing.serve = b.publisher.serve
	b.consuming.serve = b.serveConsumers
	b.workers.Start(ctx,
		supervise.Worker{Name: "rabbit publishing", Run: b.publishing.run},
		supervise.Worker{Name: "rabbit consuming", Run: b.consuming.run},
		supervise.Worker{Name: "rabbit dead letters", Run: b.drain})
	return b, nil
}

// Close ends the connections. Publish answers queue.ErrRefused afterwards, and running calls of Consume return.
func (b *Broker) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*answerTimeout)
	defer cancel()
	return b.workers.Stop(ctx)
}

// Ready waits until both connections can be used. When ctx ends before that it says what stands in the way.
func (b *Broker) Ready(ctx context.Context) error {
	for _, l := range []*link{b.publishing, b.consuming} {
		if _, err := l.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Up reports without asking the server whether it is known to take messages: false while there is no connection or
// while the server has announced that it is short of memory or disk.
func (b *Broker) Up() bool { return b.publisher.up() }

// Delivering reports without asking the server whether consumers have a connection. It is another one than the
// publishers': messages may be taken and not delivered here.
func (b *Broker) Delivering() bool {
	s, _, _ := b.consuming.state()
	return s != nil
}

// Server returns the server's name and version, or "" while there is no connection.
func (b *Broker) Server() string {
	s, _, _ := b.consuming.state()
	if s == nil {
		return ""
	}
	return s.server()
}

// Publish implements queue.Broker.
func (b *Broker) Publish(ctx context.Context, topic, messageID string, body []byte) error {
	return b.PublishAfter(ctx, topic, messageID, body, 0)
}

// PublishAfter implements queue.Broker. A delay that is no level of the topic's is waited for in several of them, one
// after the other; the last may be too long by less than the shortest level.
func (b *Broker) PublishAfter(ctx context.Context, topic, messageID string, body []byte, delay time.Duration) error {
	route, ok := b.Topology.topic(topic)
	switch {
	case !ok:
		return fmt.Errorf("publish to %s: %w", topic, refused("no such topic"))
	case len(messageID) > maxID:
		return fmt.Errorf("publish to %s: %w", topic, refused("the message id is too long"))
	}
	m := queue.Message{ID: messageID, Body: body, At: b.Now()}
	exchange, key, left := route.Exchange, route.Key, time.Duration(0)
	if delay > 0 {
		var level time.Duration
		level, left = route.level(delay)
		exchange, key = "", route.delayQueue(level)
	}
	if err := b.publisher.send(ctx, exchange, key, b.seal.publishing(topic, m, left)); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	return nil
}

// Depth implements queue.Broker. Ready is the server's count; Unacked and Oldest are of what this process has with its
// consumers, fetched ahead included: what waits with other instances can't be asked for in AMQP, and nor can how old
// the messages in a queue are. Oldest is 0 when this process has none.
func (b *Broker) Depth(ctx context.Context, topic string) (queue.Depth, error) {
	route, ok := b.Topology.topic(topic)
	if !ok {
		return queue.Depth{}, fmt.Errorf("depth of %s: no such topic", topic)
	}
	s, _, err := b.consuming.state()
	if s == nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", topic, err)
	}
	ready, err := s.count(ctx, route)
	if missing := (*amqp.Error)(nil); errors.As(err, &missing) && missing.Code == amqp.NotFound {
		b.repair()
	}
	if err != nil {
		return queue.Depth{}, fmt.Errorf("depth of %s: %w", topic, err)
	}
	d := b.held(topic)
	d.Ready = ready
	return d, nil
}

// held is the part of the depth that is with this process.
func (b *Broker) held(topic string) (d queue.Depth) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	for c := range b.consumers[topic] {
		n, oldest := c.held()
		d.Unacked += n
		if n > 0 {
			d.Oldest = max(d.Oldest, now.Sub(oldest))
		}
	}
	return d
}

// declare makes the topology exist.
func (b *Broker) declare(ch *amqp.Channel) error {
	b.declaring.Lock()
	defer b.declaring.Unlock()
	return b.Topology.declare(ch)
}

// repair has the topology declared again soon.
func (b *Broker) repair() {
	select {
	case b.mend <- struct{}{}:
	default:
	}
}
