package id

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestJSON(t *testing.T) {
	b, err := json.Marshal(map[string]ID{"a": 9007199254740993})
	if err != nil || string(b) != `{"a":"9007199254740993"}` {
		t.Fatal(string(b), err)
	}
	for in, ok := range map[string]bool{`"42"`: true, `42`: true, `"0"`: false, `-1`: false, `"-1"`: false, `1.5`: false, `"9223372036854775807"`: true,
		`"9223372036854775808"`: false, `""`: false, `"042"`: false, `null`: false, `[]`: false, `"４２"`: false} {
		var v struct{ X ID }
		if err := json.Unmarshal([]byte(`{"X":`+in+`}`), &v); (err == nil) != ok {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"1", "0", "-1", "9223372036854775808", "+1", " 1", "1e3", "0x10"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := Parse(s); err == nil && (v <= 0 || v.String() != s) {
			t.Fatalf("Parse(%q) = %d does not print back", s, v)
		}
	})
}

// Several instances draw from one ledger while their clocks jump about (F66): no id comes twice.
func TestSequenceUniqueWhateverTheClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var next, floor int64
		// Start near the wrap of the low 32 bits.
		next = rapid.Int64Range(0, 1<<33).Draw(t, "start")
		lease := func(_ context.Context, n, now int64) (Block, error) {
			floor = max(floor, now)
			b := Block{From: next, N: n, Floor: floor}
			next += n
			return b, nil
		}
		clock := int64(1_800_000_000)
		instances := make([]*Sequence, 3)
		for i := range instances {
			instances[i] = &Sequence{Lease: lease, Size: 4, Now: func() time.Time { return time.Unix(clock, 0) }}
		}
		seen := map[ID]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "draws") {
			clock += rapid.Int64Range(-86400, 3600).Draw(t, "jump")
			clock = max(clock, epoch)
			v, err := instances[rapid.IntRange(0, 2).Draw(t, "instance")].Next(context.Background())
			if err != nil || v <= 0 || seen[v] {
				t.Fatalf("id %d: seen %v, err %v", v, seen[v], err)
			}
			seen[v] = true
		}
	})
}

// F26: callers don't stand one behind the other before a ledger that gives no answer.
func TestSequenceWaitsForNobodyLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := true
		s := &Sequence{Size: 10, Now: time.Now, Lease: func(ctx context.Context, n, now int64) (Block, error) {
			if silent {
				<-ctx.Done()
				return Block{}, ctx.Err()
			}
			return Block{From: 1, N: n, Floor: now}, nil
		}}
		began := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if v, err := s.Next(t.Context()); err == nil {
					t.Error(v)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took > 2*leaseTimeout {
			t.Errorf("the last has waited for %v", took)
		}
		silent = false
		if _, err := s.Next(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestSequenceCarriesItsTime(t *testing.T) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	s := &Sequence{Size: 10, Now: func() time.Time { return now },
		Lease: func(_ context.Context, n, at int64) (Block, error) { return Block{From: 1, N: n, Floor: at}, nil }}
	v, err := s.Next(context.Background())
	if err != nil || !Time(v).Equal(now) || int64(v) <= 1<<53 {
		t.Fatal(v, Time(v), err)
	}
}
