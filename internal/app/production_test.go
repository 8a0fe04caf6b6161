package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/go-sql-driver/mysql"
	"github.com/rs/zerolog"

	"tandian/internal/config"
	"tandian/internal/kit/store"
)

const patience = 60 * time.Second // with an event, before a test calls it lost

// stores are the production stores behind proxies: a database and a vhost of the test's own, and everybody's Redis.
type stores struct {
	sql, redis, rabbit *toxiproxy.Proxy
	vhost              string
	cfg                *config.Config
}

func production(t *testing.T) stores {
	t.Helper()
	dsn, redis, rabbit := os.Getenv("TANDIAN_MYSQL_DSN"), os.Getenv("TANDIAN_REDIS_ADDR"), os.Getenv("TANDIAN_RABBITMQ_URL")
	if dsn == "" || redis == "" || rabbit == "" {
		t.Skip(`no stores; run: eval "$(scripts/services up)"`)
	}
	name := "tandian_app_" + strings.ToLower(rand.Text())
	server, err := store.OpenMySQL(t.Context(), dsn, store.Pool{MaxOpen: 1, MaxIdle: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	ctl(t, "add_vhost", name)
	ctl(t, "set_permissions", "-p", name, "guest", ".*", ".*", ".*")
	t.Cleanup(func() {
		ctl(t, "delete_vhost", name)
		if _, err := server.Write.ExecContext(context.Background(), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
		_ = server.Close()
	})
	target, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	amqp, err := url.Parse(rabbit)
	if err != nil {
		t.Fatal(err)
	}
	s := stores{vhost: name, sql: proxy(t, target.Addr), redis: proxy(t, redis), rabbit: proxy(t, amqp.Host), cfg: config.Default()}
	target.Addr, target.DBName, amqp.Host, amqp.Path = s.sql.Listen, name, s.rabbit.Listen, "/"+name
	s.cfg.Addr, s.cfg.AdminAddr = "127.0.0.1:0", "127.0.0.1:0"
	s.cfg.MySQLDSN, s.cfg.RedisAddr, s.cfg.RabbitMQURL = config.Secret(target.FormatDSN()), s.redis.Listen, config.Secret(amqp.String())
	s.cfg.MessageSecret = "0123456789abcdef0123456789abcdef"
	return s
}

func ctl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join("..", "..", "scripts", "services"), append([]string{"ctl"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func proxy(t *testing.T, upstream string) *toxiproxy.Proxy {
	t.Helper()
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), t.Name(), "127.0.0.1:0", upstream)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// up starts a proxy that was stopped.
func up(t *testing.T, p *toxiproxy.Proxy) {
	t.Helper()
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
}

// freeze lets nothing come back until the returned function is called.
func freeze(t *testing.T, p *toxiproxy.Proxy) (thaw func()) {
	t.Helper()
	if _, err := p.Toxics.AddToxicJson(strings.NewReader(`{"name":"frozen","type":"timeout","stream":"downstream","attributes":{"timeout":0}}`)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := p.Toxics.RemoveToxic(context.Background(), "frozen"); err != nil {
			t.Fatal(err)
		}
	}
}

// journal keeps what is logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}
func (j *journal) String() string { j.mu.Lock(); defer j.mu.Unlock(); return j.text.String() }

func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !happened(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	res, err := (&http.Client{Timeout: 10 * time.Second}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func readyOf(t *testing.T, url string) (int, readyAnswer) {
	t.Helper()
	status, body := get(t, url)
	var a readyAnswer
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return status, a
}

// A vhost takes seconds to make, so that these share one.
func TestProductionMode(t *testing.T) {
	s := production(t)
	t.Run("a start refuses what is wrong", func(t *testing.T) { startRefuses(t, s) })
	t.Run("a start waits for stores", func(t *testing.T) { startWaits(t, s) })
	up(t, s.rabbit)
	t.Run("readiness without a store", func(t *testing.T) { readinessWithoutAStore(t, s) })
}

// Each store goes away in its own manner and comes back (B5, F15, F26).
func readinessWithoutAStore(t *testing.T, s stores) {
	cfg := *s.cfg
	cfg.DrainDelay = 2 * time.Second // long enough to be seen
	var log journal
	a, err := New(t.Context(), &cfg, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	admin := a.Info().AdminURL
	until(t, "ready", func() bool { status, _ := readyOf(t, admin+"/readyz"); return status == 200 })

	for _, tt := range []struct {
		name  string
		away  func() (back func())
		pages int // status of a public page meanwhile
	}{
		{"redis", func() func() { return freeze(t, s.redis) }, 200},
		{"redis", func() func() { s.redis.Stop(); return func() { up(t, s.redis) } }, 200},
		{"queue", func() func() { s.rabbit.Stop(); return func() { up(t, s.rabbit) } }, 200},
		{"queue", func() func() { return noneForConsuming(t, s) }, 200},
		{"database", func() func() { s.sql.Stop(); return func() { up(t, s.sql) } }, 0},
	} {
		back := tt.away()
		until(t, tt.name+" is down", func() bool {
			began := time.Now()
			status, answer := readyOf(t, admin+"/readyz")
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("readiness took %v", took)
			}
			return status == 503 && answer.Checks[tt.name] == "down"
		})
		if status, answer := readyOf(t, a.Info().URL+"/readyz?exclude="+tt.name); status != 200 {
			t.Errorf("only %s is down, but: %+v", tt.name, answer)
		}
		if status, body := get(t, admin+"/healthz"); status != 200 {
			t.Errorf("liveness must not depend on %s: %d %s", tt.name, status, body)
		}
		if _, body := get(t, admin+"/metrics"); !strings.Contains(body, fmt.Sprintf("tandian_dependency_up{dependency=%q} 0\n", tt.name)) {
			t.Errorf("no metric says that %s is down", tt.name)
		}
		if status, body := get(t, a.Info().URL+"/api/v1/shops"); tt.pages != 0 && status != tt.pages {
			t.Errorf("public pages without %s: %d %s", tt.name, status, body)
		}
		back()
		until(t, tt.name+" is up again", func() bool { status, _ := readyOf(t, admin+"/readyz"); return status == 200 })
	}

	stop()
	until(t, "draining is told", func() bool {
		status, answer := readyOf(t, a.Info().URL+"/readyz?exclude=redis")
		return status == 503 && answer.State == "draining"
	})
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		t.Logf("log:\n%s", &log)
	}
}

// noneForConsuming has the broker end the connection of the consumers and let no other in.
func noneForConsuming(t *testing.T, s stores) (back func()) {
	t.Helper()
	ctl(t, "set_vhost_limits", "-p", s.vhost, `{"max-connections":1}`)
	for line := range strings.Lines(ctl(t, "list_connections", "vhost", "pid", "client_properties")) {
		if strings.HasPrefix(line, s.vhost+"\t") && strings.Contains(line, "tandian consuming") {
			ctl(t, "close_connection", strings.Split(line, "\t")[1], "test")
			return func() { ctl(t, "clear_vhost_limits", "-p", s.vhost) }
		}
	}
	t.Fatal("no connection for consuming")
	return nil
}

// F76: the stores come up after us, in any order. Liveness is there from the beginning.
func startWaits(t *testing.T, s stores) {
	s.sql.Stop()
	s.redis.Stop()
	s.rabbit.Stop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := *s.cfg
	cfg.AdminAddr = l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	var log journal
	type opened struct {
		*App
		err error
	}
	started := make(chan opened, 1)
	go func() {
		a, err := New(t.Context(), &cfg, slog.New(slog.NewTextHandler(&log, nil)))
		started <- opened{a, err}
	}()
	says := func(text string) func() bool { return func() bool { return strings.Contains(log.String(), text) } }
	until(t, "it tells that it waits for the database", says(`"database: tandian_app_`))
	until(t, "and for Redis", says(`"redis: Redis at `))
	if status, _ := get(t, "http://"+cfg.AdminAddr+"/healthz"); status != 200 {
		t.Errorf("liveness while it waits: %d", status)
	}
	if status, answer := readyOf(t, "http://"+cfg.AdminAddr+"/readyz"); status != 503 || answer.State != "starting" {
		t.Errorf("readiness while it waits: %d %+v", status, answer)
	}
	up(t, s.redis)
	up(t, s.sql)
	a := <-started
	if a.err != nil {
		t.Fatal(a.err)
	}
	if !says("check=rabbitmq")() {
		t.Errorf("nothing tells that the broker is away:\n%s", &log)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}

// What is wrong is refused at once, what is away after the time allowed: in one line with the remedy, without secrets.
func startRefuses(t *testing.T, s stores) {
	for name, tt := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"wrong database password": {func(c *config.Config) {
			c.MySQLDSN = config.Secret(strings.Replace(c.MySQLDSN.Reveal(), "tandian:tandian@", "tandian:pa55word@", 1))
		}, []string{"database: tandian_app_", "Access denied", "correct user and password in --mysql-dsn"}},
		"wrong Redis user": {func(c *config.Config) { c.RedisUser, c.RedisPassword = "nobody", "pa55word" },
			[]string{"redis: ", "WRONGPASS", "correct --redis-user and --redis-password"}},
		"no such vhost": {func(c *config.Config) { c.RabbitMQURL += "x" }, []string{"rabbitmq: ", "has no vhost", "rabbitmqctl add_vhost"}},
		"database away": {func(c *config.Config) {
			c.StartTimeout, c.MySQLDSN = 0, config.Secret(strings.Replace(c.MySQLDSN.Reveal(), s.sql.Listen, "127.0.0.1:1", 1))
		}, []string{"waited 0s (--start-timeout): database: ", "connection refused", "start the server"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := *s.cfg
			tt.change(&cfg)
			var log journal
			a, err := New(t.Context(), &cfg, slog.New(slog.NewTextHandler(&log, nil)))
			if err == nil {
				t.Fatal("it started", a.Close())
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in %v", want, err)
				}
			}
			if all := err.Error() + log.String(); strings.Contains(all, "pa55word") || strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line, or a secret: %s", all)
			}
		})
	}
}
