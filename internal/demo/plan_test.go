package demo

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandian/internal/kit/store"
	"tandian/internal/voucher"
)

// Whatever passes between two looks at the town, buyers, operators and hours, the plan fills what is missing, asks for
// nothing twice, and never for more than its share of an hour.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now := time.Unix(rapid.Int64Range(1.7e9, 1.9e9).Draw(r, "now"), rapid.Int64Range(0, 999).Draw(r, "ms")*1e6)
		var sales []*voucher.Offer
		for range rapid.IntRange(1, 30).Draw(r, "looks") {
			now = now.Add(rapid.SampledFrom([]time.Duration{10 * time.Second, time.Minute, 13 * time.Minute, 2 * time.Hour, 90 * time.Hour}).Draw(r, "step"))
			for _, s := range sales {
				if rapid.IntRange(0, 9).Draw(r, "chance") == 0 {
					s.Stock = 0
				}
			}
			nothingToCome := count(now, sales, voucher.Scheduled) == 0
			for _, s := range plan(now, sales) {
				if !s.ends.After(now) || !s.ends.After(s.begins) {
					r.Fatal("a sale that is over before it begins", s)
				}
				sales = append(sales, &voucher.Offer{FlashSale: voucher.FlashSale{Stock: 9, BeginsAt: store.Millis(s.begins), EndsAt: store.Millis(s.ends), CreatedAt: store.Millis(now)}})
			}
			lastHour := 0
			for _, s := range sales {
				if s.CreatedAt > store.Millis(now.Add(-time.Hour)) {
					lastHour++
				}
			}
			if lastHour > maxPerHour {
				r.Fatal("too many in an hour", lastHour)
			}
			if lastHour == maxPerHour {
				continue
			}
			if count(now, sales, voucher.Live) < wantLive || count(now, sales, voucher.Scheduled) < wantUpcoming || len(plan(now, sales)) != 0 {
				r.Fatal("not fresh", count(now, sales, voucher.Live), count(now, sales, voucher.Scheduled))
			}
			soon := 0
			for _, s := range sales {
				if begins := store.Time(s.BeginsAt); begins.After(now) && !begins.After(now.Add(firstStart)) {
					soon++
				}
			}
			if nothingToCome && soon == 0 {
				r.Fatal("after a pause one begins within a minute")
			}
		}
	})
}

func count(now time.Time, sales []*voucher.Offer, phase voucher.Phase) (n int) {
	for _, s := range sales {
		if s.Phase(now) == phase {
			n++
		}
	}
	return n
}
