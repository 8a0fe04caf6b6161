package rabbit_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/rs/zerolog"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/rabbit"
)

// patience is how long a test waits for an event before it calls it lost; a broker takes its time to come back.
const patience = 90 * time.Second

// shared is the server that other packages' tests may be using too: nothing may happen to it as a whole.
func shared(t testing.TB) string {
	t.Helper()
	url := os.Getenv("TANDIAN_RABBITMQ_URL")
	if url == "" {
		t.Skip("TANDIAN_RABBITMQ_URL is not set")
	}
	return url
}

// machine is a server of this test binary's own, which may be frozen and killed.
type machine struct{ dir, url string }

var own struct {
	sync.Once
	machine
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if own.dir != "" {
		if out, err := own.services("down"); err != nil {
			fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
			code = 1
		}
	}
	os.Exit(code)
}

func private(t *testing.T) machine {
	t.Helper()
	shared(t)
	own.Do(func() {
		if own.dir, own.err = os.MkdirTemp("", "tandian-rabbit"); own.err != nil {
			return
		}
		var out string
		out, own.err = own.services("up", "rabbitmq")
		own.url = regexp.MustCompile(`amqp://\S+`).FindString(out)
	})
	if own.err != nil {
		t.Fatal(own.err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			own.report(t)
		}
	})
	return own.machine
}

// report shows what the server wrote last: a failure of its own looks like one of ours.
func (m machine) report(t *testing.T) {
	logs, err := filepath.Glob(filepath.Join(m.dir, "rabbitmq", "log", "*.log"))
	if err != nil {
		t.Error(err)
	}
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		t.Logf("%s ends:\n%s", filepath.Base(path), b[max(0, len(b)-8<<10):])
	}
}

func (m machine) services(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join("..", "..", "..", "..", "scripts", "services"), args...)
	cmd.Env = append(os.Environ(), "TANDIAN_SERVICES="+m.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("services %v: %w\n%s", args, err, out)
	}
	return string(out), err
}

func (m machine) do(t *testing.T, args ...string) {
	t.Helper()
	if _, err := m.services(args...); err != nil {
		t.Fatal(err)
	}
}

// topology is one of its own for each test: topics a and other.
func topology(t testing.TB, url string) rabbit.Topology {
	levels := []time.Duration{100 * time.Millisecond, 300 * time.Millisecond}
	top := rabbit.Topology{DeadExchange: "dlx", DeadQueue: "dlq", Routes: []rabbit.Route{
		{Topic: "a", Exchange: "event", Key: "a", Queue: "a.queue", Delay: "a.delay.", Levels: levels},
		{Topic: "other", Exchange: "event", Key: "other", Queue: "other.queue", Delay: "other.delay.", Levels: levels},
	}}.Prefixed(fmt.Sprintf("test.%x.", rand.Uint64()))
	if url == shared(t) { // a server of our own is thrown away, and 3.10 may lose its log when a queue goes that it is recovering
		t.Cleanup(func() { remove(t, url, top) })
	}
	return top
}

func remove(t testing.TB, url string, top rabbit.Topology) {
	ch := channel(t, url)
	queues := []string{top.DeadQueue}
	for _, r := range top.Routes {
		queues = append(queues, r.Queue)
		for _, level := range r.Levels {
			queues = append(queues, r.Delay+level.String())
		}
	}
	for _, q := range queues {
		if _, err := ch.QueueDelete(q, false, false, false); err != nil {
			t.Errorf("delete queue: %v", err)
			return
		}
	}
	for _, e := range []string{top.DeadExchange, top.Routes[0].Exchange} {
		if err := ch.ExchangeDelete(e, false, false); err != nil {
			t.Errorf("delete exchange: %v", err)
		}
	}
}

// channel is an operator's, or a forger's: past the broker under test.
func channel(t testing.TB, url string) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	ch, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return ch
}

// grave keeps dead letters in memory.
type grave struct {
	mu      sync.Mutex
	closed  bool     // then it keeps nothing
	entries []burial // guarded by mu
	changed chan struct{}
}

