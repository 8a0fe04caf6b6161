package flashsale

import (
	"strconv"
	"testing"
	"time"
)

// What has been answered is known for half a minute at least and a minute at most, and never more than so many.
func TestRepeatsAreForgotten(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	r := &repeats{}
	first := attempt{1, 2, "a"}
	if got := r.get(first, now); got != 0 {
		t.Fatal(got)
	}
	r.put(first, 7, now)
	for _, other := range []attempt{{2, 2, "a"}, {1, 3, "a"}, {1, 2, "b"}} {
		if got := r.get(other, now); got != 0 {
			t.Fatal(other, got)
		}
	}
	if got := r.get(first, now.Add(2*repeatFor-1)); got != 7 {
		t.Fatal(got)
	}
	if got := r.get(first, now.Add(2*repeatFor)); got != 0 {
		t.Fatal("known for too long", got)
	}

	idle := &repeats{}
	idle.put(first, 7, now)
	if got := idle.get(first, now.Add(time.Hour)); got != 0 {
		t.Fatal("nobody asked in between, and it is still known", got)
	}

	full := &repeats{}
	for i := range 5 * mostRepeats {
		full.put(attempt{1, 2, strconv.Itoa(i)}, 7, now)
	}
	if n := len(full.young) + len(full.old); n > 2*mostRepeats {
		t.Fatalf("%d are kept", n)
	}
	if got := full.get(attempt{1, 2, strconv.Itoa(5*mostRepeats - 1)}, now); got != 7 {
		t.Fatal("the latest is forgotten")
	}
}
