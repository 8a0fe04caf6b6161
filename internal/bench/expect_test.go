package bench

import (
	"testing"
)

func TestParseExpect(t *testing.T) {
	got, err := ParseExpect("p99<80ms, errors<0.1%,oversell=0 ,accept>=1e3,drain<=1m30s,")
	if err != nil {
		t.Fatal(err)
	}
	want := []Threshold{
		{"p99<80ms", "p99", "<", 80, false}, {"errors<0.1%", "errors", "<", .001, true}, {"oversell=0", "oversell", "=", 0, false},
		{"accept>=1e3", "accept", ">=", 1000, false}, {"drain<=1m30s", "drain", "<=", 90_000, false},
	}
	if len(got) != len(want) {
		t.Fatalf("%d thresholds: %+v", len(got), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	for _, bad := range []string{"p99", "p99<80", "<80ms", "p98<80ms", "errors<NaN", "lost<1%", "ratio>0.5%", "accept>>1", "p99<80ms;errors=0"} {
		if _, err := ParseExpect(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func FuzzParseExpect(f *testing.F) {
	f.Add("p99<80ms,errors<0.1%,oversell=0,dup=0")
	f.Add("<=,=,>")
	f.Fuzz(func(t *testing.T, list string) {
		thresholds, err := ParseExpect(list)
		if err != nil {
			return
		}
		for _, th := range thresholds {
			if _, known := metrics[th.Metric]; !known {
				t.Errorf("%q: metric %q", list, th.Metric)
			}
			// What was read once reads the same again.
			again, err := ParseExpect(th.Text)
			if err != nil || len(again) != 1 || again[0] != th {
				t.Errorf("%q reads as %+v, then as %+v, %v", list, th, again, err)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		text   string
		actual float64
		ok     bool
	}{
		{"ratio<2", 1.9, true}, {"ratio<2", 2, false}, {"ratio<=2", 2, true}, {"ratio>2", 2, false}, {"ratio>=2", 2, true},
		{"ratio=2", 2, true}, {"ratio=2", 2.1, false},
	} {
		th, err := ParseExpect(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		if c := th[0].check(&tt.actual); c.OK != tt.ok {
			t.Errorf("%s with %v: %v", tt.text, tt.actual, c.OK)
		}
		if th[0].check(nil).OK {
			t.Errorf("%s passes without a measurement", tt.text)
		}
	}
}
