package account_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/account"
	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/kit/kv"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/store"
	"tandian/internal/schema"
)

// town is the whole of package account behind its API, on a fresh database and a clock that tests move.
type town struct {
	*account.Service
	db    *store.DB
	t     testing.TB
	h     http.Handler
	kv    *watchedKV
	clock *clock
	inbox *account.Inbox
	log   *logBook
}

// noLimits stands in for the limits of routes where a test is about something else.
var noLimits = limit.Override{Global: 1e6, IP: 1e6, User: 1e6}

func newTown(t testing.TB, adjust ...func(*account.Options)) *town {
	return newTownWith(t, noLimits, adjust...)
}

func newTownWith(t testing.TB, limits limit.Override, adjust ...func(*account.Options)) *town {
	t.Helper()
	db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "t.db"))
	ok(t, err)
	t.Cleanup(func() { ok(t, db.Close()) })
	_, err = schema.Up(t.Context(), schema.SQLite, db.Write.DB)
	ok(t, err)
	c := newClock()
	w := &town{db: db, t: t, clock: c, kv: &watchedKV{Store: kv.NewMemory(c.Now)}, inbox: account.NewInbox(c.Now), log: &logBook{}}
	log := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	o := account.Options{DB: db, KV: w.kv, SMS: w.inbox, Now: c.Now, Log: log}
	for _, f := range adjust {
		f(&o)
	}
	w.Service = account.New(o)
	a := api.New(api.Options{Version: "test", Log: log, Metrics: prometheus.NewRegistry(), Limiter: limit.New(c.Now, limits), Now: c.Now, Rand: rand.Reader,
		Resolve: w.Resolve, ClientIP: func(r *http.Request) string { return strings.Split(r.RemoteAddr, ":")[0] }})
	w.Routes(a)
	w.h = a.Handler(http.NotFoundHandler())
	return w
}

type answer struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

// do sends a request; header is pairs of name and value, "ip" sets the client's address.
func (w *town) do(method, path, body string, header ...string) answer {
	w.t.Helper()
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		if header[i] == "ip" {
			r.RemoteAddr = header[i+1] + ":1"
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	a := answer{status: rec.Code, header: rec.Header(), text: rec.Body.String()}
	_ = json.Unmarshal(rec.Body.Bytes(), &a.body)
	return a
}

// want fails the test unless the answer has the status and, if given, the code.
func (a answer) want(t testing.TB, status int, code string) answer {
	t.Helper()
	if got, _ := a.body["code"].(string); a.status != status || got != code && !(code == "" && status < 400) {
		t.Fatalf("%d %s, want %d %s", a.status, a.text, status, code)
	}
	return a
}

// code asks for a code and reads it from the inbox.
func (w *town) code(phone string) string {
	w.t.Helper()
	w.do("POST", "/auth/codes", fmt.Sprintf(`{"phone":%q}`, phone)).want(w.t, 204, "")
	code, _, found := w.inbox.Last(phone)
	if !found || len(code) != 6 {
		w.t.Fatalf("code %q sent: %v", code, found)
	}
	return code
}

func (w *town) tryCode(phone, code string, header ...string) answer {
	w.t.Helper()
	return w.do("POST", "/auth/sessions", fmt.Sprintf(`{"phone":%q,"code":%q}`, phone, code), header...)
}

func (w *town) tryPassword(phone, password string) answer {
	w.t.Helper()
	return w.do("POST", "/auth/sessions", fmt.Sprintf(`{"phone":%q,"password":%q}`, phone, password))
}

// signIn signs the phone in by code and returns token and user id.
func (w *town) signIn(phone string) (token string, user id.ID) {
	w.t.Helper()
	a := w.tryCode(phone, w.code(phone)).want(w.t, 201, "")
	user, err := id.Parse(a.body["user"].(map[string]any)["id"].(string))
	ok(w.t, err)
	return a.body["token"].(string), user
}

// me asks who the token is.
func (w *town) me(token string) answer {
	w.t.Helper()
	return w.do("GET", "/me", "", "Authorization", token)
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wrong returns a code that is not the given one.
func wrong(code string) string {
	if code == "000000" {
		return "000001"
	}
	return "000000"
}

type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixMilli())
	return c
}
func (c *clock) Now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// logBook keeps everything that was logged.
type logBook struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBook) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

