package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/supervise"
)

// Options say where to reach Redis and what to do there. All are needed but Streams and the times.
type Options struct {
	Client   rueidis.Client // of a server or a cluster, Redis 6.2 or newer; the broker doesn't close it
	Instance string         // names this process in the groups; no two live ones may share it
	Log      *slog.Logger
	// DeadLetter keeps a message that will not be delivered again. It may be called twice for one message and from
	// several goroutines.
	DeadLetter func(ctx context.Context, topic string, m queue.Message, reason error) error
	// Streams lists the further streams of a topic that have entries or will have, for scripts that append to them; nil
	// = none. It is asked once a second. Such a script adds entries with a field body and publishes the stream's key on
	// the topic's Bell.
	Streams func(ctx context.Context, topic string) ([]string, error)
	// ClaimAfter is how long a consumer may show no sign of life before its entries go to others. 0 = 15 s.
	ClaimAfter time.Duration
	// PublishTimeout bounds Publish, whatever its context allows. 0 = 5 s.
	PublishTimeout time.Duration
}

// Bell is the channel on which whoever appends to a stream of the topic publishes the stream's key.
func Bell(topic string) string { return "queue:{" + topic + "}:bell" }

// anyBell is the pattern of all bells.
const anyBell = "queue:*:bell"

// Key is the stream of a topic that Publish appends to.
func Key(topic string) string { return "queue:{" + topic + "}" }

// Delayed is the key beside a stream that holds its delayed messages.
func Delayed(stream string) string { return stream + ":delayed" }

const (
	group = "writers" // of every stream

	claimAfter     = 15 * time.Second
	publishTimeout = 5 * time.Second
	scriptTimeout  = 2 * time.Second
	lookEvery      = time.Second            // at every stream, whoever rang
	pingEvery      = 500 * time.Millisecond // finds out whether Redis is there
	tidyEvery      = time.Minute
	consumerGone   = time.Hour // without a sign of life, and with nothing pending
	page           = 1000      // messages read at once when a backlog is listed
)

// Broker implements queue.Broker over Redis Streams.
type Broker struct {
	Options
	workers *supervise.Group
	down    atomic.Bool // Redis is known not to answer
	named   atomic.Int64

	mu        sync.Mutex
	consumers map[*consumer]struct{} // guarded by mu
}

var _ queue.Broker = (*Broker)(nil)

// Open returns a broker at once. It fails only if the options can't work. The broker must be closed, after its
// consumers have ended. Its workers don't end with ctx.
func Open(ctx context.Context, o Options) (*Broker, error) {
	if o.Client == nil || o.Instance == "" || o.Log == nil || o.DeadLetter == nil {
		return nil, errors.New("stream: an option is missing")
	}
	if o.ClaimAfter == 0 {
		o.ClaimAfter = claimAfter
	}
	if o.PublishTimeout == 0 {
		o.PublishTimeout = publishTimeout
	}
	b := &Broker{Options: o, workers: supervise.New(o.Log, nil), consumers: map[*consumer]struct{}{}}
	b.workers.Start(ctx,
		supervise.Worker{Name: "stream bell", Run: b.listen},
		supervise.Worker{Name: "stream link", Run: b.watch},
		supervise.Worker{Name: "stream tidy", Run: b.tidy})
	return b, nil
}

// Close ends the broker's own workers.
func (b *Broker) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*scriptTimeout)
	defer cancel()
	return b.workers.Stop(ctx)
}

// Up implements queue.Broker.
func (b *Broker) Up() bool { return !b.down.Load() }

// Publish implements queue.Broker.
func (b *Broker) Publish(ctx context.Context, topic, messageID string, body []byte) error {
	return b.publish(ctx, topic, func(ctx context.Context) error {
		return appendScript.Exec(ctx, b.Client, []string{Key(topic)}, []string{Bell(topic), messageID, string(body)}).Error()
	})
}

// PublishAfter implements queue.Broker.
func (b *Broker) PublishAfter(ctx context.Context, topic, messageID string, body []byte, delay time.Duration) error {
	if delay <= 0 {
		return b.Publish(ctx, topic, messageID, body)
	}
	pause := strconv.FormatInt(delay.Milliseconds()+1, 10) // of which Redis's clock may have used up a part
	return b.publish(ctx, topic, func(ctx context.Context) error {
		return delayScript.Exec(ctx, b.Client, withDelayed(Key(topic)), []string{messageID, string(body), pause}).Error()
	})
}

