package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func ask(t *testing.T, h http.Handler, query string) (int, readyAnswer) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/readyz"+query, nil))
	var a readyAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if (w.Code == http.StatusOK) != a.Ready || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, headers %v for %+v", w.Code, w.Header(), a)
	}
	return w.Code, a
}

func TestReadinessTellsTheTruth(t *testing.T) {
	var redis atomic.Pointer[error]
	asked := 0
	clock := time.Now()
	var log strings.Builder
	r := newReadiness(func() time.Time { return clock }, slog.New(slog.NewTextHandler(&log, nil)))
	if code, a := ask(t, r, ""); code != 503 || a.State != "starting" || len(a.Checks) != 0 {
		t.Errorf("before the stores are open: %d %+v", code, a)
	}
	clock = clock.Add(time.Minute)
	r.watch([]dependency{{"database", func(context.Context) error { asked++; return nil }}, {"redis", func(context.Context) error {
		if err := redis.Load(); err != nil {
			return *err
		}
		return nil
	}}})
	if code, a := ask(t, r, ""); code != 503 || a.State != "starting" {
		t.Errorf("before it serves: %d %+v", code, a)
	}
	r.state.Store(serving)
	if code, a := ask(t, r, ""); code != 200 || !cmp.Equal(a, readyAnswer{true, "serving", map[string]string{"database": "ok", "redis": "ok"}}) {
		t.Errorf("all is well: %d %+v", code, a)
	}
	if asked != 1 {
		t.Errorf("the stores were asked %d times within a second", asked)
	}

	away := errors.New("READONLY at 10.0.0.1")
	redis.Store(&away)
	clock = clock.Add(probeFor)
	code, a := ask(t, r, "")
	if code != 503 || !cmp.Equal(a, readyAnswer{false, "serving", map[string]string{"database": "ok", "redis": "down"}}) {
		t.Errorf("Redis is away: %d %+v", code, a)
	}
	for query, want := range map[string]int{"?exclude=redis": 200, "?exclude=queue&exclude=redis": 200, "?exclude=database": 503, "?exclude=": 503} {
		if code, a := ask(t, r, query); code != want || a.Checks["redis"] != "down" {
			t.Errorf("%s: %d %+v", query, code, a)
		}
	}
	scraped := httptest.NewRecorder()
	registry := prometheus.NewRegistry()
	registry.MustRegister(r)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(scraped, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`tandian_dependency_up{dependency="database"} 1`, `tandian_dependency_up{dependency="redis"} 0`} {
		if !strings.Contains(scraped.Body.String(), line+"\n") {
			t.Errorf("no %s in\n%s", line, scraped.Body)
		}
	}
	redis.Store(nil)
	clock = clock.Add(probeFor)
	if code, a := ask(t, r, ""); code != 200 {
		t.Errorf("Redis is back: %d %+v", code, a)
	}
	if down, up := strings.Count(log.String(), "a store is down"), strings.Count(log.String(), "a store is up again"); down != 1 || up != 1 || !strings.Contains(log.String(), "READONLY") {
		t.Errorf("the log tells of each change once, and why:\n%s", &log)
	}
	r.state.Store(draining)
	if code, a := ask(t, r, "?exclude=redis&exclude=database"); code != 503 || a.State != "draining" {
		t.Errorf("draining can't be left out: %d %+v", code, a)
	}
	if asked != 3 {
		t.Errorf("the stores were asked %d times in 3 seconds", asked)
	}
}

// Of a crowd one asks the stores, and none of them waits for ever.
func TestReadinessIsBounded(t *testing.T) {
	var asked atomic.Int32
	r := newReadiness(time.Now, slog.New(slog.DiscardHandler))
	r.state.Store(serving)
	r.watch([]dependency{{"redis", func(ctx context.Context) error {
		asked.Add(1)
		<-ctx.Done() // frozen
		return ctx.Err()
	}}})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if code, _ := ask(t, r, ""); code != 503 {
				t.Errorf("status %d", code)
			}
		})
	}
	wg.Wait()
	if asked.Load() != 1 {
		t.Errorf("asked %d times", asked.Load())
	}
}
