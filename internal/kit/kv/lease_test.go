package kv_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/kv"
	"tandian/internal/kit/kv/kvtest"
)

// patience is how long a test waits for an event before it calls it lost.
const patience = 20 * time.Second

// until waits for something to become so.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// open connects a store to the server, with a link to the address; both end with the test. Its leases hold.
func open(t *testing.T, s *kvtest.Server, link string, now func() time.Time) *kv.Redis {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, DisableCache: true})
	check(t, err)
	t.Cleanup(client.Close)
	l := kv.NewLink(rueidis.ClientOption{InitAddress: []string{link}}, []string{"leased:"}, now, func(err error) { t.Log("link:", err) })
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = l.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	r := &kv.Redis{Client: client, Link: l}
	until(t, "the link is up", func() bool { return r.Lease("leased:x").Holds(now()) })
	return r
}

// TestLeases is the law of leases, for changes made here and elsewhere.
func TestLeases(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		c := newClock()
		m := kv.NewMemory(c.Now)
		leaseContract(t, m, m, c)
	})
	t.Run("redis", func(t *testing.T) {
		s := kvtest.Start(t)
		c := newClock()
		leaseContract(t, open(t, s, s.Addr, c.Now), open(t, s, s.Addr, c.Now), c)
	})
}

func leaseContract(t *testing.T, here, elsewhere kv.Store, c *clock) {
	ctx := t.Context()
	for name, change := range map[string]func(s kv.Store, key string) error{
		"set":    func(s kv.Store, key string) error { return s.Set(ctx, key, []byte("2"), time.Minute) },
		"take":   func(s kv.Store, key string) error { _, _, err := s.Take(ctx, key); return err },
		"del":    func(s kv.Store, key string) error { return s.Del(ctx, "leased:another", key) },
		"touch":  func(s kv.Store, key string) error { _, err := s.Touch(ctx, key, time.Hour); return err },
		"incr":   func(s kv.Store, key string) error { _, err := s.Incr(ctx, key, time.Minute); return err },
		"setnx":  func(s kv.Store, key string) error { _, err := s.SetNX(ctx, key+":new", nil, time.Minute); return err },
		"add":    func(s kv.Store, key string) error { return s.Add(ctx, key+":set", time.Minute, "b") },
		"remove": func(s kv.Store, key string) error { return s.Remove(ctx, key+":set", "a") },
	} {
		key := "leased:" + name
		changed := map[string]string{"setnx": key + ":new", "add": key + ":set", "remove": key + ":set"}[name]
		if changed == "" {
			changed = key
		}
		t.Run(name, func(t *testing.T) {
			for where, s := range map[string]kv.Store{"here": here, "elsewhere": elsewhere} {
				check(t, here.Del(ctx, key, key+":new", key+":set"))
				check(t, here.Set(ctx, key, []byte("1"), time.Minute))
				check(t, here.Add(ctx, key+":set", time.Minute, "a"))
				quiet(t, here, changed, c)
				lease, other := here.Lease(changed), here.Lease("leased:unchanged")
				if _, left, ok, err := here.GetTTL(ctx, key); err != nil || !ok || left <= 59*time.Second || left > time.Minute || !lease.Holds(c.Now()) {
					t.Fatal("a lease holds while nothing changes:", left, ok, err)
				}
				check(t, change(s, key))
				if s == here && lease.Holds(c.Now()) {
					t.Errorf("changed %s, and it holds", where)
				}
				until(t, "a change "+where+" breaks the lease", func() bool { return !lease.Holds(c.Now()) })
				if !other.Holds(c.Now()) {
					t.Error("another key's lease is broken")
				}
			}
		})
	}
	t.Run("a lease taken after the change holds", func(t *testing.T) {
		check(t, elsewhere.Set(ctx, "leased:a", []byte("1"), time.Minute))
		quiet(t, here, "leased:a", c)
	})
	t.Run("the zero lease never holds", func(t *testing.T) {
		if (kv.Lease{}).Holds(c.Now()) {
			t.Error("it holds")
		}
	})
}

// quiet waits until all is heard that has happened to the key: changes of a marker are heard after it.
func quiet(t *testing.T, s kv.Store, key string, c *clock) {
	t.Helper()
	marker := "leased:marker:" + strconv.FormatUint(rand.Uint64(), 36)
	lease := s.Lease(marker)
	check(t, s.Set(t.Context(), marker, nil, time.Minute))
	until(t, "the marker is heard of", func() bool { return !lease.Holds(c.Now()) })
	until(t, "a lease on "+key+" that holds", func() bool {
		lease := s.Lease(key)
		return lease.Holds(c.Now())
	})
}

