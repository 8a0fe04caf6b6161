package money

import "testing"

func TestString(t *testing.T) {
	for f, want := range map[Fen]string{0: "¥0.00", 5: "¥0.05", 4750: "¥47.50", -1: "-¥0.01", 10000: "¥100.00"} {
		if got := f.String(); got != want {
			t.Errorf("Fen(%d) = %s, want %s", int64(f), got, want)
		}
	}
}
