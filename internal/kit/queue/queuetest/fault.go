package queuetest

import (
	"context"
	"sync/atomic"
	"time"

	"tandian/internal/kit/queue"
)

// Faulty is a broker that fails on request: OnPublish stands between the publisher and the real broker, may call
// deliver or not, and decides what the publisher hears. Without it everything goes through.
type Faulty struct {
	queue.Broker
	down      atomic.Bool
	forgetful atomic.Bool
	onPublish atomic.Pointer[func(deliver func() error) error]
}

// OnPublish sets the fault; nil ends it.
func (f *Faulty) OnPublish(fault func(deliver func() error) error) {
	if fault == nil {
		f.onPublish.Store(nil)
		return
	}
	f.onPublish.Store(&fault)
}

// SetDown makes the broker known to be down, or not.
func (f *Faulty) SetDown(down bool) { f.down.Store(down) }

// Up implements queue.Broker.
func (f *Faulty) Up() bool { return !f.down.Load() && f.Broker.Up() }

// SetForgetful makes the broker lose every delayed message that it is given from now on, and say that it has it.
func (f *Faulty) SetForgetful(forgetful bool) { f.forgetful.Store(forgetful) }

// Publish implements queue.Broker.
func (f *Faulty) Publish(ctx context.Context, topic, messageID string, body []byte) error {
	return f.through(func() error { return f.Broker.Publish(context.WithoutCancel(ctx), topic, messageID, body) }) // it may be late
}

// PublishAfter implements queue.Broker.
func (f *Faulty) PublishAfter(ctx context.Context, topic, messageID string, body []byte, delay time.Duration) error {
	return f.through(func() error {
		if f.forgetful.Load() {
			return nil
		}
		return f.Broker.PublishAfter(context.WithoutCancel(ctx), topic, messageID, body, delay)
	})
}

func (f *Faulty) through(deliver func() error) error {
	if fault := f.onPublish.Load(); fault != nil {
		return (*fault)(deliver)
	}
	return deliver()
}
