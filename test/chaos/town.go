package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/redis/rueidis"

	"tandian/internal/kit/store"
)

// town is a database, its instances and their buyers, under one broker.
type town struct {
	broker    string
	dir       string
	instances []*instance
	buyers    []buyer
	http      *http.Client
	db        *store.DB // to look only

	secret []byte // of the payment provider, which signs with it

	mu     sync.Mutex
	tokens map[string]string // guarded by mu: by phone, of those who work

	// What only the production mode has.
	stores            *stores
	root              *sql.DB // MariaDB's administrator
	database, sqlUser string
	client            rueidis.Client
	lines             []map[string]*line // of each instance, by store
}

type buyer struct{ token, id string }

// openTown starts the instances, where unpaid orders live as long as that, and makes the buyers. close must be called in any case.
func (l lab) openTown(ctx context.Context, broker string, payWindow time.Duration, env ...string) (w *town, err error) {
	w = &town{broker: broker, dir: filepath.Join(l.dir, broker), tokens: map[string]string{}, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	flags := []string{"--limit-ip", "1000000", "--limit-user", "100000", "--sweep-after", "2s", "--pay-window", payWindow.String()}
	if broker != brokerSQL {
		if w.stores, err = l.stores(ctx); err != nil {
			return w, err
		}
		if err := w.openStores(ctx); err != nil {
			return w, err
		}
	}
	for i := range instances(broker) {
		a := &instance{name: fmt.Sprint("app", i+1), path: l.exe, env: env}
		a.dir, a.args = filepath.Join(w.dir, a.name), flags
		w.instances = append(w.instances, a)
		if broker != brokerSQL {
			if err := w.connect(a); err != nil {
				return w, err
			}
		}
		if err := errors.Join(a.launch(), a.serves(ctx)); err != nil {
			return w, err
		}
	}
	if broker == brokerSQL {
		if w.db, err = store.OpenSQLite(ctx, filepath.Join(w.instances[0].dir, "tandian.db")); err != nil {
			return w, err
		}
	}
	return w, w.settle(ctx)
}

// openStores makes a database and a user of the town's own and empties Redis and the queues.
func (w *town) openStores(ctx context.Context) (err error) {
	if w.root, err = sql.Open("mysql", w.stores.rootDSN()); err != nil {
		return err
	}
	name := strings.ToLower(rand.Text()[:8])
	w.database, w.sqlUser = "chaos_"+name, "chaos_"+name
	for _, stmt := range []string{
		"CREATE DATABASE " + w.database,
		"CREATE USER " + w.sqlUser + "@'127.0.0.1' IDENTIFIED BY 'chaos'",
		"GRANT ALL ON " + w.database + ".* TO " + w.sqlUser + "@'127.0.0.1'", // not the right to write when the server is read-only
	} {
		if _, err := w.root.ExecContext(ctx, stmt); err != nil {
			return err
		}
	}
	cfg, err := mysql.ParseDSN(w.stores.dsn)
	if err != nil {
		return err
	}
	cfg.DBName = w.database
	if w.db, err = store.OpenMySQL(ctx, cfg.FormatDSN(), store.Pool{MaxOpen: 4, MaxIdle: 2}); err != nil {
		return err
	}
	w.client, err = rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{w.stores.redis}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return err
	}
	if err := w.command(ctx, "FLUSHALL").Error(); err != nil || w.broker != brokerRabbit {
		return err
	}
	return w.channel(func(ch *amqp.Channel) error {
		r := createRoute()
		if _, err := ch.QueueDeclarePassive(r.Queue, true, false, false, false, nil); err != nil {
			return nil // there is none yet
		}
		_, err := ch.QueuePurge(r.Queue, false)
		return err
	})
}

// connect gives the instance lines of its own to the stores.
func (w *town) connect(a *instance) error {
	dsn, err := mysql.ParseDSN(w.stores.dsn)
	if err != nil {
		return err
	}
	uri, err := amqp.ParseURI(w.stores.rabbit)
	if err != nil {
		return err
	}
	broker := fmt.Sprintf("%s:%d", uri.Host, uri.Port)
	lines, err := lay(a.name, map[string]string{redis: w.stores.redis, mariadb: dsn.Addr, rabbitmq: broker})
	if err != nil {
		return err
	}
	w.lines = append(w.lines, lines)
	dsn.Addr, dsn.User, dsn.Passwd, dsn.DBName = lines[mariadb].addr(), w.sqlUser, "chaos", w.database
	a.args = append(a.args[:len(a.args):len(a.args)], "--mysql-dsn", dsn.FormatDSN(), "--redis-addr", lines[redis].addr(), "--broker", w.broker,
		"--message-secret", messageSecret)
	if w.broker == brokerRabbit {
		a.args = append(a.args, "--rabbitmq-url", strings.Replace(w.stores.rabbit, broker, lines[rabbitmq].addr(), 1))
	}
	return nil
}

