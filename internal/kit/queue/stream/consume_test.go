package stream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/stream"
)

// start returns an emptied server, and a broker on it.
func start(t *testing.T, change func(*stream.Options)) (redis, *stream.Broker, *grave) {
	t.Helper()
	r, g := dial(t, shared(t)), newGrave()
	r.clean(t)
	o := options(t, shared(t), g)
	if change != nil {
		change(&o)
	}
	return r, open(t, o), g
}

func ids(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

func (r redis) wantEmpty(t testing.TB, keys ...string) {
	t.Helper()
	for _, key := range keys {
		until(t, key+" is empty", func() bool { return r.length(t, key) == 0 })
	}
}

// F21: a consumer dies with entries in hand; they go to another.
func TestWhatADeadConsumerLeftGoesToOthers(t *testing.T) {
	r, b, _ := start(t, nil)
	publish(t, b, ids(20)...)
	r.steal(t, stream.Key("a"))
	publish(t, b, "new")
	got := consume(t, b, queue.Batch{Max: 7})
	seen := map[string]bool{}
	for range 21 {
		m := receive(t, got)
		if seen[m.ID] || string(m.Body) != "body of "+m.ID || m.Attempts != 0 {
			t.Fatalf("%+v", m)
		}
		seen[m.ID] = true
	}
	r.wantEmpty(t, stream.Key("a"))
}

// What goes in good order needs nobody's patience: with an hour of it, others have the messages at once.
func TestAStopGivesBack(t *testing.T) {
	patient := func(o *stream.Options) { o.ClaimAfter = time.Hour }
	r, b, _ := start(t, patient)
	o := options(t, shared(t), newGrave())
	patient(&o)
	other := open(t, o)
	publish(t, b, ids(5)...)
	entered, ctx := make(chan int, 1), t.Context()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, "a", queue.Batch{Max: 10}, func(ctx context.Context, ms []queue.Message) []queue.Verdict {
			entered <- len(ms)
			<-ctx.Done()
			return nil
		})
	}()
	if n := receive(t, entered); n != 5 {
		t.Fatal(n)
	}
	cancel()
	if err := receive(t, ended); err != nil {
		t.Fatal(err)
	}
	got := consume(t, other, queue.Batch{Max: 10})
	for range 5 {
		receive(t, got)
	}
	r.wantEmpty(t, stream.Key("a"))
}

// The group remembers only consumers that have something.
func TestConsumersLeaveTheGroup(t *testing.T) {
	r, b, _ := start(t, nil)
	got := make(chan queue.Message, 1)
	stop := handle(t, b, queue.Batch{Max: 1}, func(m queue.Message) queue.Verdict { got <- m; return queue.Ack() })
	publish(t, b, "1")
	receive(t, got)
	stop()
	if consumers, err := r.do(t, "XINFO CONSUMERS", stream.Key("a"), "writers").ToArray(); err != nil || len(consumers) > 0 {
		t.Fatalf("%v %v", consumers, err)
	}
}

// F31: two instances share a name. They get in each other's way, but nothing is lost and nothing dies of it.
func TestTwoInstancesShareAName(t *testing.T) {
	const n = 300
	r, b, g := start(t, nil)
	o := options(t, shared(t), g)
	o.Instance = b.Instance
	twin := open(t, o)
	got := make(chan string, 10*n)
	for _, b := range []*stream.Broker{b, twin} {
		handle(t, b, queue.Batch{Max: 3}, func(m queue.Message) queue.Verdict { got <- m.ID; return queue.Ack() })
	}
	publish(t, b, ids(n)...)
	seen := map[string]bool{}
	for len(seen) < n {
		seen[receive(t, got)] = true
	}
	r.wantEmpty(t, stream.Key("a"))
	if dead := g.all(); len(dead) > 0 {
		t.Fatal(dead)
	}
}

