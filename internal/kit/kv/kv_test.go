package kv_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"tandian/internal/kit/kv"
	"tandian/internal/kit/store"
	"tandian/internal/schema"
)

// bundle is one implementation and the way to move its clock.
type bundle struct {
	kv.Store
	advance func(time.Duration)
}

func implementations() map[string]func(t *testing.T) bundle {
	return map[string]func(t *testing.T) bundle{
		"memory": func(*testing.T) bundle {
			clock := newClock()
			return bundle{kv.NewMemory(clock.Now), clock.advance}
		},
		"redis": openRedis,
	}
}

// openRedis empties a database of the server at TANDIAN_REDIS_ADDR that no other package's tests use. Its clock can't
// be moved, so time passes by taking it off each key.
func openRedis(t *testing.T) bundle {
	addr := os.Getenv("TANDIAN_REDIS_ADDR")
	if addr == "" {
		t.Skip(`no TANDIAN_REDIS_ADDR; run: eval "$(scripts/services up)"`)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, SelectDB: 1, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	do := func(words ...string) rueidis.RedisResult {
		return client.Do(t.Context(), client.B().Arbitrary(words...).Build())
	}
	check(t, do("FLUSHDB").Error())
	return bundle{&kv.Redis{Client: client}, func(d time.Duration) {
		keys, err := do("KEYS", "*").AsStrSlice()
		check(t, err)
		for _, key := range keys {
			ttl, err := do("PTTL", key).AsInt64()
			check(t, err)
			check(t, do("PEXPIRE", key, strconv.FormatInt(ttl-d.Milliseconds(), 10)).Error())
		}
	}}
}

type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC).UnixMilli())
	return c
}
func (c *clock) Now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// TestContract is the law that every kv.Store keeps.
func TestContract(t *testing.T) {
	for name, open := range implementations() {
		t.Run(name, func(t *testing.T) { contract(t, open) })
	}
}

func contract(t *testing.T, open func(t *testing.T) bundle) {
	t.Run("a value lives as long as its ttl", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		check(t, s.Set(ctx, "a", []byte("1"), 2*time.Second))
		if v, ok, err := s.Get(ctx, "a"); string(v) != "1" || !ok || err != nil {
			t.Fatal(v, ok, err)
		}
		if ttl, err := s.TTL(ctx, "a"); err != nil || ttl <= time.Second || ttl > 2*time.Second {
			t.Fatal(ttl, err)
		}
		s.advance(2100 * time.Millisecond)
		if _, ok, _ := s.Get(ctx, "a"); ok {
			t.Fatal("expired value came back")
		}
		if ttl, _ := s.TTL(ctx, "a"); ttl != 0 {
			t.Fatal(ttl)
		}
	})
	t.Run("touch renews only what is there", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		check(t, s.Set(ctx, "a", []byte("1"), time.Second))
		if ok, err := s.Touch(ctx, "a", time.Hour); !ok || err != nil {
			t.Fatal(ok, err)
		}
		s.advance(2 * time.Second)
		if _, ok, _ := s.Get(ctx, "a"); !ok {
			t.Fatal("touch did not renew")
		}
		if ok, err := s.Touch(ctx, "b", time.Hour); ok || err != nil {
			t.Fatal(ok, err)
		}
	})
	t.Run("of many takers one gets it", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		check(t, s.Set(ctx, "code", []byte("x"), time.Minute))
		var got atomic.Int32
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if v, ok, err := s.Take(ctx, "code"); err == nil && ok && string(v) == "x" {
					got.Add(1)
				}
			})
		}
		wg.Wait()
		if got.Load() != 1 {
			t.Fatalf("%d takers got it", got.Load())
		}
	})
	t.Run("set if absent", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		for i, want := range []bool{true, false} {
			if ok, err := s.SetNX(ctx, "a", []byte(strconv.Itoa(i)), time.Second); ok != want || err != nil {
				t.Fatal(i, ok, err)
			}
		}
		s.advance(1100 * time.Millisecond)
		if ok, err := s.SetNX(ctx, "a", nil, time.Second); !ok || err != nil {
			t.Fatal("free again after expiry", ok, err)
		}
	})
	t.Run("a counter's ttl starts with the first count", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		for want := int64(1); want <= 3; want++ {
			if n, err := s.Incr(ctx, "n", 2*time.Second); n != want || err != nil {
				t.Fatal(n, err)
			}
			s.advance(600 * time.Millisecond)
		}
		s.advance(600 * time.Millisecond)
		if n, err := s.Incr(ctx, "n", time.Second); n != 1 || err != nil {
			t.Fatal("must count from 1 again", n, err)
		}
	})
	t.Run("sets", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		check(t, s.Add(ctx, "s", time.Second, "a", "b"))
		check(t, s.Add(ctx, "s", time.Minute, "b", "c"))
		check(t, s.Remove(ctx, "s", "a", "nobody"))
		s.advance(2 * time.Second)
		got, err := s.Members(ctx, "s")
		slices.Sort(got)
		if !slices.Equal(got, []string{"b", "c"}) || err != nil {
			t.Fatal(got, err)
		}
		check(t, s.Del(ctx, "s", "nothing"))
		if got, err := s.Members(ctx, "s"); len(got) != 0 || err != nil {
			t.Fatal(got, err)
		}
	})
	t.Run("a value is the store's own", func(t *testing.T) {
		s, ctx := open(t), t.Context()
		b := []byte("abc")
		check(t, s.Set(ctx, "a", b, time.Minute))
		b[0] = 'X'
		v, _, err := s.Get(ctx, "a")
		if err != nil || string(v) != "abc" {
			t.Fatal(string(v), err)
		}
	})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Sign-ins outlive a restart of the embedded mode.
func TestJournal(t *testing.T) {
	ctx := t.Context()
	db, err := store.OpenSQLite(ctx, filepath.Join(t.TempDir(), "t.db"))
	check(t, err)
	defer db.Close()
	_, err = schema.Up(ctx, schema.SQLite, db.Write.DB)
	check(t, err)
	clock := newClock()
	start := func() (*kv.Memory, *kv.Journal) {
		m := kv.NewMemory(clock.Now)
		j := &kv.Journal{Memory: m, DB: db}
		check(t, j.Load(ctx))
		return m, j
	}
	m, j := start()
	check(t, m.Set(ctx, "keep", []byte("v"), time.Hour))
	check(t, m.Set(ctx, "gone", []byte("v"), time.Hour))
	check(t, m.Set(ctx, "short", []byte("v"), time.Minute))
	check(t, m.Add(ctx, "set", time.Hour, "a"))
	check(t, j.Flush(ctx))
	check(t, m.Del(ctx, "gone"))
	check(t, j.Flush(ctx))
	check(t, m.Set(ctx, "unflushed", []byte("v"), time.Hour))

	clock.advance(2 * time.Minute)
	m, j = start()
	for key, want := range map[string]bool{"keep": true, "gone": false, "short": false, "unflushed": false} {
		if _, ok, _ := m.Get(ctx, key); ok != want {
			t.Errorf("%s: there %v, want %v", key, ok, want)
		}
	}
	if members, _ := m.Members(ctx, "set"); !slices.Equal(members, []string{"a"}) {
		t.Error(members)
	}
	check(t, m.Set(ctx, "again", nil, time.Hour))
	check(t, j.Flush(ctx))
	if n, err := db.Read.NewSelect().Table("kv_entry").Count(ctx); n != 3 || err != nil {
		t.Errorf("%d rows, want 3: expired ones must go (%v)", n, err)
	}
}
