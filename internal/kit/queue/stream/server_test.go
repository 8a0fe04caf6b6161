package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/queuetest"
	"tandian/internal/kit/queue/stream"
)

// alone returns a server of the tests' own, emptied and without limits, and a broker on it.
func alone(t *testing.T, change func(*stream.Options)) (machine, redis, *stream.Broker, *grave) {
	t.Helper()
	m := private(t)
	r, g := dial(t, m.options()), newGrave()
	if err := r.Do(t.Context(), r.B().Flushall().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	o := options(t, m.options(), g)
	if change != nil {
		change(&o)
	}
	return m, r, open(t, o), g
}

// D07: Redis is emptied, the stream is deleted, the group is destroyed, all while consuming. It goes on, what was in the
// stream comes, and the log isn't flooded.
func TestTheGroupIsMadeAgain(t *testing.T) {
	var j journal
	_, r, b, _ := alone(t, func(o *stream.Options) { o.Log = slog.New(slog.NewTextHandler(&j, nil)) })
	got := consume(t, b, queue.Batch{Max: 10})
	publish(t, b, "0")
	receive(t, got)
	for i, harm := range []func(){
		func() {
			if err := r.Do(t.Context(), r.B().Flushall().Build()).Error(); err != nil {
				t.Fatal(err)
			}
		},
		func() { r.do(t, "DEL", stream.Key("a")) },
		func() { r.do(t, "XGROUP DESTROY", stream.Key("a"), "writers") },
	} {
		r.wantEmpty(t, stream.Key("a")) // or what was handled and is not yet acked comes again
		harm()
		id := fmt.Sprint(i + 1)
		publish(t, b, id)
		if m := receive(t, got); m.ID != id {
			t.Fatal(m)
		}
	}
	r.wantEmpty(t, stream.Key("a"))
	if lines := j.lines(); len(lines) > 0 {
		t.Errorf("%s", lines)
	}
}

// A group that is lost with messages in hand and waiting: all of them come again.
func TestALostGroupLosesNothing(t *testing.T) {
	_, r, b, _ := alone(t, nil)
	publish(t, b, ids(30)...)
	r.steal(t, stream.Key("a"))
	publish(t, b, "new")
	r.do(t, "XGROUP DESTROY", stream.Key("a"), "writers")
	got := consume(t, b, queue.Batch{Max: 10})
	for range 31 {
		receive(t, got)
	}
	r.wantEmpty(t, stream.Key("a"))
}

// F20: the server is killed with a backlog while it is being consumed, and comes back.
func TestKilledWithABacklog(t *testing.T) {
	const n = 1000
	m, r, b, _ := alone(t, nil)
	publish(t, b, ids(n)...)
	got, half := make(chan string, 10*n), make(chan struct{})
	var once sync.Once
	handle(t, b, queue.Batch{Max: 20}, func(m queue.Message) queue.Verdict {
		got <- m.ID
		if len(got) > n/2 {
			once.Do(func() { close(half) })
		}
		return queue.Ack()
	})
	receive(t, half)
	m.do(t, "kill", "redis")
	until(t, "the broker knows", func() bool { return !b.Up() })
	if err := b.Publish(t.Context(), "a", "x", nil); !errors.Is(err, queue.ErrRefused) {
		t.Errorf("known to be down: %v", err)
	}
	m.do(t, "restart", "redis")
	until(t, "a message is taken again", func() bool { return b.Publish(t.Context(), "a", "after", nil) == nil })
	seen := map[string]bool{}
	for len(seen) < n+1 {
		seen[receive(t, got)] = true
	}
	r.wantEmpty(t, stream.Key("a"))
}

// F13, F14, F16, F17: what Publish answers when Redis says no, and when it says nothing.
func TestRefusedAndUnknown(t *testing.T) {
	m, r, b, _ := alone(t, func(o *stream.Options) { o.PublishTimeout = 200 * time.Millisecond })
	config := func(name, value string) { r.do(t, "CONFIG SET", name, value) }
	server := func(args ...string) {
		if err := r.Do(t.Context(), r.B().Arbitrary(args...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name       string
		harm, heal func()
	}{
		{"no memory", func() { config("maxmemory", "1") }, func() { config("maxmemory", "0") }},
		{"a replica", func() { server("REPLICAOF", "127.0.0.1", "1") }, func() { server("REPLICAOF", "NO", "ONE") }},
		{"too few replicas", func() { config("min-replicas-to-write", "1") }, func() { config("min-replicas-to-write", "0") }},
		{"wrong type", func() { r.do(t, "SET", stream.Key("a"), "x") }, func() { r.do(t, "DEL", stream.Key("a")) }},
	} {
		c.harm()
		err := b.Publish(t.Context(), "a", c.name, []byte("x"))
		c.heal()
		if !errors.Is(err, queue.ErrRefused) {
			t.Errorf("%s: %v", c.name, err)
		}
		if n := r.length(t, stream.Key("a")); n != 0 {
			t.Errorf("%s: refused, and there it is", c.name)
		}
	}
	m.do(t, "pause", "redis")
	if err := b.Publish(t.Context(), "a", "late", []byte("x")); err == nil || errors.Is(err, queue.ErrRefused) {
		t.Errorf("no answer: %v", err)
	}
	until(t, "the broker knows", func() bool { return !b.Up() })
	m.do(t, "resume", "redis")
	until(t, "the message that nobody confirmed is there", func() bool { return r.length(t, stream.Key("a")) == 1 })
}

// Memory is full: nothing gets in, but what is there is handled, retried and leaves.
func TestConsumingGoesOnWithoutMemory(t *testing.T) {
	_, r, b, _ := alone(t, nil)
	publish(t, b, ids(10)...)
	r.steal(t, stream.Key("a"))
	r.do(t, "CONFIG SET", "maxmemory", "1")
	defer r.do(t, "CONFIG SET", "maxmemory", "0")
	got := make(chan queue.Message, 100)
	handle(t, b, queue.Batch{Max: 10}, func(m queue.Message) queue.Verdict {
		got <- m
		if m.Attempts == 0 {
			return queue.Retry(10*time.Millisecond, errors.New("once more"))
		}
		return queue.Ack()
	})
	for range 20 {
		receive(t, got)
	}
	r.wantEmpty(t, stream.Key("a"))
}

// F34: a backlog of 100,000. A stream must not need much more than the messages themselves, nor reading it get slower
// the longer it is.
func TestALongBacklog(t *testing.T) {
	const n = 100_000
	_, r, b, _ := alone(t, nil)
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			for j := i; j < n; j += 64 {
				if err := b.Publish(context.Background(), "a", fmt.Sprintf("message %d", j), fmt.Appendf(nil, "%0200d", j)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	bytes, err := r.do(t, "MEMORY USAGE", stream.Key("a")).AsInt64()
	if err != nil || bytes > 400*n {
		t.Errorf("%d bytes a message (%v)", bytes/n, err)
	}
	got := consume(t, b, queue.Batch{Max: 200})
	for range n {
		receive(t, got)
	}
	r.wantEmpty(t, stream.Key("a"))
	if bytes, err := r.do(t, "MEMORY USAGE", stream.Key("a")).AsInt64(); err != nil || bytes > 100_000 {
		t.Errorf("the empty stream has %d bytes (%v)", bytes, err)
	}
}

// Whoever starts a goroutine waits for it.
func TestCloseEndsEverything(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	client, err := rueidis.NewClient(shared(t))
	if err != nil {
		t.Fatal(err)
	}
	b, err := stream.Open(t.Context(), stream.Options{Client: client, Instance: "closing", Log: slog.New(slog.DiscardHandler), DeadLetter: newGrave().bury})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, "a", queue.Batch{Max: 1}, func(context.Context, []queue.Message) []queue.Verdict { return nil })
	}()
	publish(t, b, "1")
	cancel()
	if err := errors.Join(receive(t, ended), b.Close()); err != nil {
		t.Error(err)
	}
	client.Close()
	goleak.VerifyNone(t, leaks)
	if _, err := stream.Open(t.Context(), stream.Options{}); err == nil {
		t.Error("options that can't work are taken")
	}
}

// The broker that fails on request passes on what this one says.
func TestFaulty(t *testing.T) {
	r, b, _ := start(t, nil)
	f := &queuetest.Faulty{Broker: b}
	lost := errors.New("the confirm is lost")
	f.OnPublish(func(deliver func() error) error { return errors.Join(deliver(), lost) })
	if err := f.Publish(t.Context(), "a", "1", nil); !errors.Is(err, lost) || errors.Is(err, queue.ErrRefused) {
		t.Fatal(err)
	}
	f.OnPublish(func(func() error) error { return queue.ErrRefused })
	if err := f.Publish(t.Context(), "a", "2", nil); !errors.Is(err, queue.ErrRefused) {
		t.Fatal(err)
	}
	if n := r.length(t, stream.Key("a")); n != 1 {
		t.Fatalf("%d messages", n)
	}
}