// S6: attempts are counted in the message, whoever handles it; what it is stays the same.
func TestAttemptsAreCountedAcrossInstances(t *testing.T) {
	r, b, _ := start(t, nil)
	other := open(t, options(t, shared(t), newGrave()))
	tries := make(chan queue.Message, 10)
	retry := func(m queue.Message) queue.Verdict {
		tries <- m
		return queue.Retry(50*time.Millisecond, errors.New("no"))
	}
	stop := handle(t, b, queue.Batch{Max: 1}, retry)
	publish(t, b, "1")
	first := receive(t, tries)
	second := receive(t, tries)
	stop()
	handle(t, other, queue.Batch{Max: 1}, func(m queue.Message) queue.Verdict {
		tries <- m
		if m.Attempts < 4 {
			return queue.Retry(time.Millisecond, errors.New("no"))
		}
		return queue.Ack()
	})
	last := first
	for m := second; ; m = receive(t, tries) {
		if m.Attempts != last.Attempts+1 || m.ID != "1" || string(m.Body) != "body of 1" || !m.At.Equal(first.At) {
			t.Fatalf("%+v after %+v", m, last)
		}
		if last = m; m.Attempts == 4 {
			break
		}
	}
	r.wantEmpty(t, stream.Key("a"))
}

// F27: a message that kills its consumers. Its neighbours get through, and in the end it is a dead letter.
func TestWhatKillsItsConsumersDies(t *testing.T) {
	r, b, g := start(t, nil)
	publish(t, b, "1", "2", "poison", "3")
	ctx, cancel := context.WithCancel(t.Context())
	var acked, killed atomic.Int64
	handle := func(_ context.Context, ms []queue.Message) (verdicts []queue.Verdict) {
		for _, m := range ms {
			if m.ID == "poison" {
				killed.Add(1)
				panic("killed")
			}
			verdicts = append(verdicts, queue.Ack())
		}
		acked.Add(int64(len(ms)))
		return verdicts
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			func() {
				defer func() { _ = recover() }() // the process is started again
				_ = b.Consume(ctx, "a", queue.Batch{Max: 10}, handle)
			}()
		}
	}()
	dead := g.wait(t, 1)
	r.wantEmpty(t, stream.Key("a"))
	cancel()
	<-ended
	if len(dead) != 1 || dead[0].message.ID != "poison" || !strings.Contains(dead[0].reason, "without a verdict") {
		t.Fatal(dead)
	}
	if acked.Load() != 3 || killed.Load() != 5 {
		t.Fatalf("%d acked, %d killed", acked.Load(), killed.Load())
	}
}

// A consumer that lives has not been killed by what it never got: answers that are lost are no deliveries.
func TestLostAnswersAreNoDeliveries(t *testing.T) {
	r, b, g := start(t, nil)
	publish(t, b, "1")
	var script strings.Builder
	for _, file := range []string{"lua/common.lua", "lua/take.lua"} {
		part, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		script.Write(part)
	}
	for range 10 { // asks as the consumer that comes, and nobody hears the answer
		answer := r.Do(t.Context(), r.B().Eval().Script(script.String()).Numkeys(2).Key(stream.Key("a"), stream.Delayed(stream.Key("a"))).
			Arg("writers", b.Instance+"-1", "10", "60000", "2", "1").Build())
		if entries, err := answer.ToArray(); err != nil || len(entries) != 2 {
			t.Fatal(entries, err)
		}
	}
	if m := receive(t, consume(t, b, queue.Batch{Max: 10})); m.ID != "1" {
		t.Fatal(m)
	}
	r.wantEmpty(t, stream.Key("a"))
	if dead := g.all(); len(dead) > 0 {
		t.Fatal(dead)
	}
}

// A handler that waits long, for a database that is away say, keeps its messages, and they don't count as delivered.
func TestALongHandlerKeepsItsMessages(t *testing.T) {
	r, b, _ := start(t, nil)
	other := open(t, options(t, shared(t), newGrave()))
	entered, release := make(chan struct{}, 10), make(chan struct{})
	slow := func(queue.Message) queue.Verdict { entered <- struct{}{}; <-release; return queue.Ack() }
	publish(t, b, "1")
	handle(t, b, queue.Batch{Max: 1}, slow)
	receive(t, entered)
	handle(t, other, queue.Batch{Max: 1}, slow)
	var renewals int
	var last int64
	until(t, "three signs of life a third of the patience apart", func() bool {
		pending, err := r.do(t, "XPENDING", stream.Key("a"), "writers", "-", "+", "1").ToArray()
		if err != nil || len(pending) != 1 {
			t.Fatal(pending, err)
		}
		p, err := pending[0].ToArray()
		if err != nil {
			t.Fatal(err)
		}
		idle, err := p[2].AsInt64()
		deliveries, err2 := p[3].AsInt64()
		if err := errors.Join(err, err2); err != nil || deliveries != 1 {
			t.Fatalf("delivered %d times (%v)", deliveries, err)
		}
		if idle < last {
			renewals++
		}
		last = idle
		return renewals > 3
	})
	close(release)
	r.wantEmpty(t, stream.Key("a"))
	if len(entered) > 0 {
		t.Fatal("somebody else got it too")
	}
}

