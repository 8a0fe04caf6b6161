package shop_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandian/internal/kit/id"
	"tandian/internal/shop"
)

var here = shop.Location{Lng: 120.15, Lat: 30.28}

func TestList(t *testing.T) {
	tw := newTown(t)
	tw.add(t,
		&shop.Shop{ID: 1, CategoryID: 1, Name: "甲Bar", Location: here, Sold: 5, Score: 40, AvgPrice: 300},
		&shop.Shop{ID: 2, CategoryID: 2, Name: "乙50%off", Location: shop.Location{Lng: 120.16, Lat: 30.28}, Sold: 9, Score: 50, AvgPrice: 100},
		&shop.Shop{ID: 3, CategoryID: 1, Name: "丙a_b!", Location: shop.Location{Lng: 120.25, Lat: 30.28}, Sold: 5, Score: 30, AvgPrice: 200})
	for query, want := range map[string]string{
		"":                             "乙50%off 甲Bar 丙a_b!",
		"?sort=rating":                 "乙50%off 甲Bar 丙a_b!",
		"?sort=price":                  "乙50%off 丙a_b! 甲Bar",
		"?category=1":                  "甲Bar 丙a_b!",
		"?category=77":                 "",
		"?q=bar":                       "甲Bar",
		"?q=%25":                       "乙50%off",
		"?q=_":                         "丙a_b!",
		"?q=!":                         "丙a_b!",
		"?q=%5C":                       "",
		"?near=120.15,30.28":           "甲Bar 乙50%off",
		"?near=120.15,30.28&radius=10": "甲Bar",
		"?near=120.15,30.28&radius=50000&sort=distance&category=1": "甲Bar 丙a_b!",
		"?near=120.15,30.28&radius=50000&q=B":                      "甲Bar 丙a_b!",
		"?near=120.15,30.28&sort=sold":                             "乙50%off 甲Bar",
	} {
		if a := tw.do(t, 0, "GET", "/shops"+query, ""); a.status != 200 || a.names() != want {
			t.Errorf("%s: %d %q, want %q", query, a.status, a.names(), want)
		}
	}
	a := tw.do(t, 0, "GET", "/shops?near=120.15,30.28", "")
	second := a.body["items"].([]any)[1].(map[string]any)
	if d := second["distance"].(float64); math.Abs(d-960) > 5 || second["id"] != "2" || second["location"].(map[string]any)["lng"] != 120.16 {
		t.Error(second)
	}
	if a := tw.do(t, 0, "GET", "/categories", ""); a.names() != "KTV 美食" {
		t.Error(a.text)
	}
	if a := tw.do(t, 0, "GET", "/shops/1", ""); a.status != 200 || a.body["name"] != "甲Bar" || a.body["pictures"] == nil || a.body["ownerId"] != nil || a.body["distance"] != nil {
		t.Error(a.text)
	}
	if a := tw.do(t, 0, "GET", "/shops/4", ""); a.status != 404 || a.body["code"] != "shop.not_found" {
		t.Error(a.text)
	}
}

// What is not a query of ours is refused, and text is never read as SQL (W34).
func TestHostileQueries(t *testing.T) {
	tw := newTown(t)
	tw.add(t, &shop.Shop{ID: 1, CategoryID: 1, Name: "甲", Location: here})
	for query, status := range map[string]int{
		"?sort=id;select%20sleep(5)":           422,
		"?sort=distance":                       422,
		"?q=%25'%20or%201=1":                   200,
		"?q=" + strings.Repeat("a", 51):        422,
		"?q=%00":                               422,
		"?near=NaN,NaN":                        422,
		"?near=0x10,1":                         422,
		"?near=181,30":                         422,
		"?near=120.15":                         422,
		"?near=120.15,30.28&radius=50001":      422,
		"?near=120.15,30.28&radius=0":          422,
		"?limit=0":                             422,
		"?limit=51":                            422,
		"?cursor=x":                            422,
		"?category=1%20or%201=1":               422,
		"?sort=sold&cursor=eyJzIjoicHJpY2UifQ": 422, // of another order
		"?sort=sold&cursor=eyJzIjoic29sZCIsImsiOjFlMzAwfQ": 200,
	} {
		began := time.Now()
		if a := tw.do(t, 0, "GET", "/shops"+query, ""); a.status != status || status == 200 && strings.HasPrefix(query, "?q") && a.names() != "" {
			t.Errorf("%s: %d %s", query, a.status, a.text)
		}
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("%s took %v", query, d)
		}
	}
	for _, bad := range []string{"0", "-1", "x", "9223372036854775808"} {
		if a := tw.do(t, 0, "GET", "/shops/"+bad, ""); a.status != 422 {
			t.Errorf("%s: %d", bad, a.status)
		}
	}
}

