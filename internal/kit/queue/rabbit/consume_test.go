package rabbit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/rabbit"
)

// F20: everything that was accepted survives the server's death.
func TestServerKilledWithABacklog(t *testing.T) {
	m := private(t)
	b := open(t, options(m.url, topology(t, m.url), newGrave()))
	const n = 1000
	errs := make(chan error, n)
	for i := range n {
		go func() { errs <- b.Publish(context.Background(), "a", fmt.Sprint(i), []byte("x")) }()
	}
	for range n {
		if err := receive(t, errs); err != nil {
			t.Fatal(err)
		}
	}
	m.do(t, "kill", "rabbitmq")
	if err := b.Publish(t.Context(), "a", "while dead", []byte("x")); err == nil {
		t.Fatal("a dead server confirmed")
	}
	m.do(t, "restart", "rabbitmq")
	got := consume(t, b, queue.Batch{Max: 100})
	seen := map[string]bool{}
	for len(seen) < n {
		if m := receive(t, got); m.ID != "while dead" {
			seen[m.ID] = true
		}
	}
}

// F32: a handler takes longer than the server waits for an ack. Another instance gets the message, the late ack does no
// harm, and the slow one goes on consuming.
func TestHandlerSlowerThanTheServersPatience(t *testing.T) {
	m := private(t)
	patience := func(timeout, look int) { // in ms; for channels that are opened from now on
		m.do(t, "ctl", "eval", fmt.Sprintf("application:set_env(rabbit, consumer_timeout, %d), application:set_env(rabbit, channel_tick_interval, %d).", timeout, look))
	}
	patience(2000, 500)
	defer patience(1_800_000, 60_000)
	top := topology(t, m.url)
	slow, other := open(t, options(m.url, top, newGrave())), open(t, options(m.url, top, newGrave()))
	entered, release := make(chan string, 10), make(chan struct{})
	handle(t, slow, queue.Batch{Max: 1}, func(m queue.Message) queue.Verdict {
		entered <- m.ID
		<-release
		return queue.Ack()
	})
	accepted(t, slow, "1")
	if id := receive(t, entered); id != "1" {
		t.Fatal(id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan string, 10), make(chan error, 1)
	go func() {
		ended <- other.Consume(ctx, "a", queue.Batch{Max: 1}, func(_ context.Context, ms []queue.Message) []queue.Verdict {
			got <- ms[0].ID
			return []queue.Verdict{queue.Ack()}
		})
	}()
	if id := receive(t, got); id != "1" {
		t.Fatal(id)
	}
	cancel()
	if err := receive(t, ended); err != nil {
		t.Fatal(err)
	}
	close(release)
	accepted(t, slow, "2")
	if id := receive(t, entered); id != "2" {
		t.Fatalf("%s came again", id)
	}
}

// D07: the queue is deleted under running consumers of two instances. All of them get messages again.
func TestQueueDeletedWhileConsuming(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	var log journal
	o := options(url, top, newGrave())
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	b := open(t, o)
	got := [2]chan string{make(chan string, 100), make(chan string, 100)}
	release := make(chan struct{})
	for i, b := range []*rabbit.Broker{b, open(t, o)} {
		handle(t, b, queue.Batch{Max: 1}, func(m queue.Message) queue.Verdict {
			got[i] <- m.ID
			if m.ID == "after" {
				<-release // so that the other instance gets its share
			}
			return queue.Ack()
		})
	}
	accepted(t, b, "before")
	began := time.Now()
	if _, err := channel(t, url).QueueDelete(top.Routes[0].Queue, false, false, false); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		accepted(t, b, "after")
	}
	for i := range got {
		for receive(t, got[i]) != "after" {
		}
	}
	close(release)
	if took := time.Since(began); took > 30*time.Second {
		t.Fatalf("took %v", took)
	}
	if lines := log.lines(); len(lines) > 10 { // hundreds of messages were refused meanwhile
		t.Fatalf("the log is flooded:\n%s", strings.Join(lines, "\n"))
	}
}

