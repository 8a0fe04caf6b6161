// Package limit exists to refuse early what would be too much: per route for everybody, per address and per user.
// Rules are declared next to the route. The algorithm is GCRA, a leaky bucket kept as one time stamp per key.
package limit

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
)

// Rate allows N events per Per, Burst of them at once (0 = N). The zero Rate allows everything.
type Rate struct {
	N     int
	Per   time.Duration
	Burst int
}

// PerSecond and PerMinute read well in a route's declaration.
func PerSecond(n int) Rate { return Rate{N: n, Per: time.Second} }

// PerMinute allows n events a minute, all of them at once if so it comes.
func PerMinute(n int) Rate { return Rate{N: n, Per: time.Minute} }

// Rule is what a route declares.
type Rule struct {
	Global, IP, User Rate
}

// Override replaces, where it is above zero, the declared figure of every rule; in events per second. It is for
// load tests and for operators behind one address.
type Override struct {
	Global, IP, User int
}

func (o Override) rule(r Rule) Rule {
	replace := func(r *Rate, n int) {
		if n > 0 {
			*r = PerSecond(n)
		}
	}
	replace(&r.Global, o.Global)
	replace(&r.IP, o.IP)
	replace(&r.User, o.User)
	return r
}

// maxKeys bounds the memory: a key that has fallen out starts anew with a full burst.
const maxKeys = 100_000

// Limiter keeps the buckets of this process. Safe for concurrent use.
type Limiter struct {
	now      func() time.Time
	override Override
	buckets  *otter.Cache[bucketKey, *atomic.Int64]
}

type bucketKey struct {
	route string
	who   string // "" = everybody, an address, or "u" and a user id
}

// New returns a limiter that reads the time from now.
func New(now func() time.Time, o Override) *Limiter {
	return &Limiter{now: now, override: o, buckets: otter.Must(&otter.Options[bucketKey, *atomic.Int64]{MaximumSize: maxKeys})}
}

// Allow takes one event of route from the buckets of everybody, of the address and of the user (each skipped when
// empty), and returns 0, or how long to wait when one of them is empty. A refusal takes nothing from the buckets
// behind it.
func (l *Limiter) Allow(route string, r Rule, ip, user string) time.Duration {
	r = l.override.rule(r)
	now := l.now().UnixNano()
	if user != "" {
		if wait := l.take(bucketKey{route, "u" + user}, r.User, now); wait > 0 {
			return wait
		}
	}
	if ip != "" {
		if wait := l.take(bucketKey{route, ip}, r.IP, now); wait > 0 {
			return wait
		}
	}
	return l.take(bucketKey{route, ""}, r.Global, now)
}

func (l *Limiter) take(key bucketKey, r Rate, now int64) time.Duration {
	if r.N <= 0 {
		return 0
	}
	b, ok := l.buckets.GetIfPresent(key)
	if !ok {
		b, _ = l.buckets.SetIfAbsent(key, &atomic.Int64{})
	}
	burst := r.Burst
	if burst <= 0 {
		burst = r.N
	}
	return gcra(b, now, int64(r.Per)/int64(r.N), int64(burst))
}

// gcra moves the theoretical arrival time tat by one interval unless that would put it more than burst intervals
// ahead of now; then it returns the wait until it would not.
func gcra(tat *atomic.Int64, now, interval, burst int64) time.Duration {
	for {
		old := tat.Load()
		next := max(old, now) + interval
		if ahead := next - now - interval*burst; ahead > 0 {
			return time.Duration(ahead)
		}
		if tat.CompareAndSwap(old, next) {
			return 0
		}
	}
}

// Seconds rounds a wait up, as Retry-After wants it.
func Seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