// However many keys are equal, and whatever is inserted meanwhile, paging shows each row that was there from the
// beginning exactly once, in order.
func TestPagingNeverRepeatsOrSkips(t *testing.T) {
	tw := newTown(t)
	rapid.Check(t, func(r *rapid.T) {
		if _, err := tw.db.Write.ExecContext(t.Context(), `DELETE FROM shop`); err != nil {
			r.Fatal(err)
		}
		sort := rapid.SampledFrom([]shop.Sort{shop.ByDistance, shop.BySold, shop.ByRating, shop.ByPrice}).Draw(r, "sort")
		// Few values, so that most keys are equal; the ids leave gaps for what is inserted between.
		draw := func(i id.ID) *shop.Shop {
			k := rapid.IntRange(0, 3).Draw(r, "key")
			return &shop.Shop{ID: i, CategoryID: 1, Name: "店", Sold: int64(k), Score: 10 * k, AvgPrice: 100, Location: shop.Location{Lng: here.Lng + float64(k)/1000, Lat: here.Lat}}
		}
		var shops []*shop.Shop
		for i := range rapid.IntRange(1, 40).Draw(r, "shops") {
			shops = append(shops, draw(id.ID(2*i+2)))
		}
		insert := func(list ...*shop.Shop) {
			if err := shop.InsertShops(t.Context(), tw.db.Write, list...); err != nil {
				r.Fatal(err)
			}
			if err := tw.RefreshNearby(t.Context()); err != nil {
				r.Fatal(err)
			}
		}
		insert(shops...)
		want := map[id.ID]bool{}
		for _, s := range shops {
			want[s.ID] = true
		}
		q := shop.Query{Sort: sort, Limit: rapid.IntRange(1, 7).Draw(r, "limit"), Radius: 50_000}
		if sort == shop.ByDistance || rapid.Bool().Draw(r, "near") {
			q.Near = &here
		}
		var seen []*shop.Shop
		for odd := id.ID(1); ; odd += 2 {
			page, err := tw.List(t.Context(), q)
			if err != nil {
				r.Fatal(err)
			}
			seen = append(seen, page.Items...)
			if page.NextCursor == "" {
				break
			}
			if len(page.Items) != q.Limit {
				r.Fatalf("%d items on a page that is not the last", len(page.Items))
			}
			q.Cursor = page.NextCursor
			if odd < 20 {
				insert(draw(odd))
			}
		}
		inOrder := slices.IsSortedFunc(seen, func(a, b *shop.Shop) int { return cmp.Or(compareBy(sort, a, b), cmp.Compare(a.ID, b.ID)) })
		times := map[id.ID]int{}
		for _, s := range seen {
			times[s.ID]++
		}
		for _, n := range times {
			if n != 1 {
				r.Fatal("a row came twice", times)
			}
		}
		maps.DeleteFunc(want, func(i id.ID, _ bool) bool { return times[i] == 1 })
		if !inOrder || len(want) > 0 {
			r.Fatalf("in order: %v, left out: %v", inOrder, want)
		}
	})
}

func compareBy(sort shop.Sort, a, b *shop.Shop) int {
	switch sort {
	case shop.ByDistance:
		return cmp.Compare(shop.Metres(here, a.Location), shop.Metres(here, b.Location))
	case shop.ByRating:
		return cmp.Compare(b.Score, a.Score)
	case shop.ByPrice:
		return cmp.Compare(a.AvgPrice, b.AvgPrice)
	}
	return cmp.Compare(b.Sold, a.Sold)
}