type burial struct {
	topic, reason string
	message       queue.Message
}

func newGrave() *grave { return &grave{changed: make(chan struct{}, 1)} }

func (g *grave) bury(_ context.Context, topic string, m queue.Message, reason error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() {
		select {
		case g.changed <- struct{}{}:
		default:
		}
	}()
	if g.closed {
		return fmt.Errorf("the database is away")
	}
	g.entries = append(g.entries, burial{topic, reason.Error(), m})
	return nil
}

func (g *grave) close(closed bool) { g.mu.Lock(); defer g.mu.Unlock(); g.closed = closed }

func (g *grave) all() []burial { g.mu.Lock(); defer g.mu.Unlock(); return slices.Clone(g.entries) }

func (g *grave) reasons(topic string) (reasons []string) {
	for _, b := range g.all() {
		if b.topic == topic {
			reasons = append(reasons, b.reason)
		}
	}
	return reasons
}

func (g *grave) wait(t *testing.T, n int) []burial {
	t.Helper()
	for len(g.all()) < n {
		receive(t, g.changed)
	}
	return g.all()
}

// journal keeps what is logged.
type journal struct {
	mu sync.Mutex
	bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Buffer.Write(p)
}
func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.FieldsFunc(j.String(), func(r rune) bool { return r == '\n' })
}

func options(url string, top rabbit.Topology, g *grave) rabbit.Options {
	return rabbit.Options{URL: url, Topology: top, Secret: []byte("0123456789abcdef"), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		DeadLetter: g.bury, ConfirmTimeout: 30 * time.Second}
}

// open returns a broker that is connected.
func open(t testing.TB, o rabbit.Options) *rabbit.Broker {
	t.Helper()
	b, err := rabbit.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	ready(t, b)
	return b
}

// alone is open for a test that takes the topology apart: it returns when the broker's own consumer runs, which has
// everything declared once more when it starts.
func alone(t testing.TB, o rabbit.Options) *rabbit.Broker {
	t.Helper()
	b := open(t, o)
	ch := channel(t, o.URL)
	for deadline := time.Now().Add(patience); ; {
		q, err := ch.QueueDeclarePassive(o.Topology.DeadQueue, true, false, false, false, nil)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%+v %v", q, err)
		}
		if q.Consumers > 0 {
			return b
		}
	}
}

func ready(t testing.TB, b *rabbit.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := b.Ready(ctx); err != nil {
		t.Fatal(err)
	}
}

// proxy stands before a server.
func proxy(t testing.TB, url string) (*toxiproxy.Proxy, string) {
	t.Helper()
	uri, err := amqp.ParseURI(url)
	if err != nil {
		t.Fatal(err)
	}
	upstream := fmt.Sprintf("%s:%d", uri.Host, uri.Port)
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p, strings.Replace(url, upstream, p.Listen, 1)
}

func receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// consume runs a consumer of topic a that sends what it gets and acks it.
func consume(t testing.TB, b *rabbit.Broker, batch queue.Batch) <-chan queue.Message {
	t.Helper()
	got := make(chan queue.Message, 10_000)
	handle(t, b, batch, func(m queue.Message) queue.Verdict {
		got <- m
		return queue.Ack()
	})
	return got
}

// handle runs a consumer of topic a until the test ends.
func handle(t testing.TB, b *rabbit.Broker, batch queue.Batch, verdict func(queue.Message) queue.Verdict) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- b.Consume(ctx, "a", batch, func(_ context.Context, ms []queue.Message) (verdicts []queue.Verdict) {
			for _, m := range ms {
				verdicts = append(verdicts, verdict(m))
			}
			return verdicts
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := receive(t, ended); err != nil {
			t.Error(err)
		}
	})
}

// accepted publishes until the server takes the message.
func accepted(t *testing.T, b *rabbit.Broker, id string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		err := b.Publish(t.Context(), "a", id, []byte(id))
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
