// Package queue exists so that the order pipeline doesn't know which broker carries it. A Broker moves opaque
// messages at least once, in batches. A message is a hint: everything a lost one would have done is also done by a
// scan of durable rows, and everything it does a second time changes nothing.
package queue

import (
	"context"
	"errors"
	"time"
)

// Message is what a publisher hands over and a consumer gets.
type Message struct {
	ID       string // unique per message (UUID); the same on every redelivery
	Body     []byte
	Attempts int       // how often a consumer asked for a retry so far
	At       time.Time // when the broker took it
}

// ErrRefused means that the message is certainly not in the queue and never will be. Every other error of Publish
// means "unknown": it may be there.
var ErrRefused = errors.New("queue: refused")

// Verdict is what a consumer says about one message. The zero Verdict is a requeue: the safe answer of a handler
// that forgot.
type Verdict struct {
	kind  verdictKind
	after time.Duration
	err   error
}

type verdictKind int

const (
	requeue verdictKind = iota
	ack
	retry
	dead
)

// Ack takes the message out of the queue for ever.
func Ack() Verdict { return Verdict{kind: ack} }

// Requeue leaves the message as it is, without counting an attempt: the consumer is going away or the database is.
func Requeue() Verdict { return Verdict{kind: requeue} }

// Retry counts an attempt and delivers the message again after the pause at the earliest.
func Retry(after time.Duration, err error) Verdict {
	return Verdict{kind: retry, after: after, err: err}
}

// Dead moves the message to the dead letters with the reason.
func Dead(err error) Verdict { return Verdict{kind: dead, err: err} }

// Cases are what a broker does about each verdict; i is the message's place in the batch. Nil skips.
type Cases struct {
	Ack     func(i int)
	Retry   func(i int, after time.Duration)
	Dead    func(i int, reason error)
	Requeue func(i int)
}

// Sort calls the case of each of n verdicts; missing ones are requeues.
func Sort(n int, verdicts []Verdict, c Cases) {
	for i := range n {
		v := Verdict{}
		if i < len(verdicts) {
			v = verdicts[i]
		}
		switch {
		case v.kind == ack && c.Ack != nil:
			c.Ack(i)
		case v.kind == retry && c.Retry != nil:
			c.Retry(i, v.after)
		case v.kind == dead && c.Dead != nil:
			c.Dead(i, v.err)
		case v.kind == requeue && c.Requeue != nil:
			c.Requeue(i)
		}
	}
}

// Batch says how much a handler gets at once: at most Max messages, waiting up to Linger for more after the first.
type Batch struct {
	Max    int
	Linger time.Duration
}

// Depth is what waits in a topic.
type Depth struct {
	Ready   int64         // waiting for a consumer, delayed ones included
	Unacked int64         // with a consumer
	Oldest  time.Duration // age of the oldest of both
}

// Broker is safe for concurrent use.
type Broker interface {
	// Publish hands one message over. nil = it is durably in the queue; ErrRefused = certainly not; anything else,
	// a timeout above all = unknown.
	Publish(ctx context.Context, topic, messageID string, body []byte) error
	// PublishAfter is Publish for a message that is delivered when delay has passed: never earlier, and later by what the
	// broker's clock is coarse: at most the shortest pause it knows.
	PublishAfter(ctx context.Context, topic, messageID string, body []byte, delay time.Duration) error
	// Up reports, without a round trip, whether a message could be handed over now as far as this process knows. False
	// is certain: Publish would answer ErrRefused.
	Up() bool
	// Consume delivers batches to handle, one batch at a time, until ctx ends; it then waits for the running
	// handle, carries out its verdicts and returns nil. The handler's ctx is the one given here. Several consumers
	// of a topic share its messages. Messages without a verdict at the end, or when the process dies, come again.
	Consume(ctx context.Context, topic string, b Batch, handle func(ctx context.Context, batch []Message) []Verdict) error
	// Depth counts a topic's messages.
	Depth(ctx context.Context, topic string) (Depth, error)
}
