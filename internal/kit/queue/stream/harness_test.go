package stream_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/stream"
)

// patience is how long a test waits for an event before it calls it lost.
const patience = 30 * time.Second

// database is one of the server at TANDIAN_REDIS_ADDR that no other package's tests use.
const database = 3

// servers are those that the broker is tested on: one, and a cluster where there is one.
func servers() map[string]func(t testing.TB) rueidis.ClientOption {
	from := func(env string, db int) func(t testing.TB) rueidis.ClientOption {
		return func(t testing.TB) rueidis.ClientOption {
			addr := os.Getenv(env)
			if addr == "" {
				t.Skip(env + " is not set; scripts/services tells it")
			}
			return rueidis.ClientOption{InitAddress: []string{addr}, SelectDB: db, ConnWriteTimeout: 2 * time.Second}
		}
	}
	return map[string]func(t testing.TB) rueidis.ClientOption{
		"server":  from("TANDIAN_REDIS_ADDR", database),
		"cluster": from("TANDIAN_TEST_REDIS_CLUSTER", 0),
	}
}

// shared is the server that other packages' tests are using too: nothing may happen to it as a whole.
func shared(t testing.TB) rueidis.ClientOption { return servers()["server"](t) }

// machine is a server of this test binary's own, which may be emptied, frozen and killed.
type machine struct{ dir, addr string }

var own struct {
	sync.Once
	machine
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if own.dir != "" {
		if _, err := own.services("down"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func private(t *testing.T) machine {
	t.Helper()
	shared(t)
	own.Do(func() {
		if own.dir, own.err = os.MkdirTemp("", "tandian-stream"); own.err != nil {
			return
		}
		var out string
		out, own.err = own.services("up", "redis")
		if found := regexp.MustCompile(`TANDIAN_REDIS_ADDR=(\S+)`).FindStringSubmatch(out); found != nil {
			own.addr = found[1]
		}
	})
	if own.err != nil {
		t.Fatal(own.err)
	}
	return own.machine
}

func (m machine) options() rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{m.addr}, ConnWriteTimeout: 2 * time.Second}
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

// redis is an operator's client: past the broker under test.
type redis struct{ rueidis.Client }

func dial(t testing.TB, o rueidis.ClientOption) redis {
	t.Helper()
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return redis{client}
}

// do runs a command whose first argument is its key.
func (r redis) do(t testing.TB, command, key string, args ...string) rueidis.RedisResult {
	t.Helper()
	res := r.Do(context.Background(), r.B().Arbitrary(strings.Fields(command)...).Keys(key).Args(args...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%s %s %v: %v", command, key, args, err)
	}
	return res
}

func (r redis) length(t testing.TB, key string) int64 {
	t.Helper()
	n, err := r.do(t, "XLEN", key).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sale is a stream that a script appends to.
const sale = "{sale:42}:stream"

// clean removes what earlier tests have left.
func (r redis) clean(t testing.TB) {
	t.Helper()
	for _, key := range []string{stream.Key("a"), stream.Key("other"), sale, "{sale:43}:stream"} {
		r.do(t, "DEL", key)
		r.do(t, "DEL", stream.Delayed(key))
	}
}

// admit appends as a gate's script does.
func (r redis) admit(t testing.TB, key, body string) {
	t.Helper()
	r.do(t, "XADD", key, "*", "body", body)
	if err := r.Do(t.Context(), r.B().Publish().Channel(stream.Bell("a")).Message(key).Build()).Error(); err != nil {
		t.Fatal(err)
	}
}

// grave keeps dead letters in memory.
type grave struct {
	mu      sync.Mutex
	closed  bool     // then it keeps nothing; guarded by mu
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

var instances atomic.Int64

// options are those of an instance of its own with a short patience for dead consumers.
func options(t testing.TB, o rueidis.ClientOption, g *grave) stream.Options {
	return stream.Options{Client: dial(t, o).Client, Instance: fmt.Sprintf("test-%d-%d", os.Getpid(), instances.Add(1)), Log: slog.New(slog.DiscardHandler),
		DeadLetter: g.bury, ClaimAfter: 300 * time.Millisecond}
}

func open(t testing.TB, o stream.Options) *stream.Broker {
	t.Helper()
	b, err := stream.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
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

// until polls for an event.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// consume runs a consumer of topic a that sends what it gets and acks it.
func consume(t testing.TB, b *stream.Broker, batch queue.Batch) <-chan queue.Message {
	t.Helper()
	got := make(chan queue.Message, 200_000)
	handle(t, b, batch, func(m queue.Message) queue.Verdict {
		got <- m
		return queue.Ack()
	})
	return got
}

// handle runs a consumer of topic a until the test ends or stop is called.
func handle(t testing.TB, b *stream.Broker, batch queue.Batch, verdict func(queue.Message) queue.Verdict) (stop func()) {
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
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := receive(t, ended); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func publish(t testing.TB, b *stream.Broker, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := b.Publish(t.Context(), "a", id, []byte("body of "+id)); err != nil {
			t.Fatal(err)
		}
	}
}

// steal makes a consumer that takes everything new of topic a's stream and is never heard of again.
func (r redis) steal(t testing.TB, key string) {
	t.Helper()
	ctx := context.Background()
	if err := r.Do(ctx, r.B().XgroupCreate().Key(key).Group("writers").Id("0").Build()).Error(); err != nil && !rueidis.IsRedisBusyGroup(err) {
		t.Fatal(err)
	}
	if err := r.Do(ctx, r.B().Xreadgroup().Group("writers", "the dead").Streams().Key(key).Id(">").Build()).Error(); err != nil {
		t.Fatal(err)
	}
}
