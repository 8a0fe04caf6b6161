package rabbit

import (
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Route is the way of one topic through the server.
type Route struct {
	Topic    string
	Exchange string // direct
	Key      string
	Queue    string // the only one bound to the key: with two, a nack no longer means "not queued"

	// What has to wait does so in delay queues, one for each level and named Delay and the level: first in that of the
	// longest level that isn't too long, then in the next for what is left.
	Delay  string
	Levels []time.Duration // ascending

	MaxLength int64 // of the queue; a publisher is refused beyond it. 0 = no limit of ours
}

// Topology is everything that must exist on the server. It is declared on every connection and again whenever a part
// turns out to be missing.
type Topology struct {
	Routes []Route
	// What the server itself gives up on, and dead letters that Options.DeadLetter could not keep.
	DeadExchange, DeadQueue string
}

// Orders is the topology of the order pipeline.
func Orders() Topology {
	levels := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 15 * time.Second, time.Minute}
	checks := []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute, 10 * time.Minute}
	return Topology{
		Routes: []Route{
			{Topic: "voucher.order.create", Exchange: "order.event.exchange", Key: "voucher.order.create", Queue: "voucher.order.create.queue",
				Delay: "voucher.order.create.delay.", Levels: levels},
			{Topic: "voucher.order.created", Exchange: "order.event.exchange", Key: "voucher.order.created", Queue: "voucher.order.notify.queue",
				Delay: "voucher.order.notify.delay.", Levels: levels},
			{Topic: "voucher.order.pay.check", Exchange: "order.delay.exchange", Key: "voucher.order.pay.check", Queue: "voucher.order.pay.check.queue",
				Delay: "voucher.order.pay.delay.", Levels: checks},
		},
		DeadExchange: "order.dlx.exchange",
		DeadQueue:    "voucher.order.dlq",
	}
}

// Prefixed returns the topology with other names on the server, so that several can share one.
func (t Topology) Prefixed(prefix string) Topology {
	t.Routes = slices.Clone(t.Routes)
	for i := range t.Routes {
		r := &t.Routes[i]
		r.Exchange, r.Queue, r.Delay = prefix+r.Exchange, prefix+r.Queue, prefix+r.Delay
	}
	t.DeadExchange, t.DeadQueue = prefix+t.DeadExchange, prefix+t.DeadQueue
	return t
}

func (t Topology) check() error {
	if t.DeadExchange == "" || t.DeadQueue == "" {
		return errors.New("topology: no dead letter exchange or queue")
	}
	topics, queues := map[string]bool{}, map[string]bool{t.DeadQueue: true}
	for _, r := range t.Routes {
		switch {
		case r.Topic == "" || r.Exchange == "" || r.Key == "" || r.Queue == "" || r.Delay == "":
			return fmt.Errorf("topology: the route of %q lacks a name", r.Topic)
		case topics[r.Topic] || queues[r.Queue]:
			return fmt.Errorf("topology: %q or its queue is there twice", r.Topic)
		case len(r.Levels) == 0 || r.Levels[0] <= 0 || !slices.IsSorted(r.Levels):
			return fmt.Errorf("topology: the levels of %q are not ascending pauses", r.Topic)
		}
		topics[r.Topic], queues[r.Queue] = true, true
	}
	return nil
}

func (t Topology) route(is func(Route) bool) (Route, bool) {
	if i := slices.IndexFunc(t.Routes, is); i >= 0 {
		return t.Routes[i], true
	}
	return Route{}, false
}

func (t Topology) topic(name string) (Route, bool) {
	return t.route(func(r Route) bool { return r.Topic == name })
}

// delayQueue is where a retry waits for a level.
func (r Route) delayQueue(level time.Duration) string { return r.Delay + level.String() }

// level returns the level that a pause begins with and what is left of the pause after it.
func (r Route) level(pause time.Duration) (level, left time.Duration) {
	level = r.Levels[0]
	for _, longer := range r.Levels[1:] {
		if longer <= pause {
			level = longer
		}
	}
	return level, max(0, pause-level)
}

const (
	// deliveryLimit is how often the server delivers a message that nobody answers before it is a dead letter. It
	// counts every consumer that went away with the message merely fetched, so it is far above our own attempts.
	deliveryLimit = 100
	// unlimited is for the dead letters themselves: newer servers have a default limit and would drop them.
	unlimited = 1 << 30
)

// quorum returns the arguments common to all our queues: replicated, and refusing rather than dropping when full.
func quorum(args amqp.Table) amqp.Table {
	args["x-queue-type"] = "quorum"
	args["x-overflow"] = "reject-publish"
	return args
}

// deadLetteringTo makes a queue keep a message until the next one has confirmed it.
func deadLetteringTo(exchange, key string, args amqp.Table) amqp.Table {
	args["x-dead-letter-exchange"] = exchange
	args["x-dead-letter-routing-key"] = key
	args["x-dead-letter-strategy"] = "at-least-once"
	return quorum(args)
}

// declare makes everything exist. It changes nothing that does, and fails if something of the same name is of another
// make.
func (t Topology) declare(ch *amqp.Channel) error {
	d := declarer{ch: ch, exchanges: map[string]bool{}}
	d.queue(t.DeadQueue, quorum(amqp.Table{"x-delivery-limit": int64(unlimited)}))
	d.bind(t.DeadQueue, t.DeadQueue, t.DeadExchange)
	for _, r := range t.Routes {
		args := amqp.Table{"x-delivery-limit": int64(deliveryLimit)}
		if r.MaxLength > 0 {
			args["x-max-length"] = r.MaxLength
		}
		d.queue(r.Queue, deadLetteringTo(t.DeadExchange, t.DeadQueue, args))
		d.bind(r.Queue, r.Key, r.Exchange)
		for _, level := range r.Levels {
			d.queue(r.delayQueue(level), deadLetteringTo(r.Exchange, r.Key, amqp.Table{"x-message-ttl": level.Milliseconds()}))
		}
	}
	return d.err
}

// declarer stops at the first error, which closes the channel.
type declarer struct {
	ch        *amqp.Channel
	exchanges map[string]bool
	err       error
}

func (d *declarer) queue(name string, args amqp.Table) {
	if d.err != nil {
		return
	}
	if _, err := d.ch.QueueDeclare(name, true, false, false, false, args); err != nil {
		d.err = fmt.Errorf("declare queue %s: %w", name, err)
	}
}

func (d *declarer) bind(queue, key, exchange string) {
	if d.err == nil && !d.exchanges[exchange] {
		d.exchanges[exchange] = true
		if err := d.ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, true, false, false, false, nil); err != nil {
			d.err = fmt.Errorf("declare exchange %s: %w", exchange, err)
		}
	}
	if d.err == nil {
		if err := d.ch.QueueBind(queue, key, exchange, false, nil); err != nil {
			d.err = fmt.Errorf("bind %s to %s: %w", queue, exchange, err)
		}
	}
}