// Whatever happens at once, a lease that holds after the last change was taken after it; run with -race.
func TestLeasesUnderFire(t *testing.T) {
	s := kvtest.Start(t)
	writer, reader := open(t, s, s.Addr, time.Now), open(t, s, s.Addr, time.Now)
	ctx := t.Context()
	var done atomic.Bool
	var wg sync.WaitGroup
	defer wg.Wait()
	defer done.Store(true)
	var mu sync.Mutex
	remembered := map[string]string{} // guarded by mu
	leases := map[string]kv.Lease{}   // guarded by mu
	read := func(key string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if leases[key].Holds(time.Now()) {
			return remembered[key], nil
		}
		leases[key] = reader.Lease(key)
		v, _, err := reader.Get(ctx, key)
		remembered[key] = string(v)
		return string(v), err
	}
	keys := []string{"leased:1", "leased:2", "leased:3"}
	for _, key := range keys {
		wg.Go(func() {
			for !done.Load() {
				if _, err := read(key); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 100 {
		for _, key := range keys {
			check(t, writer.Set(ctx, key, strconv.AppendInt(nil, int64(i), 10), time.Minute))
		}
		for _, key := range keys {
			until(t, "the last value is seen", func() bool { v, err := read(key); return err == nil && v == strconv.Itoa(i) })
		}
	}
}

// A4: everything that may make changes pass unheard makes leases not hold within half a second.
func TestLinkTrouble(t *testing.T) {
	s := kvtest.Start(t)
	elsewhere := open(t, s, s.Addr, time.Now)
	for name, trouble := range map[string]func(l *kvtest.Line){
		"black hole both ways":  func(l *kvtest.Line) { l.Swallow("upstream", "downstream") },
		"black hole downstream": func(l *kvtest.Line) { l.Swallow("downstream") },
		"black hole upstream":   func(l *kvtest.Line) { l.Swallow("upstream") },
		"reset":                 func(l *kvtest.Line) { l.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClock() // stands still: what breaks leases below is not that time goes by
			line := s.Line()
			r := open(t, s, line.Addr, c.Now)
			ctx := t.Context()
			lease := r.Lease("leased:a")
			trouble(line)
			check(t, elsewhere.Set(ctx, "leased:a", []byte("1"), time.Minute))
			if l := r.Lease("leased:b"); lease.Holds(c.Now().Add(500*time.Millisecond)) || l.Holds(c.Now().Add(500*time.Millisecond)) {
				t.Fatal("it holds half a second after the last heartbeat")
			}
			until(t, "the link is given up", func() bool { return !lease.Holds(c.Now()) && !r.Lease("leased:b").Holds(c.Now()) })
			if v, _, err := r.Get(ctx, "leased:a"); err != nil || string(v) != "1" {
				t.Fatal("reading goes on:", string(v), err)
			}
			line.Heal()
			until(t, "the link is up again", func() bool { return r.Lease("leased:a").Holds(c.Now()) })
			if lease.Holds(c.Now()) {
				t.Fatal("an old lease came back")
			}
			lease = r.Lease("leased:a")
			check(t, elsewhere.Set(ctx, "leased:a", []byte("2"), time.Minute))
			until(t, "changes are heard again", func() bool { return !lease.Holds(c.Now()) })
		})
	}
	t.Run("time goes by without a heartbeat", func(t *testing.T) {
		c := newClock()
		line := s.Line()
		r := open(t, s, line.Addr, c.Now)
		line.Swallow("downstream")
		defer line.Heal() // closing takes its time otherwise
		lease := r.Lease("leased:a")
		c.advance(500 * time.Millisecond)
		if lease.Holds(c.Now()) || r.Lease("leased:a").Holds(c.Now()) {
			t.Fatal("it holds")
		}
	})
	t.Run("everything flushed", func(t *testing.T) {
		c := newClock()
		r := open(t, s, s.Addr, c.Now)
		lease := r.Lease("leased:a")
		s.Do("FLUSHALL")
		until(t, "a flush breaks leases", func() bool { return !lease.Holds(c.Now()) })
	})
	t.Run("the server killed and started again", func(t *testing.T) {
		c := newClock()
		r := open(t, s, s.Addr, c.Now)
		lease := r.Lease("leased:a")
		s.Restart()
		until(t, "the link is up again", func() bool { return r.Lease("leased:a").Holds(c.Now()) })
		if lease.Holds(c.Now()) {
			t.Fatal("an old lease came back")
		}
	})
}

// Only keys that the server tells of can be leased, and nothing without a link.
func TestNoLease(t *testing.T) {
	s := kvtest.Start(t)
	r := open(t, s, s.Addr, time.Now)
	if r.Lease("other:a").Holds(time.Now()) {
		t.Error("nobody tells of this key")
	}
	r.Link = nil
	if r.Lease("leased:a").Holds(time.Now()) {
		t.Error("there is no link")
	}
	check(t, r.Set(t.Context(), "leased:a", nil, time.Minute))
}

// What a request pays to know that what it remembers still holds.
func BenchmarkHolds(b *testing.B) {
	m := kv.NewMemory(time.Now)
	lease, now := m.Lease("login:token:x"), time.Now()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !lease.Holds(now) {
				b.Fatal("broken")
			}
		}
	})
}
