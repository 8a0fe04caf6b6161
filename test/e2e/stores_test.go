package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/go-sql-driver/mysql"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"

	"tandian/internal/kit/queue/rabbit"
	"tandian/internal/kit/store"
)

// keepStores is the environment variable that names a folder for the stores in which they are found, or left, running:
// for somebody who runs one test over and over.
const keepStores = "TANDIAN_E2E_STORES"

// privateStores are Redis, MariaDB and RabbitMQ of this test binary's own, which may be killed and frozen. They are started
// when the first test asks for them.
type privateStores struct {
	dir                string
	dsn, redis, rabbit string
}

var own struct {
	sync.Once
	privateStores
	err error
}

func (s *privateStores) services(args ...string) (string, error) {
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "services"), args...)
	cmd.Env = append(bareEnv(), "TANDIAN_SERVICES="+s.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("services %v: %w\n%s", args, err, out)
	}
	return string(out), err
}

// up starts what doesn't run.
func (s *privateStores) up() error {
	out, err := s.services("up", "redis", "mariadb", "rabbitmq")
	exported := func(name string) string {
		if m := regexp.MustCompile(`export ` + name + `='?([^'\n]+)`).FindStringSubmatch(out); m != nil {
			return m[1]
		}
		return ""
	}
	s.dsn, s.redis, s.rabbit = exported("TANDIAN_MYSQL_DSN"), exported("TANDIAN_REDIS_ADDR"), exported("TANDIAN_RABBITMQ_URL")
	return err
}

func (s *privateStores) must(t *testing.T, args ...string) {
	t.Helper()
	if _, err := s.services(args...); err != nil {
		t.Fatal(err)
	}
}

// pause freezes a store until it is resumed, at the latest when the test ends.
func (s *privateStores) pause(t *testing.T, name string) (resume func()) {
	t.Helper()
	s.must(t, "pause", name)
	resume = sync.OnceFunc(func() { s.must(t, "resume", name) })
	t.Cleanup(resume)
	return resume
}

// kill is SIGKILL; restart starts the store again on the same data, and so does the end of the test.
func (s *privateStores) kill(t *testing.T, name string) (restart func()) {
	t.Helper()
	s.must(t, "kill", name)
	restart = sync.OnceFunc(func() { s.must(t, "up", name) })
	t.Cleanup(restart)
	return restart
}

// down stops the stores if they have been started.
func (s *privateStores) down() error {
	if s.dir == "" || os.Getenv(keepStores) != "" {
		return nil
	}
	_, err := s.services("down")
	return err
}

// town is a database of a test's own and empty queues, on which instances can be launched.
type town struct {
	*privateStores
	db    *store.DB
	flags []string
}

// production returns an empty town on this binary's own stores.
func production(t *testing.T) *town {
	t.Helper()
	if os.Getenv("TANDIAN_RABBITMQ_URL") == "" && os.Getenv(keepStores) == "" { // whoever has these wants the production mode tested
		t.Skip(`no stores; run: eval "$(scripts/services up)"`)
	}
	own.Do(func() {
		own.dir = os.Getenv(keepStores)
		if own.dir == "" {
			own.dir = filepath.Join(buildDir, "stores")
		}
		own.err = own.up()
	})
	if own.err != nil {
		t.Fatal(own.err)
	}
	w := &town{privateStores: &own.privateStores}
	dsn := w.database(t)
	w.do(t, "FLUSHALL")
	w.purge(t)
	w.flags = []string{"--demo", "--mysql-dsn", dsn, "--redis-addr", w.redis, "--rabbitmq-url", w.rabbit, "--message-secret", "0123456789abcdef0123456789abcdef",
		"--sweep-after", "2s"}
	return w
}

// database creates one, whose name goes with the test.
func (w *town) database(t *testing.T) (dsn string) {
	t.Helper()
	cfg, err := mysql.ParseDSN(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	server, err := store.OpenMySQL(t.Context(), w.dsn, store.Pool{MaxOpen: 1})
	if err != nil {
		t.Fatal(err)
	}
	cfg.DBName = "tandian_e2e_" + strings.ToLower(rand.Text())
	if _, err := server.Write.Exec("CREATE DATABASE " + cfg.DBName); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if w.db, err = store.OpenMySQL(t.Context(), cfg.FormatDSN(), store.Pool{MaxOpen: 4, MaxIdle: 2}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := w.db.Write.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+cfg.DBName); err != nil {
			t.Error(err)
		}
		_ = w.db.Close()
	})
	return cfg.FormatDSN()
}

// do gives Redis a command.
func (w *town) do(t *testing.T, words ...string) rueidis.RedisResult {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{w.redis}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	res := client.Do(t.Context(), client.B().Arbitrary(words...).Build())
	if err := res.Error(); err != nil {
		t.Fatalf("%v: %v", words, err)
	}
	return res
}

// purge empties the queues that an earlier test may have left.
func (w *town) purge(t *testing.T) {
	t.Helper()
	top := rabbit.Orders()
	queues := map[string]bool{top.DeadQueue: true}
	for _, r := range top.Routes {
		queues[r.Queue] = true
		for _, level := range r.Levels {
			queues[r.Delay+level.String()] = true
		}
	}
	conn, err := amqp.Dial(w.rabbit)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for q := range queues {
		ch, err := conn.Channel() // a missing queue costs it
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueuePurge(q, false); err != nil && !strings.Contains(err.Error(), "NOT_FOUND") {
			t.Fatal(err)
		}
	}
}

// launch starts an instance.
func (w *town) launch(t *testing.T, path string, env []string, args ...string) *server {
	t.Helper()
	s := startWith(t, env, path, t.TempDir(), append(slices.Clone(w.flags), args...)...)
	t.Cleanup(func() {
		if text := s.log.String(); strings.Contains(text, "panic") {
			t.Errorf("an instance panicked:\n%s", text)
		}
	})
	return s
}

// pair launches two instances of the plain binary.
func (w *town) pair(t *testing.T, args ...string) [2]*server {
	t.Helper()
	return [2]*server{w.launch(t, binary(t, ""), nil, args...), w.launch(t, binary(t, ""), nil, args...)}
}

// proxied puts a proxy between an instance and a store: rabbitmq or redis.
func (w *town) proxied(t *testing.T, name string) (line *toxiproxy.Proxy, flags []string) {
	t.Helper()
	upstream := w.redis
	if name == "rabbitmq" {
		uri, err := amqp.ParseURI(w.rabbit)
		if err != nil {
			t.Fatal(err)
		}
		upstream = fmt.Sprintf("%s:%d", uri.Host, uri.Port)
	}
	line = toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", upstream)
	if err := line.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(line.Stop)
	if name == "rabbitmq" {
		return line, []string{"--rabbitmq-url", strings.Replace(w.rabbit, upstream, line.Listen, 1)}
	}
	return line, []string{"--redis-addr", line.Listen}
}
