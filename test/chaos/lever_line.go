package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// line is the network between an instance and a store.
type line struct {
	mu    sync.Mutex // held while it changes
	proxy *toxiproxy.Proxy
}

// newLine leads from a free port to a store.
func newLine(name, upstream string) (*line, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &line{proxy: toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)}
	return l, l.proxy.Start()
}

// addr is where the line begins.
func (l *line) addr() string { return l.proxy.Listen }

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
}

// toxic makes the line bad in one direction, "upstream" or "downstream".
func (l *line) toxic(kind, direction string, attributes map[string]int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	spec, err := json.Marshal(map[string]any{"name": direction, "type": kind, "stream": direction, "attributes": attributes})
	if err != nil {
		return err
	}
	_, err = l.proxy.Toxics.AddToxicJson(strings.NewReader(string(spec)))
	return err
}

// renew cuts all connections and makes the line good again. What a black hole has swallowed doesn't come out.
func (l *line) renew(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
	l.proxy.Toxics.ResetToxics(ctx)
	if err := l.proxy.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		return err
	}
	return nil
}

// soothe makes the line good again for the connections that there are.
func (l *line) soothe(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Toxics.ResetToxics(ctx)
	return nil
}

func (s *scene) line(p pull) *line { return s.lines[p.app][p.store] }

// cut ends all connections and refuses new ones.
func cut(_ context.Context, s *scene, p pull) (letGo, error) {
	s.line(p).close()
	return s.line(p).renew, nil
}

// blackHole swallows everything, both ways, and says nothing.
func blackHole(_ context.Context, s *scene, p pull) (letGo, error) {
	forEver := map[string]int{"timeout": 0}
	l := s.line(p)
	return l.renew, errors.Join(l.toxic("timeout", "upstream", forEver), l.toxic("timeout", "downstream", forEver))
}

// slow delays everything that comes from the store.
func slow(_ context.Context, s *scene, p pull) (letGo, error) {
	ms := slowBy(p.n)
	return s.line(p).soothe, s.line(p).toxic("latency", "downstream", map[string]int{"latency": ms, "jitter": ms / 2})
}

func slowBy(n int) int { return 20 + n%300 }

// cutReplies lets what is sent through and ends each connection after a few bytes of what comes back.
func cutReplies(_ context.Context, s *scene, p pull) (letGo, error) {
	return s.line(p).renew, s.line(p).toxic("limit_data", "downstream", map[string]int{"bytes": bytesPassed(p.n)})
}

func bytesPassed(n int) int { return n }

// lay makes the lines of an instance to all stores.
func lay(name string, upstreams map[string]string) (map[string]*line, error) {
	lines := map[string]*line{}
	for store, upstream := range upstreams {
		l, err := newLine(fmt.Sprint(name, "-", store), upstream)
		if err != nil {
			return nil, err
		}
		lines[store] = l
	}
	return lines, nil
}
