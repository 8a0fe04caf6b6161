package shop_test

import (
	"errors"
	"strings"
	"testing"

	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/shop"
)

// A shop is opened by merchants and operators, and changed by its owner and operators (A6, W01).
func TestWhoMayWrite(t *testing.T) {
	const draft = `{"name":"新店","categoryId":"1","address":"青梧市望潮路1号","location":{"lng":120.1,"lat":30.2}}`
	for _, tc := range []struct {
		name            string
		user            id.ID
		create, update  int
		unknownShopCode int
	}{
		{"nobody", 0, 401, 401, 401},
		{"shopper", shopper, 403, 403, 404},
		{"clerk of the shop", clerk, 403, 403, 404},
		{"owner", owner, 201, 200, 404},
		{"owner of another shop", stranger, 201, 403, 404},
		{"operator", operator, 201, 200, 404},
		{"read-only operator", readOnly, 403, 403, 404},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tw := newTown(t)
			tw.add(t, &shop.Shop{ID: 1, CategoryID: 1, OwnerID: owner, Name: "老店"}, &shop.Shop{ID: 2, CategoryID: 1, OwnerID: stranger, Name: "别家"})
			must(t, shop.InsertStaff(t.Context(), tw.db.Write, 1, clerk, 1))
			if a := tw.do(t, tc.user, "POST", "/shops", draft); a.status != tc.create {
				t.Errorf("create: %d %s", a.status, a.text)
			}
			if a := tw.do(t, tc.user, "PATCH", "/shops/1", `{"name":"改名"}`); a.status != tc.update {
				t.Errorf("update: %d %s", a.status, a.text)
			}
			if a := tw.do(t, tc.user, "PATCH", "/shops/99", `{"name":"改名"}`); a.status != tc.unknownShopCode {
				t.Errorf("unknown shop: %d %s", a.status, a.text)
			}
			if got := tw.row(t, 1).Name == "改名"; got != (tc.update == 200) {
				t.Errorf("shop renamed: %v", got)
			}
			want := 0
			for _, status := range []int{tc.create, tc.update} {
				if status < 300 {
					want++
				}
			}
			if got := tw.audits(t); got != want {
				t.Errorf("%d audit rows, want one for each change: %d", got, want)
			}
		})
	}
}

func TestMayWriteNamesTheReason(t *testing.T) {
	tw := newTown(t)
	tw.add(t, &shop.Shop{ID: 1, CategoryID: 1, OwnerID: owner, Name: "老店"})
	unknown := identity.With(t.Context(), &identity.Caller{Unknown: true})
	for _, tc := range []struct {
		got, want error
	}{
		{tw.MayWrite(as(t.Context(), owner), 1), nil},
		{tw.MayWrite(as(t.Context(), operator), 1), nil},
		{tw.MayWrite(t.Context(), 1), identity.ErrRequired},
		{tw.MayWrite(unknown, 1), identity.ErrUnknown},
		{tw.MayWrite(as(t.Context(), shopper), 1), identity.ErrForbidden},
		{tw.MayWrite(as(t.Context(), owner), 2), shop.ErrNotFound},
	} {
		if !errors.Is(tc.got, tc.want) {
			t.Errorf("%v, want %v", tc.got, tc.want)
		}
	}
}

func TestMerchantOwnsWhatHeOpensAndOperatorDoesNot(t *testing.T) {
	tw := newTown(t)
	draft := shop.NewShop{Name: " 新店 ", CategoryID: 1, Address: "望潮路1号", Location: shop.Location{Lng: 120, Lat: 30}}
	s, err := tw.Create(as(t.Context(), owner), draft)
	must(t, err)
	if got := tw.row(t, s.ID); got.OwnerID != owner || got.Name != "新店" || got.Score != 0 || len(got.Pictures) != 0 {
		t.Errorf("%+v", got)
	}
	s, err = tw.Create(as(t.Context(), operator), draft)
	must(t, err)
	if got := tw.row(t, s.ID); got.OwnerID != 0 {
		t.Errorf("%+v", got)
	}
	if ids, err := tw.ShopsOf(t.Context(), owner); err != nil || len(ids) != 1 {
		t.Error(ids, err)
	}
}

