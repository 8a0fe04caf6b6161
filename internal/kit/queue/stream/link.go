package stream

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"tandian/internal/kit/supervise"
)

// listen rings the consumers of what somebody has appended. A bell that is missed costs a second.
func (b *Broker) listen(ctx context.Context) error {
	for {
		// The client subscribes again by itself; what remains is an answer that refuses it, or the end of the client.
		_ = b.Client.Receive(ctx, b.Client.B().Psubscribe().Pattern(anyBell).Build(), b.ring)
		if !supervise.Sleep(ctx, lookEvery) {
			return nil
		}
	}
}

func (b *Broker) ring(m rueidis.PubSubMessage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.consumers {
		if m.Channel == Bell(c.topic) {
			c.ring(m.Message)
		}
	}
}

// watch keeps asking whether Redis is there, so that nobody else has to wait to find out.
func (b *Broker) watch(ctx context.Context) error {
	return supervise.Every(ctx, pingEvery, nil, func(ctx context.Context) error {
		asked, cancel := context.WithTimeout(ctx, scriptTimeout/2)
		defer cancel()
		err := b.Client.Do(asked, b.Client.B().Ping().Build()).Error()
		if ctx.Err() != nil {
			return nil
		}
		switch was := b.down.Swap(err != nil); {
		case err != nil && !was:
			b.Log.WarnContext(ctx, "Redis does not answer; nothing is published meanwhile", "err", err)
		case err == nil && was:
			b.Log.InfoContext(ctx, "Redis answers again")
		}
		return nil
	}, nil)
}

// tidy has the groups forget the consumers of processes that are long gone.
func (b *Broker) tidy(ctx context.Context) error {
	return supervise.Every(ctx, tidyEvery, nil, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, scriptTimeout)
		defer cancel()
		for _, topic := range b.topics() {
			keys, err := b.streams(ctx, topic)
			if err != nil {
				return err
			}
			for _, key := range keys {
				if err := tidyScript.Exec(ctx, b.Client, []string{key}, []string{group, fmt.Sprint(consumerGone.Milliseconds())}).Error(); err != nil {
					return err
				}
			}
		}
		return nil
	}, func(err error) { b.Log.DebugContext(ctx, "consumers that are gone stay in their groups", "err", err) })
}

// topics are those that this process consumes.
func (b *Broker) topics() (topics []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := map[string]bool{}
	for c := range b.consumers {
		if !seen[c.topic] {
			seen[c.topic] = true
			topics = append(topics, c.topic)
		}
	}
	return topics
}