var _ io.Writer = (*logBook)(nil)

// watchedKV counts the commands, and fails them all while down is set.
type watchedKV struct {
	kv.Store
	down     atomic.Bool
	calls    atomic.Int64
	touches  atomic.Int64
	afterGet func(key string) // called between the answer of GetTTL and its arrival
}

var errDown = errors.New("kv is down")

func (w *watchedKV) step() error {
	w.calls.Add(1)
	if w.down.Load() {
		return errDown
	}
	return nil
}

func (w *watchedKV) Get(ctx context.Context, key string) ([]byte, bool, error) {
	if err := w.step(); err != nil {
		return nil, false, err
	}
	return w.Store.Get(ctx, key)
}

func (w *watchedKV) GetTTL(ctx context.Context, key string) ([]byte, time.Duration, bool, error) {
	if err := w.step(); err != nil {
		return nil, 0, false, err
	}
	v, left, found, err := w.Store.GetTTL(ctx, key)
	if w.afterGet != nil {
		w.afterGet(key)
	}
	return v, left, found, err
}

func (w *watchedKV) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.Store.Set(ctx, key, value, ttl)
}

func (w *watchedKV) SetNX(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	if err := w.step(); err != nil {
		return false, err
	}
	return w.Store.SetNX(ctx, key, value, ttl)
}

func (w *watchedKV) Take(ctx context.Context, key string) ([]byte, bool, error) {
	if err := w.step(); err != nil {
		return nil, false, err
	}
	return w.Store.Take(ctx, key)
}

func (w *watchedKV) Del(ctx context.Context, keys ...string) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.Store.Del(ctx, keys...)
}

func (w *watchedKV) Touch(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	w.touches.Add(1)
	if err := w.step(); err != nil {
		return false, err
	}
	return w.Store.Touch(ctx, key, ttl)
}

func (w *watchedKV) TTL(ctx context.Context, key string) (time.Duration, error) {
	if err := w.step(); err != nil {
		return 0, err
	}
	return w.Store.TTL(ctx, key)
}

func (w *watchedKV) Incr(ctx context.Context, key string, ttl time.Duration) (int64, error) {
	if err := w.step(); err != nil {
		return 0, err
	}
	return w.Store.Incr(ctx, key, ttl)
}

func (w *watchedKV) Add(ctx context.Context, key string, ttl time.Duration, members ...string) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.Store.Add(ctx, key, ttl, members...)
}

func (w *watchedKV) Members(ctx context.Context, key string) ([]string, error) {
	if err := w.step(); err != nil {
		return nil, err
	}
	return w.Store.Members(ctx, key)
}

func (w *watchedKV) Remove(ctx context.Context, key string, members ...string) error {
	if err := w.step(); err != nil {
		return err
	}
	return w.Store.Remove(ctx, key, members...)
}

// leaseless never lets anything be remembered.
type leaseless struct{ kv.Store }

func (leaseless) Lease(string) kv.Lease { return kv.Lease{} }

// recorder writes down what is kept.
type recorder struct {
	kv.Store
	keys, values []string
}

func (r *recorder) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	r.keys, r.values = append(r.keys, key), append(r.values, string(value))
	return r.Store.Set(ctx, key, value, ttl)
}

func (r *recorder) SetNX(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error) {
	r.keys, r.values = append(r.keys, key), append(r.values, string(value))
	return r.Store.SetNX(ctx, key, value, ttl)
}

func (r *recorder) Add(ctx context.Context, key string, ttl time.Duration, members ...string) error {
	r.keys, r.values = append(r.keys, key), append(r.values, members...)
	return r.Store.Add(ctx, key, ttl, members...)
}
