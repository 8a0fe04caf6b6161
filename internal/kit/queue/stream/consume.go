package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/supervise"
)

const (
	// aloneAfter deliveries without a verdict an entry travels alone: if it kills its consumers, then without company.
	aloneAfter = 2
	// deliveryLimit is how often an entry is delivered without a verdict before it is a dead letter.
	deliveryLimit = 5
	// requeuePause keeps a handler that wants nothing from being asked all the time.
	requeuePause = 100 * time.Millisecond
)

// consumer is one running call of Consume. Its name is its own, so that whatever is pending under it between two batches
// got lost on the way.
type consumer struct {
	*Broker
	topic, name string
	batch       queue.Batch
	streams     []string // as last listed
	look        *time.Timer
	lookAt      time.Time           // when look fires
	failing     map[string]struct{} // streams whose trouble has been logged
	requeued    bool                // a message of the last batch

	wake chan struct{} // capacity 1
	mu   sync.Mutex
	rung map[string]struct{} // streams to look at; guarded by mu
}

// delivery is an entry with a consumer.
type delivery struct {
	stream, entry string
	deliveries    int64
	message       queue.Message
	invalid       error // why no handler may see it
}

// Consume implements queue.Broker. It outlives the server, the streams and the group.
func (b *Broker) Consume(ctx context.Context, topic string, batch queue.Batch, handle func(context.Context, []queue.Message) []queue.Verdict) error {
	if batch.Max < 1 {
		return fmt.Errorf("consume %s: no batch size", topic)
	}
	c := &consumer{Broker: b, topic: topic, name: fmt.Sprintf("%s-%d", b.Instance, b.named.Add(1)), batch: batch, streams: []string{Key(topic)},
		look: time.NewTimer(0), failing: map[string]struct{}{}, wake: make(chan struct{}, 1), rung: map[string]struct{}{}}
	defer c.look.Stop()
	b.mu.Lock()
	b.consumers[c] = struct{}{}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.consumers, c)
	}()
	c.run(ctx, handle)
	c.leave(ctx) // not after a panic: what was being handled then must count as delivered
	return nil
}

func (c *consumer) run(ctx context.Context, handle func(context.Context, []queue.Message) []queue.Verdict) {
	for {
		streams := c.next(ctx)
		if streams == nil {
			return
		}
		batch := c.take(ctx, streams, c.batch.Max, true)
		if len(batch) == 0 {
			continue
		}
		alone := slices.ContainsFunc(batch, (*delivery).alone)
		if !alone && len(batch) < c.batch.Max && c.batch.Linger > 0 && supervise.Sleep(ctx, c.batch.Linger) {
			batch = append(batch, c.take(ctx, streams, c.batch.Max-len(batch), false)...)
		}
		c.work(ctx, batch, handle)
		if c.requeued {
			c.requeued = false
			supervise.Sleep(ctx, requeuePause)
		}
	}
}

// next waits for streams to look at. It returns nil when ctx has ended.
func (c *consumer) next(ctx context.Context) []string {
	for ctx.Err() == nil {
		select { // a busy stream must not keep the others from being looked at
		case <-c.look.C:
			return c.all(ctx)
		default:
		}
		if rung := c.answer(); len(rung) > 0 {
			return rung
		}
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-c.look.C:
			return c.all(ctx)
		}
	}
	return nil
}

// all lists the streams anew.
func (c *consumer) all(ctx context.Context) []string {
	c.lookAt = time.Now().Add(lookEvery)
	c.look.Reset(lookEvery)
	c.answer()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scriptTimeout)
	defer cancel()
	streams, err := c.Broker.streams(ctx, c.topic)
	if c.complain(ctx, "", err); err == nil {
		c.streams = streams
	}
	return c.streams
}

// lookWithin looks at all streams after d at the latest.
func (c *consumer) lookWithin(d time.Duration) {
	if at := time.Now().Add(d); at.Before(c.lookAt) {
		c.lookAt = at
		c.look.Reset(d)
	}
}

