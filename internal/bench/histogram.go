package bench

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// Buckets are logarithmic with subBuckets steps per power of two of microseconds: a quantile is at most 1/subBuckets
// (3 %) above the true value.
const (
	subBits    = 5
	subBuckets = 1 << subBits
	buckets    = 32 * subBuckets
)

// histogram counts durations. It may be written and read concurrently.
type histogram struct {
	counts [buckets]atomic.Int64
	max    atomic.Int64 // microseconds
}

func (h *histogram) record(d time.Duration) {
	us := max(d.Microseconds(), 0)
	h.counts[bucketOf(us)].Add(1)
	for {
		old := h.max.Load()
		if us <= old || h.max.CompareAndSwap(old, us) {
			return
		}
	}
}

func bucketOf(us int64) int {
	if us < subBuckets {
		return int(us)
	}
	shift := bits.Len64(uint64(us)) - subBits - 1
	return min(shift*subBuckets+int(us>>shift), buckets-1)
}

// upperBound is the largest number of microseconds that falls into bucket b.
func upperBound(b int) int64 {
	if b < 2*subBuckets {
		return int64(b)
	}
	shift := b/subBuckets - 1
	return (int64(b-shift*subBuckets)+1)<<shift - 1
}

// distribution is a histogram at one instant.
type distribution struct {
	counts [buckets]int64
	total  int64
	max    int64 // microseconds; the largest ever recorded
}

func (h *histogram) snapshot() distribution {
	d := distribution{max: h.max.Load()}
	for i := range h.counts {
		d.counts[i] = h.counts[i].Load()
		d.total += d.counts[i]
	}
	return d
}

// minus is what was recorded after the earlier snapshot.
func (d distribution) minus(earlier distribution) distribution {
	for i := range d.counts {
		d.counts[i] -= earlier.counts[i]
	}
	d.total -= earlier.total
	return d
}

// quantile returns the q-quantile (0 < q ≤ 1) in milliseconds, 0 when empty.
func (d distribution) quantile(q float64) float64 {
	rank := max(int64(q*float64(d.total)+0.999999), 1)
	var seen int64
	for b, n := range d.counts {
		if seen += n; seen >= rank {
			return float64(min(upperBound(b), d.max)) / 1000
		}
	}
	return 0
}

// Latency is the answer times of a run in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func (d distribution) latency() Latency {
	return Latency{d.quantile(.5), d.quantile(.95), d.quantile(.99), float64(d.max) / 1000}
}
