package limit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

type clock struct{ ns atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

func newClock() *clock {
	c := &clock{}
	c.ns.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func TestEachScopeHasItsOwnBucket(t *testing.T) {
	c := newClock()
	l := New(c.Now, Override{})
	rule := Rule{Global: PerSecond(4), IP: PerSecond(3), User: PerSecond(2)}
	for i, tc := range []struct {
		ip, user string
		ok       bool
	}{
		{"1.1.1.1", "1", true}, {"1.1.1.1", "1", true}, {"1.1.1.1", "1", false}, // user 1 used up
		{"1.1.1.1", "2", true}, {"1.1.1.1", "3", false}, // the address used up
		{"2.2.2.2", "3", true}, {"2.2.2.2", "", false}, // everybody used up
	} {
		wait := l.Allow("r", rule, tc.ip, tc.user)
		if (wait == 0) != tc.ok {
			t.Fatalf("step %d: wait %v", i, wait)
		}
	}
	if l.Allow("other", rule, "1.1.1.1", "1") != 0 {
		t.Fatal("routes must not share buckets")
	}
	c.advance(time.Second)
	if l.Allow("r", rule, "1.1.1.1", "1") != 0 {
		t.Fatal("the buckets must fill again")
	}
}

func TestWaitIsEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		l := New(c.Now, Override{})
		rule := Rule{User: Rate{N: rapid.IntRange(1, 50).Draw(t, "n"), Per: time.Second, Burst: rapid.IntRange(0, 9).Draw(t, "burst")}}
		for range 30 {
			c.advance(time.Duration(rapid.IntRange(0, 100).Draw(t, "ms")) * time.Millisecond)
			if wait := l.Allow("r", rule, "", "1"); wait > 0 {
				c.advance(wait)
				if l.Allow("r", rule, "", "1") != 0 {
					t.Fatalf("waited %v as told and was refused again", wait)
				}
			}
		}
	})
}

func TestNeverMoreThanTheRate(t *testing.T) {
	c := newClock()
	l := New(c.Now, Override{})
	var passed atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if l.Allow("r", Rule{Global: PerSecond(100)}, "", "") == 0 {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if passed.Load() != 100 {
		t.Fatalf("%d passed at one instant, want 100", passed.Load())
	}
}

func TestOverride(t *testing.T) {
	l := New(newClock().Now, Override{User: 3})
	n := 0
	for range 10 {
		if l.Allow("r", Rule{User: PerMinute(1)}, "", "1") == 0 {
			n++
		}
	}
	if n != 3 {
		t.Fatal(n)
	}
}