// A consumer that was away too long doesn't bring back what another is handling, or has handled (I9).
func TestAStaleConsumersWordDoesNotCount(t *testing.T) {
	r, b, _ := start(t, func(o *stream.Options) { o.ClaimAfter = time.Hour }) // it won't show signs of life
	entered, release := make(chan struct{}, 10), make(chan struct{})
	publish(t, b, "1")
	stop := handle(t, b, queue.Batch{Max: 1}, func(queue.Message) queue.Verdict {
		entered <- struct{}{}
		<-release
		return queue.Retry(time.Millisecond, errors.New("too late"))
	})
	receive(t, entered)
	pending, err := r.do(t, "XAUTOCLAIM", stream.Key("a"), "writers", "another", "0", "0", "JUSTID").ToArray()
	if err != nil || len(pending) < 2 {
		t.Fatal(pending, err)
	}
	close(release)
	stop()
	if d, err := b.Depth(t.Context(), "a"); err != nil || d.Unacked != 1 || d.Ready != 0 {
		t.Fatalf("%+v %v", d, err)
	}
}

// S8: a sale's stream is read like the topic's own, as soon as it is there; what is retried stays in its slot.
func TestFurtherStreams(t *testing.T) {
	for name, server := range servers() {
		t.Run(name, func(t *testing.T) {
			r, g := dial(t, server(t)), newGrave()
			r.clean(t)
			var sales atomic.Pointer[[]string]
			sales.Store(&[]string{"{sale:43}:stream"})
			o := options(t, server(t), g)
			o.Streams = func(_ context.Context, topic string) ([]string, error) {
				if topic != "a" {
					return nil, nil
				}
				return *sales.Load(), nil
			}
			b := open(t, o)
			got, tried := make(chan queue.Message, 10), false
			handle(t, b, queue.Batch{Max: 10}, func(m queue.Message) queue.Verdict {
				if string(m.Body) == "retried" && !tried {
					tried = true
					return queue.Retry(20*time.Millisecond, errors.New("no"))
				}
				got <- m
				return queue.Ack()
			})
			r.admit(t, "{sale:43}:stream", "one")
			if m := receive(t, got); string(m.Body) != "one" || !strings.HasPrefix(m.ID, "{sale:43}:stream/") || time.Since(m.At).Abs() > time.Minute {
				t.Fatalf("%+v", m)
			}
			sales.Store(&[]string{"{sale:43}:stream", sale})
			began := time.Now()
			r.admit(t, sale, "two")
			if m := receive(t, got); string(m.Body) != "two" {
				t.Fatalf("%+v", m)
			}
			if took := time.Since(began); took > 1100*time.Millisecond {
				t.Errorf("a new sale was noticed after %v", took)
			}
			r.admit(t, sale, "retried")
			if m := receive(t, got); m.Attempts != 1 || !strings.HasPrefix(m.ID, sale+"/") {
				t.Fatalf("%+v", m)
			}
			publish(t, b, "own")
			receive(t, got)
			r.wantEmpty(t, stream.Key("a"), sale, "{sale:43}:stream")
		})
	}
}

