package rabbit_test

import (
	"context"
	"testing"
	"time"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/queuetest"
	"tandian/internal/kit/queue/rabbit"
)

func TestContract(t *testing.T) {
	url := shared(t)
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		top, g := topology(t, url), newGrave()
		cable, through := proxy(t, url)
		b := open(t, options(through, top, g))
		t.Log(b.Server())
		return queuetest.Harness{
			Broker: lingering{b},
			Reopen: func() queue.Broker {
				cable.Stop() // what a crash looks like to the server
				return lingering{open(t, options(url, top, g))}
			},
			DeadLetters: func(_ context.Context, topic string) ([]string, error) { return g.reasons(topic), nil },
		}
	})
}

// lingering fills its batches as far as it can: the suite counts on a first batch of five where ten messages wait, and
// here they come one by one over a network.
type lingering struct{ *rabbit.Broker }

func (l lingering) Consume(ctx context.Context, topic string, b queue.Batch, handle func(context.Context, []queue.Message) []queue.Verdict) error {
	b.Linger = max(b.Linger, 200*time.Millisecond)
	return l.Broker.Consume(ctx, topic, b, handle)
}
