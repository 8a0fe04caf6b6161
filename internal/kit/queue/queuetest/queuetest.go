// Package queuetest is the contract that every queue.Broker keeps, as a test suite.
package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tandian/internal/kit/queue"
)

// Harness is one broker under test.
type Harness struct {
	Broker queue.Broker
	// Reopen returns a broker over the same durable state, as after a crash of this process.
	Reopen func() queue.Broker
	// DeadLetters returns the reasons kept for a topic.
	DeadLetters func(ctx context.Context, topic string) ([]string, error)
}

// patience is how long the suite waits for an event before it calls it lost.
const patience = 20 * time.Second

// Run runs the contract; open makes a fresh harness with empty queues.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	t.Run("every message is delivered, whole, in batches of at most Max", func(t *testing.T) {
		h := open(t)
		const n = 50
		for i := range n {
			publish(t, h.Broker, "a", i)
		}
		publish(t, h.Broker, "other", 999)
		got := newTally()
		stop := consume(t, h.Broker, "a", queue.Batch{Max: 7}, func(batch []queue.Message) []queue.Verdict {
			if len(batch) > 7 {
				t.Errorf("batch of %d", len(batch))
			}
			return got.ack(batch)
		})
		got.wait(t, n)
		stop()
		if got.distinct() != n {
			t.Fatalf("%d distinct messages, want %d", got.distinct(), n)
		}
		depth(t, h.Broker, "a", 0)
		depth(t, h.Broker, "other", 1)
	})
	t.Run("two consumers share the work", func(t *testing.T) {
		h := open(t)
		for i := range 100 {
			publish(t, h.Broker, "a", i)
		}
		got := newTally()
		for range 2 {
			defer consume(t, h.Broker, "a", queue.Batch{Max: 5}, got.ack)()
		}
		got.wait(t, 100)
		if got.total() != 100 {
			t.Fatalf("%d deliveries of 100 messages that were all acked", got.total())
		}
	})
	t.Run("a retry comes again, counted and not early", func(t *testing.T) {
		h := open(t)
		publish(t, h.Broker, "a", 1)
		type delivery struct {
			attempts int
			at       time.Time
		}
		seen := make(chan delivery, 10)
		stop := consume(t, h.Broker, "a", queue.Batch{Max: 1}, func(batch []queue.Message) []queue.Verdict {
			seen <- delivery{batch[0].Attempts, time.Now()}
			if batch[0].Attempts < 2 {
				return []queue.Verdict{queue.Retry(300*time.Millisecond, errors.New("not yet"))}
			}
			return []queue.Verdict{queue.Ack()}
		})
		defer stop()
		first, second, third := receive(t, seen), receive(t, seen), receive(t, seen)
		if first.attempts != 0 || second.attempts != 1 || third.attempts != 2 {
			t.Fatal(first, second, third)
		}
		if gap := second.at.Sub(first.at); gap < 295*time.Millisecond {
			t.Fatalf("came again after %v", gap)
		}
	})
	t.Run("a delayed message comes when its time has come, and holds up no other", func(t *testing.T) {
		h := open(t)
		// The shortest pause that a broker under test knows is at most 100 ms. 550 is no sum of few of them.
		delays := []time.Duration{550 * time.Millisecond, 50 * time.Millisecond, 0}
		begun := time.Now()
		for i, delay := range delays {
			if err := h.Broker.PublishAfter(t.Context(), "a", fmt.Sprintf("a-%d", i), []byte(body(i)), delay); err != nil {
				t.Fatal(err)
			}
		}
		type delivery struct {
			message queue.Message
			at      time.Time
		}
		seen := make(chan delivery, 10)
		stop := consume(t, h.Broker, "a", queue.Batch{Max: 1}, func(batch []queue.Message) []queue.Verdict {
			seen <- delivery{batch[0], time.Now()}
			return []queue.Verdict{queue.Ack()}
		})
		for _, i := range []int{2, 1, 0} {
			d := receive(t, seen)
			if d.message.ID != fmt.Sprintf("a-%d", i) || string(d.message.Body) != body(i) || d.message.Attempts != 0 {
				t.Errorf("got %q of %d attempts, want a-%d", d.message.ID, d.message.Attempts, i)
			}
			if gap := d.at.Sub(begun); gap < delays[i] {
				t.Errorf("a message delayed by %v came after %v", delays[i], gap)
			}
		}
		stop()
		depth(t, h.Broker, "a", 0)
	})
	t.Run("a delayed message outlives its publisher", func(t *testing.T) {
		h := open(t)
		if err := h.Broker.PublishAfter(t.Context(), "a", "a-1", []byte(body(1)), 400*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		got := newTally()
		stop := consume(t, h.Reopen(), "a", queue.Batch{Max: 5}, got.ack)
		got.wait(t, 1)
		stop()
	})
	t.Run("a requeue comes again, uncounted", func(t *testing.T) {
		h := open(t)
		publish(t, h.Broker, "a", 1)
		seen := make(chan int, 10)
		first := true
		stop := consume(t, h.Broker, "a", queue.Batch{Max: 1}, func(batch []queue.Message) []queue.Verdict {
			seen <- batch[0].Attempts
			if first {
				first = false
				return nil // a handler that forgot its verdicts
			}
			return []queue.Verdict{queue.Ack()}
		})
		defer stop()
		if a, b := receive(t, seen), receive(t, seen); a != 0 || b != 0 {
			t.Fatal(a, b)
		}
	})
	t.Run("a dead letter leaves the queue and keeps its reason", func(t *testing.T) {
		h := open(t)
		publish(t, h.Broker, "a", 1)
		publish(t, h.Broker, "a", 2)
		got := newTally()
		stop := consume(t, h.Broker, "a", queue.Batch{Max: 1}, func(batch []queue.Message) []queue.Verdict {
			got.ack(batch)
			if string(batch[0].Body) == body(1) {
				return []queue.Verdict{queue.Dead(errors.New("no such sale"))}
			}
			return []queue.Verdict{queue.Ack()}
		})
		got.wait(t, 2)
		stop()
		depth(t, h.Broker, "a", 0)
		if reasons, err := h.DeadLetters(t.Context(), "a"); err != nil || !slices.Equal(reasons, []string{"no such sale"}) {
			t.Fatal(reasons, err)
		}
	})
	t.Run("what was not acked comes again after a crash", func(t *testing.T) {
		h := open(t)
		for i := range 10 {
			publish(t, h.Broker, "a", i)
		}
		// The first consumer acks five and then never answers: it is left hanging, as a killed process would be.
		ctx, cancel := context.WithCancel(t.Context())
		hang, acked, ended := make(chan struct{}), newTally(), make(chan struct{})
		go func() {
			defer close(ended)
			_ = h.Broker.Consume(ctx, "a", queue.Batch{Max: 5}, func(_ context.Context, batch []queue.Message) []queue.Verdict {
				if acked.total() >= 5 {
					hang <- struct{}{}
					<-ctx.Done()
					return nil
				}
				return acked.ack(batch)
			})
		}()
		receive(t, hang)
		got := newTally()
		stop := consume(t, h.Reopen(), "a", queue.Batch{Max: 5}, got.ack)
		got.wait(t, 10-acked.distinct())
		stop()
		cancel()
		<-ended
	})
	t.Run("a cancelled publish is not certainly refused", func(t *testing.T) {
		h := open(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.Broker.Publish(ctx, "a", "m", []byte("x")); err == nil || errors.Is(err, queue.ErrRefused) {
			t.Fatalf("want an unknown outcome, got %v", err)
		}
	})
	t.Run("stopping waits for the handler and keeps its verdict", func(t *testing.T) {
		h := open(t)
		publish(t, h.Broker, "a", 1)
		ctx, cancel := context.WithCancel(t.Context())
		entered, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- h.Broker.Consume(ctx, "a", queue.Batch{Max: 1}, func(ctx context.Context, batch []queue.Message) []queue.Verdict {
				close(entered)
				<-ctx.Done()
				return []queue.Verdict{queue.Ack()}
			})
		}()
		receive(t, entered)
		cancel()
		if err := receive(t, ended); err != nil {
			t.Fatal(err)
		}
		depth(t, h.Broker, "a", 0)
	})
}