// Whatever happens to one stream, the others flow; the log tells it once; and it heals.
func TestOneBrokenStream(t *testing.T) {
	var j journal
	r, b, g := start(t, func(o *stream.Options) {
		o.Log = slog.New(slog.NewTextHandler(&j, nil))
		o.Streams = func(context.Context, string) ([]string, error) { return []string{sale}, nil }
	})
	r.do(t, "SET", sale, "not a stream")
	got := consume(t, b, queue.Batch{Max: 10})
	publish(t, b, "1")
	receive(t, got)
	until(t, "the log tells it", func() bool { return strings.Contains(strings.Join(j.lines(), "\n"), "WRONGTYPE "+sale) })
	r.do(t, "DEL", sale)
	r.admit(t, sale, "healed")
	receive(t, got)
	r.do(t, "XADD", sale, "*", "who", "knows")
	if dead := g.wait(t, 1); !strings.Contains(dead[0].reason, "not a message") || !strings.Contains(string(dead[0].message.Body), "who") {
		t.Fatal(dead)
	}
	if n := len(j.lines()); n != 1 {
		t.Errorf("%d lines: %s", n, j.lines())
	}
}

// S9: a dead letter that can't be kept stays a message, and doesn't stand before the others.
func TestADeadLetterThatCannotBeKept(t *testing.T) {
	r, b, g := start(t, nil)
	g.close(true)
	handle(t, b, queue.Batch{Max: 1}, func(m queue.Message) queue.Verdict {
		if m.ID == "dead" {
			return queue.Dead(errors.New("no such sale"))
		}
		return queue.Ack()
	})
	publish(t, b, "dead", "1", "2")
	r.wantEmpty(t, stream.Key("a"))
	if d, err := b.Depth(t.Context(), "a"); err != nil || d.Ready != 1 {
		t.Fatalf("%+v %v", d, err)
	}
	g.close(false)
	delayed, err := r.do(t, "ZRANGE", stream.Delayed(stream.Key("a")), "0", "-1").AsStrSlice()
	if err != nil || len(delayed) != 1 {
		t.Fatal(delayed, err)
	}
	r.do(t, "ZADD", stream.Delayed(stream.Key("a")), "XX", "1", delayed[0]) // it is due
	if dead := g.wait(t, 1); dead[0].message.ID != "dead" || dead[0].reason != "no such sale" || dead[0].message.Attempts != 0 {
		t.Fatal(dead)
	}
}

// Depth and Backlog tell of everything that isn't done, whoever has it.
func TestDepthAndBacklog(t *testing.T) {
	r, b, _ := start(t, func(o *stream.Options) {
		o.Streams = func(context.Context, string) ([]string, error) { return []string{sale}, nil }
	})
	if d, err := b.Depth(t.Context(), "a"); err != nil || d != (queue.Depth{}) {
		t.Fatalf("%+v %v", d, err)
	}
	tried := make(chan struct{}, 1)
	stop := handle(t, b, queue.Batch{Max: 1}, func(queue.Message) queue.Verdict {
		tried <- struct{}{}
		return queue.Retry(time.Hour, errors.New("no"))
	})
	publish(t, b, "delayed")
	receive(t, tried)
	stop()
	publish(t, b, "taken")
	r.steal(t, stream.Key("a"))
	publish(t, b, "waiting")
	r.admit(t, sale, "body of sale")
	until(t, "the oldest has an age", func() bool {
		d, err := b.Depth(t.Context(), "a")
		if err != nil || d.Ready != 3 || d.Unacked != 1 || d.Oldest > patience {
			t.Fatalf("%+v %v", d, err)
		}
		return d.Oldest > 0
	})
	bodies, err := b.Backlog(t.Context(), "a")
	var texts []string
	for _, b := range bodies {
		texts = append(texts, strings.TrimPrefix(string(b), "body of "))
	}
	if slices.Sort(texts); err != nil || !slices.Equal(texts, []string{"delayed", "sale", "taken", "waiting"}) {
		t.Fatal(texts, err)
	}
}

// Without a bell, a restarted Pub/Sub say, a message is found at the next look.
func TestAMissedBell(t *testing.T) {
	r, b, _ := start(t, nil)
	got := consume(t, b, queue.Batch{Max: 2}) // one message doesn't make it look for more
	publish(t, b, "1")
	receive(t, got)
	r.do(t, "XADD", stream.Key("a"), "*", "id", "2", "body", "x")
	if m := receive(t, got); m.ID != "2" {
		t.Fatal(m)
	}
}