// The index and the squares of SQL give what measuring every shop gives, on the whole globe: at poles and across the
// date line as well.
func TestNearbyEqualsMeasuringEveryShop(t *testing.T) {
	tw := newTown(t)
	coordinate := func(bound float64) *rapid.Generator[float64] {
		return rapid.OneOf(rapid.Float64Range(-bound, bound), rapid.SampledFrom([]float64{-bound, bound, bound - .01, 0, 30.28}))
	}
	anywhere := rapid.Custom(func(r *rapid.T) shop.Location {
		return shop.Location{Lng: coordinate(180).Draw(r, "lng"), Lat: coordinate(90).Draw(r, "lat")}
	})
	rapid.Check(t, func(r *rapid.T) {
		if _, err := tw.db.Write.ExecContext(t.Context(), `DELETE FROM shop`); err != nil {
			r.Fatal(err)
		}
		from, radius := anywhere.Draw(r, "from"), rapid.SampledFrom([]float64{100, 5000, 50_000, 3e6, 3e7}).Draw(r, "radius")
		// Half of the shops are close by, so that small circles have something in them.
		offset := rapid.Float64Range(-radius/50_000, radius/50_000)
		var shops []*shop.Shop
		for i := range rapid.IntRange(1, 80).Draw(r, "shops") {
			at := anywhere.Draw(r, "at")
			if i%2 == 0 {
				at = shop.Location{Lng: math.Remainder(from.Lng+offset.Draw(r, "dLng"), 360), Lat: min(90, max(-90, from.Lat+offset.Draw(r, "dLat")))}
			}
			shops = append(shops, &shop.Shop{ID: id.ID(i + 1), CategoryID: 1, Name: "店", Location: at})
		}
		if err := shop.InsertShops(t.Context(), tw.db.Write, shops...); err != nil {
			r.Fatal(err)
		}
		if err := tw.RefreshNearby(t.Context()); err != nil {
			r.Fatal(err)
		}
		inside := slices.DeleteFunc(shops, func(s *shop.Shop) bool { return shop.Metres(from, s.Location) > radius })
		for _, sort := range []shop.Sort{shop.ByDistance, shop.BySold} {
			slices.SortFunc(inside, func(a, b *shop.Shop) int {
				if sort == shop.BySold {
					return cmp.Compare(a.ID, b.ID)
				}
				return cmp.Or(cmp.Compare(shop.Metres(from, a.Location), shop.Metres(from, b.Location)), cmp.Compare(a.ID, b.ID))
			})
			q := shop.Query{Near: &from, Radius: radius, Sort: sort, Limit: 7}
			var got []id.ID
			for {
				page, err := tw.List(t.Context(), q)
				if err != nil {
					r.Fatal(err)
				}
				for _, s := range page.Items {
					got = append(got, s.ID)
				}
				if q.Cursor = page.NextCursor; q.Cursor == "" {
					break
				}
			}
			var want []id.ID
			for _, s := range inside {
				want = append(want, s.ID)
			}
			if !slices.Equal(got, want) {
				r.Fatalf("%s around %v within %v: got %v, want %v", sort, from, radius, got, want)
			}
		}
	})
}

// What this process writes is near at once, without a rebuild.
func TestNearbyFollowsChanges(t *testing.T) {
	tw := newTown(t)
	must(t, tw.RefreshNearby(t.Context()))
	s, err := tw.Create(as(t.Context(), owner), shop.NewShop{Name: "新店", CategoryID: 1, Address: "望潮路1号", Location: here})
	must(t, err)
	near := fmt.Sprintf("/shops?near=%v,%v", here.Lng, here.Lat)
	if a := tw.do(t, 0, "GET", near, ""); a.names() != "新店" {
		t.Fatal(a.text)
	}
	far := shop.Location{Lng: 121, Lat: 31}
	_, err = tw.Update(as(t.Context(), owner), s.ID, shop.ShopPatch{Location: &far})
	must(t, err)
	if a := tw.do(t, 0, "GET", near, ""); a.names() != "" {
		t.Fatal(a.text)
	}
	if a := tw.do(t, 0, "GET", "/shops?near=121,31", ""); a.names() != "新店" {
		t.Fatal(a.text)
	}
}

func BenchmarkNearbyAmong100kShops(b *testing.B) {
	search := shop.NewPlaceBench(100_000, here)
	b.ReportAllocs()
	for b.Loop() {
		if n := search(); n != 21 {
			b.Fatal(n)
		}
	}
}