// publish runs a script that takes a message.
func (b *Broker) publish(ctx context.Context, topic string, script func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("publish to %s: %w", topic, err)
	}
	if b.down.Load() {
		return fmt.Errorf("publish to %s: %w: Redis does not answer", topic, queue.ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, b.PublishTimeout)
	defer cancel()
	err := script(ctx)
	switch {
	case err == nil:
		return nil
	case refused(err):
		err = fmt.Errorf("%w: %w", queue.ErrRefused, err)
	}
	return fmt.Errorf("publish to %s: %w", topic, err)
}

// refused reports whether an error says that nothing was appended: Redis said so, or there is nobody to append.
func refused(err error) bool {
	if _, ok := rueidis.IsRedisErr(err); ok {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// streams lists the keys of a topic's streams.
func (b *Broker) streams(ctx context.Context, topic string) ([]string, error) {
	keys := []string{Key(topic)}
	if b.Streams == nil {
		return keys, nil
	}
	further, err := b.Streams(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list the streams of %s: %w", topic, err)
	}
	return append(keys, further...), nil
}

// Remove deletes a stream that others append to, unless it holds messages; it reports whether there is none any more.
func Remove(ctx context.Context, client rueidis.Client, stream string) (bool, error) {
	removed, err := removeScript.Exec(ctx, client, withDelayed(stream), nil).AsBool()
	if err != nil {
		return false, fmt.Errorf("remove %s: %w", stream, err)
	}
	return removed, nil
}

// withDelayed are the keys of the scripts that begin with common.lua.
func withDelayed(stream string) []string { return []string{stream, Delayed(stream)} }

// Depth implements queue.Broker. It counts what all instances hold. Oldest is of the next entry of each stream and of
// the delayed messages that are due first.
func (b *Broker) Depth(ctx context.Context, topic string) (queue.Depth, error) {
	ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
	defer cancel()
	keys, err := b.streams(ctx, topic)
	if err != nil {
		return queue.Depth{}, fmt.Errorf("depth: %w", err)
	}
	var d queue.Depth
	for i, res := range each(keys, func(key string) rueidis.RedisResult {
		return depthScript.Exec(ctx, b.Client, withDelayed(key), []string{group, fmt.Sprint(page)})
	}) {
		n, err := res.AsIntSlice()
		if err != nil || len(n) != 4 {
			return queue.Depth{}, fmt.Errorf("depth of %s: answer of %d parts: %w", keys[i], len(n), err)
		}
		entries, pending, delayed, oldest := n[0], n[1], n[2], n[3]
		d.Unacked += pending
		d.Ready += max(0, entries-pending) + delayed
		d.Oldest = max(d.Oldest, time.Duration(oldest)*time.Millisecond)
	}
	return d, nil
}

// Backlog returns the bodies of all messages of a topic, whoever has them. What is appended or acked meanwhile may be
// among them or not.
func (b *Broker) Backlog(ctx context.Context, topic string) ([][]byte, error) {
	keys, err := b.streams(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("backlog: %w", err)
	}
	var bodies [][]byte
	for _, key := range keys {
		for after := ""; ; {
			parts, err := backlogScript.Exec(ctx, b.Client, withDelayed(key), []string{after, fmt.Sprint(page)}).AsStrSlice()
			if err != nil {
				return nil, fmt.Errorf("backlog of %s: %w", key, err)
			}
			for _, body := range parts[1:] {
				bodies = append(bodies, []byte(body))
			}
			if after = parts[0]; after == "" {
				break
			}
		}
	}
	return bodies, nil
}

// each runs fn for all keys at once, for the client to pipeline them, and returns the results in order.
func each[T any](keys []string, fn func(key string) T) []T {
	results := make([]T, len(keys))
	var wg sync.WaitGroup
	for i, key := range keys[1:] {
		wg.Go(func() { results[i+1] = fn(key) })
	}
	results[0] = fn(keys[0]) // there is nearly always only this one
	wg.Wait()
	return results
}