// ring notes that a stream has something new.
func (c *consumer) ring(key string) {
	c.mu.Lock()
	c.rung[key] = struct{}{}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// answer returns the streams of this topic that were rung for. One that isn't known yet has all of them looked at.
func (c *consumer) answer() (streams []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.rung {
		if slices.Contains(c.streams, key) {
			streams = append(streams, key)
		} else {
			c.lookWithin(0)
		}
	}
	clear(c.rung)
	return streams
}

// take asks for up to room entries. Whatever goes wrong with one stream is tried again at the next look. It isn't called
// back by a stop: an answer that nobody waits for would leave entries behind.
func (c *consumer) take(ctx context.Context, streams []string, room int, empty bool) (batch []*delivery) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scriptTimeout)
	defer cancel()
	for _, key := range streams[min(room, len(streams)):] {
		c.ring(key) // there is no room for all
	}
	streams = streams[:min(room, len(streams))]
	share := room / len(streams)
	args := []string{group, c.name, strconv.Itoa(share), strconv.FormatInt(c.ClaimAfter.Milliseconds(), 10), strconv.Itoa(aloneAfter), "0"}
	if empty {
		args[5] = "1"
	}
	results := each(streams, func(key string) rueidis.RedisResult { return takeScript.Exec(ctx, c.Client, withDelayed(key), args) })
	for i, key := range streams {
		got, due, err := read(key, results[i])
		c.complain(ctx, key, err)
		if due >= 0 {
			c.lookWithin(due)
		}
		if len(got) == share || slices.ContainsFunc(got, (*delivery).alone) {
			c.ring(key) // there may be more
		}
		batch = append(batch, got...)
	}
	return batch
}

// complain logs the first of a row of errors of a stream; nil ends the row.
func (c *consumer) complain(ctx context.Context, key string, err error) {
	if err == nil {
		delete(c.failing, key)
		return
	}
	if _, told := c.failing[key]; !told {
		c.failing[key] = struct{}{}
		c.Log.WarnContext(ctx, "a stream can't be consumed", "topic", c.topic, "stream", key, "err", err)
	}
}

// read takes the answer of take.lua apart. due is negative when nothing is delayed.
func read(key string, res rueidis.RedisResult) (batch []*delivery, due time.Duration, err error) {
	parts, err := res.ToArray()
	if err != nil {
		return nil, -1, err
	}
	ms, err := parts[0].AsInt64()
	if err != nil {
		return nil, -1, err
	}
	for _, part := range parts[1:] {
		p, err := part.ToArray()
		if err != nil || len(p) != 3 {
			return batch, -1, fmt.Errorf("entry of %d parts: %w", len(p), err)
		}
		d := &delivery{stream: key}
		var err2 error
		d.entry, err = p[0].ToString()
		d.deliveries, err2 = p[1].AsInt64()
		fields, err3 := p[2].AsStrMap()
		if err := errors.Join(err, err2, err3); err != nil {
			return batch, -1, err
		}
		d.open(fields)
		batch = append(batch, d)
	}
	return batch, time.Duration(ms) * time.Millisecond, nil
}

// open reads the message of an entry. One that a script has appended is named after its place.
func (d *delivery) open(fields map[string]string) {
	body, ok := fields["body"]
	d.message = queue.Message{ID: fields["id"], Body: []byte(body)}
	if d.message.ID == "" {
		d.message.ID = d.stream + "/" + d.entry
	}
	at, _, _ := strings.Cut(d.entry, "-")
	if fields["at"] != "" {
		at = fields["at"]
	}
	ms, err := strconv.ParseInt(at, 10, 64)
	if fields["attempts"] != "" {
		var err2 error
		d.message.Attempts, err2 = strconv.Atoi(fields["attempts"])
		err = errors.Join(err, err2)
	}
	d.message.At = time.UnixMilli(ms)
	switch {
	case !ok || err != nil:
		d.message.Body = fmt.Append(nil, fields)
		d.invalid = errors.Join(errors.New("stream: the entry is not a message"), err)
	case d.deliveries > deliveryLimit:
		d.invalid = fmt.Errorf("stream: delivered %d times without a verdict; it may be what ends its consumers", d.deliveries-1)
	}
}

// alone reports whether an entry must not share a batch.
func (d *delivery) alone() bool { return d.deliveries > aloneAfter }