// Results and ownership are no input, whatever the body says (W03).
func TestMassAssignmentIsRefused(t *testing.T) {
	tw := newTown(t)
	tw.add(t, &shop.Shop{ID: 1, CategoryID: 1, OwnerID: owner, Name: "老店", Score: 41, Sold: 7, Comments: 3})
	for _, field := range []string{`"score":50`, `"sold":99999`, `"comments":1`, `"ownerId":"12"`, `"id":"1"`, `"createdAt":1`, `"distance":1`} {
		if a := tw.do(t, owner, "PATCH", "/shops/1", `{"name":"n",`+field+`}`); a.status != 422 || a.body["code"] != "request.invalid" {
			t.Errorf("%s: %d %s", field, a.status, a.text)
		}
	}
	if got := tw.row(t, 1); got.Score != 41 || got.Sold != 7 || got.Comments != 3 || got.OwnerID != owner || got.Name != "老店" {
		t.Errorf("%+v", got)
	}
}

func TestBadShopsAreRefused(t *testing.T) {
	tw := newTown(t)
	tw.add(t, &shop.Shop{ID: 1, CategoryID: 1, OwnerID: owner, Name: "老店"})
	for name, body := range map[string]string{
		"no name":           `{"name":"  "}`,
		"long name":         `{"name":"` + strings.Repeat("长", 61) + `"}`,
		"64 KB name":        `{"name":"` + strings.Repeat("a", 60<<10) + `"}`,
		"two lines":         `{"name":"a\nb"}`,
		"reversed text":     `{"name":"a\u202eb"}`,
		"NUL":               `{"address":"a\u0000b"}`,
		"no such category":  `{"categoryId":"9"}`,
		"outer space":       `{"location":{"lng":181,"lat":0}}`,
		"half a location":   `{"location":{"lng":1}}`,
		"price":             `{"avgPrice":10000001}`,
		"negative price":    `{"avgPrice":-1}`,
		"script picture":    `{"pictures":["javascript:alert(1)"]}`,
		"foreign picture":   `{"pictures":["http://169.254.169.254/"]}`,
		"schemeless":        `{"pictures":["//evil.example/x.svg"]}`,
		"way up":            `{"pictures":["/pictures/../secret"]}`,
		"too many pictures": `{"pictures":["/a","/a","/a","/a","/a","/a","/a","/a","/a","/a"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if a := tw.do(t, owner, "PATCH", "/shops/1", body); a.status != 422 || a.body["code"] != "request.invalid" {
				t.Fatal(a.status, a.text)
			}
		})
	}
	if tw.audits(t) != 0 || tw.row(t, 1).UpdatedAt != 0 {
		t.Fatal("a refused change must leave no trace")
	}
}

func TestPatchChangesOnlyWhatItNames(t *testing.T) {
	tw := newTown(t)
	tw.add(t, &shop.Shop{ID: 1, CategoryID: 1, OwnerID: owner, Name: "老店", Area: "老城根", Pictures: []string{"/pictures/a.svg"}, AvgPrice: 5000})
	a := tw.do(t, owner, "PATCH", "/shops/1", `{"avgPrice":6600,"location":{"lng":120.2,"lat":30.3},"categoryId":"2"}`)
	if a.status != 200 || a.body["avgPrice"] != 6600.0 || a.body["categoryId"] != "2" {
		t.Fatal(a.status, a.text)
	}
	got := tw.row(t, 1)
	if got.Name != "老店" || got.Area != "老城根" || got.Pictures[0] != "/pictures/a.svg" || got.AvgPrice != 6600 || got.CategoryID != 2 ||
		got.Location != (shop.Location{Lng: 120.2, Lat: 30.3}) || got.OwnerID != owner {
		t.Fatalf("%+v", got)
	}
}

func TestEmptyPatchIsNoChange(t *testing.T) {
	tw := newTown(t)
	tw.add(t, &shop.Shop{ID: 1, CategoryID: 1, OwnerID: owner, Name: "老店"})
	for _, body := range []string{`{}`, `{"name":null}`} {
		if a := tw.do(t, owner, "PATCH", "/shops/1", body); a.status != 200 || a.body["name"] != "老店" || tw.audits(t) != 0 {
			t.Fatal(a.status, a.text)
		}
	}
}

func TestCards(t *testing.T) {
	tw := newTown(t)
	tw.add(t, &shop.Shop{ID: 1, CategoryID: 1, Name: "甲", Area: "老城根", Pictures: []string{"/pictures/a.svg", "/pictures/b.svg"}}, &shop.Shop{ID: 2, CategoryID: 1, Name: "乙"})
	cards, err := tw.Cards(t.Context(), []id.ID{1, 2, 3})
	if err != nil || len(cards) != 2 || cards[1].Picture != "/pictures/a.svg" || cards[2].Picture != "" || cards[1].Area != "老城根" {
		t.Fatal(cards, err)
	}
	if cards, err := tw.Cards(t.Context(), nil); err != nil || len(cards) != 0 {
		t.Fatal(cards, err)
	}
}