// W39: what doesn't carry our MAC reaches no handler.
func TestForgedMessagesBecomeDeadLetters(t *testing.T) {
	url := shared(t)
	top, g := topology(t, url), newGrave()
	b := open(t, options(url, top, g))
	forger := channel(t, url)
	accepted(t, b, "genuine")
	genuine, ok, err := forger.Get(top.Routes[0].Queue, true)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	with := func(change func(*amqp.Publishing)) amqp.Publishing {
		p := amqp.Publishing{MessageId: genuine.MessageId, Headers: amqp.Table{}, Body: genuine.Body}
		for k, v := range genuine.Headers {
			p.Headers[k] = v
		}
		change(&p)
		return p
	}
	forgeries := []amqp.Publishing{
		{Body: []byte("garbage")},
		with(func(p *amqp.Publishing) { p.Body = []byte(`{"userId":"2"}`) }),
		with(func(p *amqp.Publishing) { p.MessageId = strings.Repeat("\xff", 255) }),
		with(func(p *amqp.Publishing) { p.Headers["tandian-attempts"] = int64(2) }),
		with(func(p *amqp.Publishing) { delete(p.Headers, "tandian-mac") }),
		with(func(p *amqp.Publishing) { p.Headers["tandian-mac"] = "text" }),
		with(func(p *amqp.Publishing) { delete(p.Headers, "tandian-version") }),
	}
	publish := func(key string, p amqp.Publishing) {
		if err := forger.PublishWithContext(t.Context(), top.Routes[0].Exchange, key, false, false, p); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range forgeries {
		publish("a", p)
	}
	publish("a", with(func(*amqp.Publishing) {})) // the genuine one again
	if m := receive(t, consume(t, b, queue.Batch{Max: 3})); m.ID != "genuine" {
		t.Fatalf("the handler saw %q", m.ID)
	}
	reasons := map[string]int{}
	for _, d := range g.wait(t, len(forgeries)) {
		reasons[d.reason]++
	}
	if reasons["forged"] != len(forgeries)-1 || reasons["schema version 0, want 1"] != 1 {
		t.Fatal(reasons)
	}
	// A message of one topic is a forgery in another, and so is what somebody lays into the dead letter queue.
	publish("other", with(func(*amqp.Publishing) {}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, "other", queue.Batch{Max: 1}, func(context.Context, []queue.Message) []queue.Verdict {
			t.Error("the handler saw it")
			return nil
		})
	}()
	g.wait(t, len(forgeries)+1)
	cancel()
	if err := receive(t, ended); err != nil {
		t.Fatal(err)
	}
	if err := forger.PublishWithContext(t.Context(), top.DeadExchange, top.DeadQueue, false, false, amqp.Publishing{Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	all := g.wait(t, len(forgeries)+2)
	if last := all[len(all)-1]; last.reason != "forged" || last.topic != "" {
		t.Fatal(last)
	}
}

func TestMessagesOfAnotherSecretAreForged(t *testing.T) {
	url := shared(t)
	top, g := topology(t, url), newGrave()
	o := options(url, top, g)
	o.Secret = []byte("another secret of 16 bytes")
	accepted(t, open(t, o), "m")
	handle(t, open(t, options(url, top, g)), queue.Batch{Max: 1}, func(queue.Message) queue.Verdict {
		t.Error("the handler saw it")
		return queue.Ack()
	})
	if d := g.wait(t, 1)[0]; d.reason != "forged" || d.message.ID != "m" {
		t.Fatal(d)
	}
}

// F26, F27: a dead letter that can't be kept doesn't stop the others, and isn't lost.
func TestDeadLettersWaitUntilTheyAreKept(t *testing.T) {
	url := shared(t)
	g := newGrave()
	g.close(true)
	b := open(t, options(url, topology(t, url), g))
	accepted(t, b, "poison")
	accepted(t, b, "sound")
	sound := make(chan string, 10)
	handle(t, b, queue.Batch{Max: 1}, func(m queue.Message) queue.Verdict {
		if m.ID == "poison" {
			return queue.Dead(errors.New("no such sale"))
		}
		sound <- m.ID
		return queue.Ack()
	})
	receive(t, sound)
	receive(t, g.changed) // the consumer's attempt
	receive(t, g.changed) // the dead letter queue's
	g.close(false)
	if d := g.wait(t, 1)[0]; d.topic != "a" || d.reason != "no such sale" || d.message.ID != "poison" || string(d.message.Body) != "poison" {
		t.Fatalf("%+v", d)
	}
}

// What nobody ever answers is given up by the server, and even that ends as a dead letter of its topic; also if it has
// waited in a delay queue before, as every pay check has.
func TestEndlessRequeueEndsAsADeadLetter(t *testing.T) {
	for name, waited := range map[string]bool{"at once": false, "after a pause": true} {
		t.Run(name, func(t *testing.T) {
			url := shared(t)
			g := newGrave()
			b := open(t, options(url, topology(t, url), g))
			accepted(t, b, "m")
			var deliveries atomic.Int64
			handle(t, b, queue.Batch{Max: 1}, func(m queue.Message) queue.Verdict {
				if waited && m.Attempts == 0 {
					return queue.Retry(time.Millisecond, errors.New("not yet"))
				}
				deliveries.Add(1)
				return queue.Requeue()
			})
			if d := g.wait(t, 1)[0]; d.topic != "a" || d.message.ID != "m" || !strings.Contains(d.reason, "delivery_limit") {
				t.Fatalf("%+v", d)
			}
			if n := deliveries.Load(); n <= 20 {
				t.Fatalf("given up after %d deliveries", n)
			}
		})
	}
}

func TestPauseLongerThanAllLevelsIsKept(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	b := open(t, options(url, top, newGrave()))
	pause := 2*slices.Max(top.Routes[0].Levels) + 50*time.Millisecond
	type seen struct {
		queue.Message
		at time.Time
	}
	got := make(chan seen, 10)
	handle(t, b, queue.Batch{Max: 1}, func(m queue.Message) queue.Verdict {
		got <- seen{m, time.Now()}
		if m.Attempts == 0 {
			return queue.Retry(pause, errors.New("not yet"))
		}
		return queue.Ack()
	})
	accepted(t, b, "m")
	first, second := receive(t, got), receive(t, got)
	if second.Attempts != 1 || second.ID != "m" || string(second.Body) != "m" || !second.Message.At.Equal(first.Message.At) {
		t.Fatalf("%+v after %+v", second, first)
	}
	if gap := second.at.Sub(first.at); gap < pause-5*time.Millisecond {
		t.Fatalf("came again after %v, want %v", gap, pause)
	}
}

// What is delayed waits on the server, not in this process: it outlives both.
func TestDepthCountsWhatWaitsHereAndThere(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	top.Routes[0].Levels = []time.Duration{time.Hour}
	b := open(t, options(url, top, newGrave()))
	began := time.Now()
	for i := range 6 {
		accepted(t, b, fmt.Sprint(i))
	}
	want := func(ready, unacked int64) queue.Depth {
		t.Helper()
		d, err := b.Depth(t.Context(), "a")
		if err != nil || d.Ready != ready || d.Unacked != unacked {
			t.Fatalf("%+v %v, want %d ready and %d unacked", d, err, ready, unacked)
		}
		return d
	}
	if d := want(6, 0); d.Oldest != 0 {
		t.Fatalf("the age of a message that nobody has seen: %v", d.Oldest)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, "a", queue.Batch{Max: 2, Linger: time.Second}, func(_ context.Context, ms []queue.Message) []queue.Verdict {
			entered <- struct{}{}
			<-leave
			return []queue.Verdict{queue.Retry(time.Hour, errors.New("later")), queue.Ack()}
		})
	}()
	receive(t, entered)
	if d := want(2, 4); d.Oldest <= 0 || d.Oldest > patience { // two with the handler, two fetched ahead
		t.Fatalf("age %v", d.Oldest)
	}
	cancel()
	close(leave)
	if err := receive(t, ended); err != nil {
		t.Fatal(err)
	}
	for d, err := b.Depth(t.Context(), "a"); d.Ready != 5 || d.Unacked != 0; d, err = b.Depth(t.Context(), "a") { // one is delayed, one acked
		if err != nil || time.Since(began) > patience { // the server counts a moment later what a consumer gave back
			t.Fatalf("%+v %v", d, err)
		}
	}
}

func TestDepthMendsAMissingQueue(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	b := alone(t, options(url, top, newGrave()))
	r := top.Routes[0]
	if _, err := channel(t, url).QueueDelete(r.Delay+r.Levels[0].String(), false, false, false); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Depth(t.Context(), "a"); err == nil {
		t.Fatal("the queue is not missing")
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, err := b.Depth(ctx, "a"); err != nil; _, err = b.Depth(ctx, "a") {
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

func TestConsumeNeedsATopic(t *testing.T) {
	url := shared(t)
	b := open(t, options(url, topology(t, url), newGrave()))
	none := func(context.Context, []queue.Message) []queue.Verdict { return nil }
	if err := b.Consume(t.Context(), "nowhere", queue.Batch{Max: 1}, none); err == nil {
		t.Fatal("consumed from nowhere")
	}
	if err := b.Consume(t.Context(), "a", queue.Batch{}, none); err == nil {
		t.Fatal("consumed batches of nothing")
	}
}

func TestCloseEndsEverything(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	before := goleak.IgnoreCurrent()
	b := open(t, options(url, top, newGrave()))
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(context.Background(), "a", queue.Batch{Max: 1}, func(context.Context, []queue.Message) []queue.Verdict { return nil })
	}()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, ended); err == nil {
		t.Fatal("Consume ended without an error though its context had not")
	}
	wantRefused(t, b.Publish(t.Context(), "a", "m", []byte("x")))
	goleak.VerifyNone(t, before)
}

func BenchmarkConsume(b *testing.B) {
	url := shared(b)
	broker := open(b, options(url, topology(b, url), newGrave()))
	publishers := make(chan struct{}, 256)
	for range b.N {
		publishers <- struct{}{}
		go func() {
			defer func() { <-publishers }()
			if err := broker.Publish(context.Background(), "a", "m", make([]byte, 400)); err != nil {
				b.Error(err)
			}
		}()
	}
	for range cap(publishers) {
		publishers <- struct{}{}
	}
	b.ResetTimer()
	got := consume(b, broker, queue.Batch{Max: 200, Linger: 5 * time.Millisecond})
	for range b.N {
		<-got
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
