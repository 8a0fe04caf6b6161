package rabbit_test

import (
	"context"
	"testing"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/queuetest"
)

func TestContract(t *testing.T) {
	url := shared(t)
	queuetest.Run(t, func(t *testing.T) queuetest.Harness {
		top, g := topology(t, url), newGrave()
		cable, through := proxy(t, url)
		b := open(t, options(through, top, g))
		t.Log(b.Server())
		return queuetest.Harness{
			Broker: b,
			Reopen: func() queue.Broker {
				cable.Stop() // what a crash looks like to the server
				return open(t, options(url, top, g))
			},
			DeadLetters: func(_ context.Context, topic string) ([]string, error) { return g.reasons(topic), nil },
		}
	})
}
