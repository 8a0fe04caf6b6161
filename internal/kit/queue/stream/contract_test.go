package stream_test

import (
	"context"
	"testing"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/queuetest"
)

func TestContract(t *testing.T) {
	for name, server := range servers() {
		t.Run(name, func(t *testing.T) {
			server(t)
			queuetest.Run(t, func(t *testing.T) queuetest.Harness {
				dial(t, server(t)).clean(t)
				g := newGrave()
				o := options(t, server(t), g)
				return queuetest.Harness{
					Broker: open(t, o),
					Reopen: func() queue.Broker {
						o.Client.Close() // a hung consumer of a living process would go on showing signs of life
						return open(t, options(t, server(t), g))
					},
					DeadLetters: func(_ context.Context, topic string) ([]string, error) { return g.reasons(topic), nil },
				}
			})
		})
	}
}