// settle makes the buyers.
func (w *town) settle(ctx context.Context) error {
	door := w.instances[0]
	a, err := w.ask(ctx, door, "POST", "/api/v1/console/test-users", "", fmt.Sprintf(`{"count":%d}`, buyers))
	var made struct{ Tokens []string }
	if err != nil || json.Unmarshal([]byte(a.text), &made) != nil || len(made.Tokens) != buyers {
		return fmt.Errorf("test users: %w %s", err, a.text)
	}
	for _, token := range made.Tokens {
		var me struct{ ID string }
		a, err := w.ask(ctx, door, "GET", "/api/v1/me", token, "")
		if err != nil || json.Unmarshal([]byte(a.text), &me) != nil || me.ID == "" {
			return fmt.Errorf("GET /me: %w %s", err, a.text)
		}
		w.buyers = append(w.buyers, buyer{token, me.ID})
	}
	for _, phone := range counterPhones {
		if a, err := w.as(ctx, phone, door, "GET", "/api/v1/me", ""); err != nil || a.status != http.StatusOK {
			return fmt.Errorf("sign %s in: %w %s", phone, err, a.text)
		}
	}
	if err := w.findSecret(); err != nil || w.broker != brokerSQL {
		return err
	}
	for { // in the embedded mode sign-ins may reach the disk a moment later
		n, err := w.db.Read.NewSelect().Table("kv_entry").Where("k LIKE 'login:token:%'").Count(ctx)
		if err == nil && n >= buyers {
			return nil
		}
		if err := wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// close ends everything that openTown began.
func (w *town) close() error {
	var failed error
	for _, a := range w.instances {
		if a.current() != nil {
			failed = errors.Join(failed, a.kill())
		}
	}
	for _, lines := range w.lines {
		for _, l := range lines {
			l.close()
		}
	}
	if w.client != nil {
		w.client.Close()
	}
	if w.db != nil {
		_ = w.db.Close() // connections that were killed complain
	}
	if w.root != nil {
		_ = w.root.Close()
	}
	return failed
}

// answer is an HTTP response, read whole; status 0: none came.
type answer struct {
	status int
	code   string // of an error
	text   string
}

// ask sends one request.
func (w *town) ask(ctx context.Context, a *instance, method, path, token, body string, header ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.url()+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	got := answer{status: resp.StatusCode, text: string(b)}
	var problem struct{ Code string }
	if json.NewDecoder(bytes.NewReader(b)).Decode(&problem) == nil {
		got.code = problem.Code
	}
	return got, nil
}

// Of the demo town: its first shop, who may do anything, and who may redeem there.
const (
	shopID        = "1"
	operatorPhone = "13800000001"
)

var counterPhones = []string{"13800000002", "13800000003"} // its owner, its clerk

// operate asks in the operator's name, for at most five seconds.
func (w *town) operate(ctx context.Context, at *instance, method, path, body string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return w.as(ctx, operatorPhone, at, method, path, body)
}

// as asks in the name of somebody who works, and signs him in first if he isn't.
func (w *town) as(ctx context.Context, phone string, at *instance, method, path, body string) (answer, error) {
	w.mu.Lock()
	token := w.tokens[phone]
	w.mu.Unlock()
	if token != "" {
		if a, err := w.ask(ctx, at, method, path, token, body); err != nil || a.status != http.StatusUnauthorized {
			return a, err
		}
	}
	a, err := w.ask(ctx, at, "POST", "/api/v1/auth/sessions", "", fmt.Sprintf(`{"phone":%q,"password":"tandian-demo"}`, phone))
	if err != nil || a.status != http.StatusCreated {
		return answer{}, errors.Join(err, fmt.Errorf("sign %s in: %d %s", phone, a.status, a.text))
	}
	var session struct{ Token string }
	if err := json.Unmarshal([]byte(a.text), &session); err != nil {
		return answer{}, err
	}
	w.mu.Lock()
	w.tokens[phone] = session.Token
	w.mu.Unlock()
	return w.ask(ctx, at, method, path, session.Token, body)
}
