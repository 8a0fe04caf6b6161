package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/supervise"
)

const (
	// mendPause is how long a missing part stays missing. A queue that comes back while the server is still taking the
	// old one down keeps the old one's consumers, who then get nothing.
	mendPause = time.Second
	// grace is the shortest linger: what is ready on the server arrives message by message, and without a moment's
	// patience nearly every batch would be of one.
	grace = 2 * time.Millisecond
)

// serveConsumers is the consuming link's: consumers open their own channels on the session; here it is mended and
// asked.
func (b *Broker) serveConsumers(ctx context.Context, s *session, ready func()) error {
	mend := func() error {
		ch, err := s.channel(b.declare)
		if err != nil {
			return err
		}
		return s.within(answerTimeout, ch.Close)
	}
	if err := mend(); err != nil {
		return err
	}
	ready()
	var due <-chan time.Time // when to mend
	for {
		select {
		case ask := <-s.asks:
			ask()
		case <-b.mend:
			if due == nil {
				due = time.After(mendPause)
			}
		case <-due:
			due = nil
			if err := mend(); err != nil {
				return err
			}
			b.Log.WarnContext(ctx, "a part of the RabbitMQ topology was missing and has been declared again")
		case err := <-s.lost:
			return lostBecause(err)
		case <-ctx.Done():
			return nil
		}
	}
}

// count asks how many messages wait in the queues of a route.
func (s *session) count(ctx context.Context, r Route) (int64, error) {
	type answer struct {
		n   int64
		err error
	}
	answers := make(chan answer, 1)
	ask := func() {
		var a answer
		a.n, a.err = s.countNow(r)
		answers <- a
	}
	select {
	case s.asks <- ask:
	case <-s.gone:
		return 0, errDown
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	select {
	case a := <-answers:
		return a.n, a.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (s *session) countNow(r Route) (n int64, err error) {
	queues := []string{r.Queue}
	for _, level := range r.Levels {
		queues = append(queues, r.delayQueue(level))
	}
	ch, err := s.channel(func(ch *amqp.Channel) error {
		for _, name := range queues {
			q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
			if err != nil {
				return err
			}
			n += int64(q.Messages)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, s.within(answerTimeout, ch.Close)
}

// consumer is one run of a consumer on one session.
type consumer struct {
	*Broker
	route      Route
	batch      queue.Batch
	ch         *amqp.Channel
	deliveries chan *delivery // closed when nothing more will come
	forwarded  sync.WaitGroup

	mu   sync.Mutex
	open map[uint64]time.Time // delivery tag of what is not settled → when it was published; guarded by mu
}

// delivery is a message with a consumer.
type delivery struct {
	amqp.Delivery
	message queue.Message
	wait    time.Duration // its pause isn't over
	invalid error         // why no handler may see it
}

// Consume implements queue.Broker. It outlives the connection and the queue, and returns an error only when there is
// no such topic or the broker was closed.
func (b *Broker) Consume(ctx context.Context, topic string, batch queue.Batch, handle func(context.Context, []queue.Message) []queue.Verdict) error {
	route, ok := b.Topology.topic(topic)
	if !ok || batch.Max < 1 {
		return fmt.Errorf("consume %s: no such topic, or no batch size", topic)
	}
	return b.stay(ctx, route.Queue, func(ctx context.Context, s *session) error {
		c, err := b.newConsumer(s, route, batch)
		if err != nil {
			return err
		}
		defer c.stop(s)
		return c.run(ctx, handle)
	})
}

// stay consumes again whenever consume ends, until ctx does. The log tells the first of a row of failures.
func (b *Broker) stay(ctx context.Context, queue string, consume func(ctx context.Context, s *session) error) error {
	told := false
	for pause := mendPause; ; pause = min(2*pause, longPause) {
		s, err := b.consuming.wait(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		began := time.Now()
		err = consume(ctx, s)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > longPause {
			pause, told = mendPause, false
		}
		if !told {
			b.Log.WarnContext(ctx, "consuming was interrupted", "queue", queue, "err", err)
			told = true
		}
		if !supervise.Sleep(ctx, pause) {
			return nil
		}
	}
}

func (b *Broker) newConsumer(s *session, route Route, batch queue.Batch) (*consumer, error) {
	c := &consumer{Broker: b, route: route, batch: batch, open: map[uint64]time.Time{}}
	ahead := 2 * batch.Max // one batch is fetched while the other is handled
	raw, err := b.subscribe(s, route.Queue, ahead, &c.ch)
	if err != nil {
		return nil, err
	}
	// The library's channel has no room, so that a look at it tells nothing. Here is room for all that can come.
	c.deliveries = make(chan *delivery, ahead)
	c.forwarded.Go(func() {
		defer close(c.deliveries)
		for d := range raw {
			c.deliveries <- c.receive(d)
		}
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.consumers[route.Topic] == nil {
		b.consumers[route.Topic] = map[*consumer]struct{}{}
	}
	b.consumers[route.Topic][c] = struct{}{}
	return c, nil
}

// subscribe opens a channel of its own for a consumer. The topology is declared before, for the queue may be what was
// missing.
func (b *Broker) subscribe(s *session, queue string, ahead int, ch **amqp.Channel) (raw <-chan amqp.Delivery, err error) {
	*ch, err = s.channel(func(ch *amqp.Channel) error {
		if err := b.declare(ch); err != nil {
			return err
		}
		if err := ch.Qos(ahead, 0, false); err != nil {
			return fmt.Errorf("set prefetch: %w", err)
		}
		raw, err = ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			return fmt.Errorf("consume %s: %w", queue, err)
		}
		return nil
	})
	return raw, err
}

// stop gives back what was fetched and not settled.
func (c *consumer) stop(s *session) {
	_ = s.within(answerTimeout, c.ch.Close) // it may be lost already
	c.forwarded.Wait()
	c.Broker.mu.Lock()
	defer c.Broker.mu.Unlock()
	delete(c.consumers[c.route.Topic], c)
}

func (c *consumer) receive(raw amqp.Delivery) *delivery {
	d := &delivery{Delivery: raw}
	d.message, d.wait, d.invalid = c.seal.open(c.route.Topic, &d.Delivery)
	since := d.message.At
	if d.invalid != nil {
		since = c.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[d.DeliveryTag] = since
	return d
}

func (c *consumer) held() (n int64, oldest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.open {
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
	}
	return int64(len(c.open)), oldest
}

var errCancelled = errors.New("rabbit: the server ended the consumer; its queue or the connection is gone")

func (c *consumer) run(ctx context.Context, handle func(context.Context, []queue.Message) []queue.Verdict) error {
	for {
		batch, err := c.gather(ctx)
		if err != nil || batch == nil {
			return err
		}
		if err := c.work(ctx, batch, handle); err != nil {
			return err
		}
	}
}

// gather waits for a batch. It returns nil when ctx has ended.
func (c *consumer) gather(ctx context.Context) ([]*delivery, error) {
	if ctx.Err() != nil { // though more may be here already
		return nil, nil
	}
	var batch []*delivery
	select {
	case <-ctx.Done():
		return nil, nil
	case d, ok := <-c.deliveries:
		if !ok {
			return nil, errCancelled
		}
		batch = append(batch, d)
	}
	linger := time.NewTimer(max(c.batch.Linger, grace))
	defer linger.Stop()
	for len(batch) < c.batch.Max {
		select {
		case d, ok := <-c.deliveries:
			if !ok {
				return nil, errCancelled // all of it comes again
			}
			batch = append(batch, d)
		case <-linger.C:
			return batch, nil
		case <-ctx.Done():
			return batch, nil
		}
	}
	return batch, nil
}
