package rabbit_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/rabbit"
	"tandian/internal/order"
)

func wantRefused(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, queue.ErrRefused) {
		t.Fatalf("want a refusal, got %v", err)
	}
}

func wantUnknown(t *testing.T, err error) {
	t.Helper()
	if err == nil || errors.Is(err, queue.ErrRefused) {
		t.Fatalf("want an unknown outcome, got %v", err)
	}
}

func TestOptionsThatCannotWork(t *testing.T) {
	good := options("amqp://guest:guest@127.0.0.1:1/", rabbit.Orders(), newGrave())
	for name, spoil := range map[string]func(*rabbit.Options){
		"URL":          func(o *rabbit.Options) { o.URL = "http://user:hunter2@host/" },
		"short secret": func(o *rabbit.Options) { o.Secret = []byte("x") },
		"no log":       func(o *rabbit.Options) { o.Log = nil },
		"no levels":    func(o *rabbit.Options) { o.Topology = o.Topology.Prefixed(""); o.Topology.Routes[0].Levels = nil },
		"same queue twice": func(o *rabbit.Options) {
			o.Topology = o.Topology.Prefixed("")
			o.Topology.Routes[0].Queue = o.Topology.Routes[1].Queue
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := good
			spoil(&o)
			b, err := rabbit.Open(t.Context(), o)
			if err == nil {
				_ = b.Close()
				t.Fatal("opened")
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("the error shows the password: %v", err)
			}
		})
	}
}

func TestWithoutServerPublishIsRefusedAtOnce(t *testing.T) {
	var log journal
	o := options("amqp://guest:guest@127.0.0.1:1/", rabbit.Orders(), newGrave())
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	b, err := rabbit.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	wantRefused(t, b.Publish(t.Context(), "voucher.order.create", "m", []byte("x")))
	if took := time.Since(began); took > time.Second {
		t.Fatalf("took %v", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond) // several attempts
	defer cancel()
	if err := b.Ready(ctx); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Fatalf("want the cause, got %v", err)
	}
	if _, err := b.Depth(t.Context(), "voucher.order.create"); err == nil {
		t.Fatal("a depth without a server")
	}
	if b.Up() || b.Server() != "" {
		t.Fatal("up without a server")
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if lines := log.lines(); len(lines) > 2 {
		t.Fatalf("the log is flooded:\n%s", strings.Join(lines, "\n"))
	}
}

func TestWrongPasswordIsNamed(t *testing.T) {
	url := strings.Replace(shared(t), "guest:guest", "guest:wrong", 1)
	b, err := rabbit.Open(t.Context(), options(url, rabbit.Orders().Prefixed("test."), newGrave()))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience) // the server takes three seconds to say so
	defer cancel()
	for err := error(nil); err == nil || !strings.Contains(err.Error(), "username or password"); {
		if ctx.Err() != nil {
			t.Fatalf("want the cause, got %v", err)
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		err = b.Ready(short)
		cancel()
	}
}

// F15: a message that no queue takes is confirmed by the server all the same.
func TestUnroutableIsRefusedAndTheBindingMended(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	b := alone(t, options(url, top, newGrave()))
	if err := channel(t, url).QueueUnbind(top.Routes[0].Queue, "a", top.Routes[0].Exchange, nil); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, b.Publish(t.Context(), "a", "lost", []byte("x")))
	accepted(t, b, "after")
	if m := receive(t, consume(t, b, queue.Batch{Max: 1})); m.ID != "after" {
		t.Fatalf("the refused message is in the queue: %v", m)
	}
}

// Publishing to an exchange that is gone costs the channel.
func TestMissingExchangeIsMended(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	b := alone(t, options(url, top, newGrave()))
	if err := channel(t, url).ExchangeDelete(top.Routes[0].Exchange, false, false); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(t.Context(), "a", "lost", []byte("x")); err == nil {
		t.Fatal("published to nowhere")
	}
	accepted(t, b, "after")
	if m := receive(t, consume(t, b, queue.Batch{Max: 1})); m.ID != "after" {
		t.Fatal(m)
	}
}

// Instances that start together on an empty server all get ready.
func TestInstancesStartTogether(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	var all []*rabbit.Broker
	for range 4 {
		b, err := rabbit.Open(t.Context(), options(url, top, newGrave()))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		all = append(all, b)
	}
	for i, b := range all {
		ready(t, b)
		accepted(t, b, fmt.Sprint(i))
	}
	got := consume(t, all[0], queue.Batch{Max: 10})
	for range all {
		receive(t, got)
	}
}

// The topics of the order pipeline are all on their way through the server.
func TestOrdersHasTheTopicsOfThePipeline(t *testing.T) {
	var topics []string
	for _, r := range rabbit.Orders().Routes {
		topics = append(topics, r.Topic)
	}
	if want := []string{order.TopicCreate, order.TopicCreated, order.TopicCheck}; !slices.Equal(topics, want) {
		t.Fatalf("%v, want %v", topics, want)
	}
}

