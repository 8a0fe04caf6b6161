package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsAreContiguousAndOrdered(t *testing.T) {
	for us := int64(0); us < 1<<20; us++ {
		b := bucketOf(us)
		if us > upperBound(b) || b > 0 && us <= upperBound(b-1) {
			t.Fatalf("%d µs is in bucket %d, which ends at %d", us, b, upperBound(b))
		}
	}
	if b := bucketOf(1 << 62); b != buckets-1 {
		t.Errorf("an absurd duration is in bucket %d", b)
	}
}

func TestQuantilesAreWithinThreePercent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []int64
	for range 20_000 {
		us := int64(r.ExpFloat64() * 5000)
		all = append(all, us)
		h.record(time.Duration(us) * time.Microsecond)
	}
	slices.Sort(all)
	d := h.snapshot()
	for _, q := range []float64{.01, .5, .9, .95, .99, .999, 1} {
		exact := float64(all[max(int(q*float64(len(all)))-1, 0)]) / 1000
		if got := d.quantile(q); got < exact || got > exact*1.04+.001 {
			t.Errorf("quantile %v = %v ms, exactly %v", q, got, exact)
		}
	}
	if d.total != 20_000 || d.max != all[len(all)-1] {
		t.Errorf("total %d, max %d", d.total, d.max)
	}
}

func TestDistributionOfAnInterval(t *testing.T) {
	var h histogram
	h.record(time.Second)
	before := h.snapshot()
	h.record(time.Millisecond)
	if d := h.snapshot().minus(before); d.total != 1 || d.quantile(1) > 1.04 {
		t.Errorf("interval has %d samples, quantile %v ms", d.total, d.quantile(1))
	}
	if got := (distribution{}).latency(); got != (Latency{}) {
		t.Errorf("empty distribution: %+v", got)
	}
}