func body(i int) string { return fmt.Sprintf(`{"n":%d,"text":"探店😇"}`, i) }

func publish(t *testing.T, b queue.Broker, topic string, i int) {
	t.Helper()
	if err := b.Publish(t.Context(), topic, fmt.Sprintf("%s-%d", topic, i), []byte(body(i))); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, b queue.Broker, topic string, batch queue.Batch, handle func([]queue.Message) []queue.Verdict) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, topic, batch, func(_ context.Context, m []queue.Message) []queue.Verdict { return handle(m) })
	}()
	var once sync.Once
	return func() {
		once.Do(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Consume ended with %v", err)
			}
		})
	}
}

func depth(t *testing.T, b queue.Broker, topic string, want int64) {
	t.Helper()
	d, err := b.Depth(t.Context(), topic)
	if err != nil || d.Ready+d.Unacked != want {
		t.Fatalf("depth of %s is %+v (%v), want %d", topic, d, err, want)
	}
}

func receive[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// tally counts deliveries by message.
type tally struct {
	mu      sync.Mutex
	seen    map[string]int // guarded by mu
	n       int            // guarded by mu
	changed chan struct{}
}

func newTally() *tally { return &tally{seen: map[string]int{}, changed: make(chan struct{}, 1)} }

func (c *tally) ack(batch []queue.Message) []queue.Verdict {
	c.mu.Lock()
	defer c.mu.Unlock()
	verdicts := make([]queue.Verdict, len(batch))
	for i, m := range batch {
		c.seen[m.ID+string(m.Body)]++
		c.n++
		verdicts[i] = queue.Ack()
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
	return verdicts
}

func (c *tally) total() int    { c.mu.Lock(); defer c.mu.Unlock(); return c.n }
func (c *tally) distinct() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.seen) }

func (c *tally) wait(t *testing.T, n int) {
	t.Helper()
	for c.distinct() < n {
		receive(t, c.changed)
	}
}