// F14: a full queue refuses, and what it refused is not in it.
func TestFullQueueRefuses(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	top.Routes[0].MaxLength = 3
	b := open(t, options(url, top, newGrave()))
	var taken int64
	for i := 0; ; i++ {
		err := b.Publish(t.Context(), "a", fmt.Sprint(i), []byte("x"))
		if err != nil {
			wantRefused(t, err)
			break
		}
		if taken++; taken > 100 {
			t.Fatal("the queue is never full")
		}
	}
	if d, err := b.Depth(t.Context(), "a"); err != nil || d.Ready != taken {
		t.Fatalf("%+v %v, want the %d accepted", d, err, taken)
	}
}

func TestUnknownTopicAndOverlongIDAreRefused(t *testing.T) {
	url := shared(t)
	b := open(t, options(url, topology(t, url), newGrave()))
	wantRefused(t, b.Publish(t.Context(), "nowhere", "m", nil))
	wantRefused(t, b.Publish(t.Context(), "a", strings.Repeat("x", 300), nil))
	if err := b.Publish(t.Context(), "a", "m", bytes.Repeat([]byte("x"), 1<<20)); err != nil { // several frames
		t.Fatal(err)
	}
	if m := receive(t, consume(t, b, queue.Batch{Max: 1})); len(m.Body) != 1<<20 {
		t.Fatalf("%d bytes arrived", len(m.Body))
	}
}

// F18: the message has reached the server and the confirm has not come back.
func TestConnectionCutWhileWaitingIsUnknown(t *testing.T) {
	url := shared(t)
	top := topology(t, url)
	cable, through := proxy(t, url)
	b := open(t, options(through, top, newGrave()))
	if _, err := cable.Toxics.AddToxicJson(strings.NewReader(`{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)); err != nil {
		t.Fatal(err)
	}
	outcome := make(chan error, 1)
	go func() { outcome <- b.Publish(context.Background(), "a", "m", []byte("x")) }()
	onServer := channel(t, url)
	for n := 0; n == 0; {
		q, err := onServer.QueueDeclarePassive(top.Routes[0].Queue, true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		n = q.Messages
	}
	cable.Stop()
	wantUnknown(t, receive(t, outcome))
	wantRefused(t, b.Publish(t.Context(), "a", "while down", []byte("x")))
	cable.Toxics.ResetToxics(t.Context())
	if err := cable.Start(); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, consume(t, b, queue.Batch{Max: 1})); m.ID != "m" {
		t.Fatal(m)
	}
	accepted(t, b, "afterwards")
}

// F16: a server that is frozen past the confirm time has the message when it thaws.
func TestFrozenServerIsUnknown(t *testing.T) {
	m := private(t)
	o := options(m.url, topology(t, m.url), newGrave())
	o.ConfirmTimeout = 500 * time.Millisecond
	b := open(t, o)
	got := consume(t, b, queue.Batch{Max: 10})
	m.do(t, "pause", "rabbitmq")
	err := b.Publish(t.Context(), "a", "late", []byte("x"))
	m.do(t, "resume", "rabbitmq")
	wantUnknown(t, err)
	if m := receive(t, got); m.ID != "late" {
		t.Fatal(m)
	}
	accepted(t, b, "next")
}

// A server that stays frozen is given up, and what is published then is refused at once instead of hanging.
func TestServerFrozenForLongIsGivenUp(t *testing.T) {
	m := private(t)
	o := options(m.url, topology(t, m.url), newGrave())
	o.ConfirmTimeout = 100 * time.Millisecond
	b := open(t, o)
	m.do(t, "pause", "rabbitmq")
	defer m.do(t, "resume", "rabbitmq")
	for deadline := time.Now().Add(patience); b.Up(); {
		if time.Now().After(deadline) {
			t.Fatal("still up")
		}
		_ = b.Publish(t.Context(), "a", "m", bytes.Repeat([]byte("x"), 64<<10)) // also fills the buffers of the socket
	}
	wantRefused(t, b.Publish(t.Context(), "a", "m", []byte("x")))
	m.do(t, "resume", "rabbitmq")
	ready(t, b)
	accepted(t, b, "thawed")
}

// F17: a server short of memory reads nothing from publishers; consumers go on.
func TestBlockedServerRefusesInBoundedTime(t *testing.T) {
	m := private(t)
	o := options(m.url, topology(t, m.url), newGrave())
	o.ConfirmTimeout = 500 * time.Millisecond
	b := open(t, o)
	accepted(t, b, "before")
	m.do(t, "ctl", "set_vm_memory_high_watermark", "0.00000001")
	relieve := func() { m.do(t, "ctl", "set_vm_memory_high_watermark", "absolute", "1GB") }
	defer relieve()
	var refusal error
	for i := 0; !errors.Is(refusal, queue.ErrRefused); i++ {
		if i > 1000 {
			t.Fatal("never refused")
		}
		refusal = b.Publish(t.Context(), "a", "m", []byte("x"))
	}
	if b.Up() {
		t.Fatal("up while the server takes nothing")
	}
	if m := receive(t, consume(t, b, queue.Batch{Max: 1})); m.ID != "before" {
		t.Fatal(m)
	}
	relieve()
	accepted(t, b, "after")
}

func BenchmarkPublish256(b *testing.B) {
	url := shared(b)
	broker := open(b, options(url, topology(b, url), newGrave()))
	body := bytes.Repeat([]byte("x"), 400)
	b.SetParallelism(128) // × GOMAXPROCS
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := broker.Publish(b.Context(), "other", "m", body); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "confirms/s")
}
