package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/rueidis"

	"tandian/internal/kit/store"
)

// production returns the flags of the production mode on a database of its own and an emptied Redis; scripts/services
// starts the servers.
func production(t *testing.T) []string {
	t.Helper()
	dsn, redis, rabbit := os.Getenv("TANDIAN_MYSQL_DSN"), os.Getenv("TANDIAN_REDIS_ADDR"), os.Getenv("TANDIAN_RABBITMQ_URL")
	if dsn == "" || redis == "" || rabbit == "" {
		t.Skip(`no stores; run: eval "$(scripts/services up)"`)
	}
	server, err := store.OpenMySQL(t.Context(), dsn, store.Pool{MaxOpen: 2, MaxIdle: 1})
	if err != nil {
		t.Fatal(err)
	}
	name := "tandian_e2e_" + strings.ToLower(rand.Text())
	if _, err := server.Write.Exec("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Write.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name); err != nil {
			t.Error(err)
		}
		_ = server.Close()
	})
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Do(t.Context(), client.B().Flushdb().Build()).Error(); err != nil {
		t.Fatal(err)
	}
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	cfg.DBName = name
	t.Logf("on %s, Redis at %s, RabbitMQ", server.Name, redis)
	return []string{"--demo", "--mysql-dsn", cfg.FormatDSN(), "--redis-addr", redis, "--rabbitmq-url", rabbit, "--message-secret", "0123456789abcdef0123456789abcdef"}
}

// Two instances on the same stores sell one sale; one is killed in the middle of it and comes back. Whoever got no
// answer asks the other instance with the same key. Every id that was told resolves on both (S14, F03, F10; I1, I2,
// I4, I6).
func TestTwoInstancesAndAKill(t *testing.T) {
	const users, stock = 500, 300
	flags := production(t)
	dirs := [2]string{t.TempDir(), t.TempDir()}
	var instances [2]atomic.Pointer[server]
	launch := func(i int) *server {
		s := start(t, binary(t, ""), dirs[i], flags...)
		instances[i].Store(s)
		return s
	}
	first, second := launch(0), launch(1)
	operator := first.signIn(t, operatorPhone)
	saleID := first.newSale(t, operator, stock, 1)
	tokens := second.testUsers(t, users)

	attempts := make([]*attempt, users)
	work := make(chan int, users)
	for i := range attempts {
		attempts[i] = &attempt{token: tokens[i], key: fmt.Sprintf("two-%08d", i)}
		work <- i
	}
	close(work)
	settled := make(chan struct{}, users)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range work {
				for try := i; attempts[i].told == "" && attempts[i].refused == ""; try++ {
					attempts[i].ask(instances[try%2].Load(), saleID)
				}
				settled <- struct{}{}
			}
		})
	}
	for range users / 3 {
		<-settled
	}
	first.kill(t)
	for range users / 3 {
		<-settled
	}
	first = launch(0)
	wg.Wait()

	var state inspection
	until(t, "the sale comes to rest", func() bool { state = second.inspect(t, operator, saleID); return state.AtRest })
	told := map[string]bool{}
	for i, a := range attempts {
		if a.told == "" {
			if a.refused != "sale.sold_out" {
				t.Errorf("%s was refused with %s", a.key, a.refused)
			}
			continue
		}
		told[a.told] = true
		for _, s := range []*server{first, second} {
			if got := s.do(t, "GET", "/api/v1/orders/"+a.told, a.token, ""); got.Status != 200 || got.Body["status"] != "unpaid" {
				t.Errorf("LOST: %s was told %s, which is now %d %s", a.key, a.told, got.Status, got.Text)
			}
		}
		other := attempts[(i+1)%users].token
		if got := first.do(t, "GET", "/api/v1/orders/"+a.told, other, ""); got.Status != 404 {
			t.Errorf("somebody else sees order %s: %d", a.told, got.Status)
		}
	}
	if len(told) != stock || state.DB.Live != stock || state.DB.Stock != 0 || state.Gate.Stock != 0 || state.DB.OverLimit != 0 {
		t.Fatalf("%d different ids told; %+v", len(told), state)
	}

	// A4: a sign-out on one instance bites on the other within a second.
	first.must(t, 204, "DELETE", "/api/v1/auth/sessions/current", tokens[0], "")
	began := time.Now()
	until(t, "the other instance knows of the sign-out", func() bool { return second.do(t, "GET", "/api/v1/me", tokens[0], "").Status == 401 })
	if took := time.Since(began); took > time.Second {
		t.Errorf("a sign-out took %v to reach the other instance", took)
	}
	for _, s := range []*server{first, second} {
		if err := s.stop(t); err != nil {
			t.Errorf("ended with %v\n%s", err, s.log)
		}
	}
}
