package voucher_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/store"
	"tandian/internal/schema"
	"tandian/internal/voucher"
)

const (
	owner    = id.ID(11)
	stranger = id.ID(12) // the merchant of shop 2
	operator = id.ID(13)
	shopper  = id.ID(15)
	readOnly = id.ID(16)
)

var roles = map[id.ID]identity.Role{owner: identity.Merchant, stranger: identity.Merchant, operator: identity.Operator,
	shopper: identity.Shopper, readOnly: identity.ReadOnly}

func callerOf(user id.ID) *identity.Caller {
	if user == 0 {
		return &identity.Caller{}
	}
	return &identity.Caller{User: &identity.User{ID: user, Roles: []identity.Role{roles[user]}}}
}

func as(ctx context.Context, user id.ID) context.Context { return identity.With(ctx, callerOf(user)) }

var errNoShop = errs.Define("test.no_shop", errs.NotFound, "没有", "None.")

// deeds says who owns which shop.
type deeds map[id.ID]id.ID

func (d deeds) MayWrite(ctx context.Context, shopID id.ID) error {
	user, err := identity.Require(ctx)
	switch {
	case err != nil:
		return err
	case d[shopID] == 0:
		return errNoShop
	case d[shopID] != user.ID && !user.Has(identity.Operator):
		return identity.ErrForbidden
	}
	return nil
}

// noon is the moment of all tests.
var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, api.Zone)

type shelf struct {
	*voucher.Service
	db   *store.DB
	http http.Handler
}

func newShelf(t *testing.T) *shelf {
	t.Helper()
	db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "voucher.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := schema.Up(t.Context(), schema.SQLite, db.Write.DB); err != nil {
		t.Fatal(err)
	}
	s := voucher.New(voucher.Options{DB: db, Owners: deeds{1: owner, 2: stranger}, Now: func() time.Time { return noon }})
	a := api.New(api.Options{Version: "test", Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Limiter: limit.New(time.Now, limit.Override{IP: 1 << 20, User: 1 << 20}), Now: time.Now, Rand: rand.Reader,
		ClientIP: func(*http.Request) string { return "192.0.2.1" },
		Resolve: func(r *http.Request) *identity.Caller {
			n, _ := strconv.Atoi(r.Header.Get("X-Test-User"))
			return callerOf(id.ID(n))
		}})
	s.Routes(a)
	return &shelf{Service: s, db: db, http: a.Handler(http.NotFoundHandler())}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// add writes a voucher as it is and, unless begins is zero, its sale of ten.
func (sh *shelf) add(t *testing.T, v *voucher.Voucher, begins, ends time.Duration) *voucher.Voucher {
	t.Helper()
	if v.Status == 0 {
		v.Status = voucher.OnSale
	}
	v.PayValue, v.FaceValue, v.ValidDays = 5000, 10000, 30
	must(t, voucher.InsertVouchers(t.Context(), sh.db.Write, v))
	if begins != 0 {
		must(t, voucher.InsertSale(t.Context(), sh.db, sh.db.Write, &voucher.FlashSale{VoucherID: v.ID, Stock: 10,
			BeginsAt: store.Millis(noon.Add(begins)), EndsAt: store.Millis(noon.Add(ends)), LimitPerUser: 2}))
	}
	return v
}

type answer struct {
	status int
	text   string
	body   map[string]any
}

func (a answer) titles() string {
	var titles []string
	items, _ := a.body["items"].([]any)
	for _, item := range items {
		titles = append(titles, item.(map[string]any)["title"].(string))
	}
	return strings.Join(titles, " ")
}

func (sh *shelf) do(t *testing.T, user id.ID, method, path, body string) answer {
	t.Helper()
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	r.Header.Set("X-Test-User", user.String())
	w := httptest.NewRecorder()
	sh.http.ServeHTTP(w, r)
	a := answer{status: w.Code, text: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.body)
	return a
}

func (sh *shelf) audits(t *testing.T) (n int) {
	t.Helper()
	must(t, sh.db.Read.NewRaw(`SELECT COUNT(*) FROM audit_log`).Scan(t.Context(), &n))
	return n
}

// Vouchers are written by the shop's owner and operators (A6, W02).
func TestWhoMayWrite(t *testing.T) {
	for _, tc := range []struct {
		name           string
		user           id.ID
		create, update int
	}{
		{"nobody", 0, 401, 401}, {"shopper", shopper, 403, 403}, {"owner", owner, 201, 200}, {"owner of another shop", stranger, 403, 403},
		{"operator", operator, 201, 200}, {"read-only operator", readOnly, 403, 403},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sh := newShelf(t)
			v := sh.add(t, &voucher.Voucher{ShopID: 1, Title: "老券"}, 0, 0)
			if a := sh.do(t, tc.user, "POST", "/shops/1/vouchers", `{"title":"新券","payValue":1,"faceValue":100000}`); a.status != tc.create {
				t.Errorf("create: %d %s", a.status, a.text)
			}
			if a := sh.do(t, tc.user, "PATCH", "/vouchers/"+v.ID.String(), `{"title":"改名"}`); a.status != tc.update {
				t.Errorf("update: %d %s", a.status, a.text)
			}
			want := 0
			if tc.create == 201 {
				want = 2
			}
			if got := sh.audits(t); got != want {
				t.Errorf("%d audit rows, want %d", got, want)
			}
		})
	}
}

func TestListShowsThePublicWhatIsOnSale(t *testing.T) {
	sh := newShelf(t)
	sh.add(t, &voucher.Voucher{ShopID: 1, Title: "普通"}, 0, 0)
	sh.add(t, &voucher.Voucher{ShopID: 1, Title: "下架", Status: voucher.OffShelf}, 0, 0)
	sh.add(t, &voucher.Voucher{ShopID: 1, Title: "秒杀"}, -time.Hour, time.Hour)
	sh.add(t, &voucher.Voucher{ShopID: 2, Title: "别家"}, 0, 0)
	for user, want := range map[id.ID]string{0: "秒杀 普通", shopper: "秒杀 普通", stranger: "秒杀 普通", owner: "秒杀 下架 普通", operator: "秒杀 下架 普通", readOnly: "秒杀 下架 普通"} {
		if a := sh.do(t, user, "GET", "/shops/1/vouchers", ""); a.status != 200 || a.titles() != want {
			t.Errorf("user %d: %d %s", user, a.status, a.text)
		}
	}
	if a := sh.do(t, operator, "GET", "/shops/99/vouchers", ""); a.status != 200 || a.text != `{"items":[]}`+"\n" {
		t.Errorf("unknown shop: %d %q", a.status, a.text)
	}
	items := sh.do(t, 0, "GET", "/shops/1/vouchers", "").body["items"].([]any)
	sale := items[0].(map[string]any)["sale"].(map[string]any)
	if sale["phase"] != "live" || sale["stockTotal"] != 10.0 || sale["stockLeft"] != 10.0 || sale["limitPerUser"] != 2.0 || sale["beginsAt"] != "2026-05-01T11:00:00+08:00" {
		t.Error(sale)
	}
	if plain := items[1].(map[string]any); plain["sale"] != nil || plain["status"] != "onSale" || plain["payValue"] != 5000.0 || plain["shopId"] != "1" {
		t.Error(plain)
	}
}

func TestPhases(t *testing.T) {
	sh := newShelf(t)
	for _, tc := range []struct {
		want         voucher.Phase
		begins, ends time.Duration
	}{{voucher.Scheduled, time.Millisecond, time.Hour}, {voucher.Live, -time.Hour, time.Millisecond}, {voucher.Ended, -time.Hour, -time.Millisecond}} {
		v := sh.add(t, &voucher.Voucher{ShopID: 1, Title: "券"}, tc.begins, tc.ends)
		if got, err := sh.Find(t.Context(), v.ID); err != nil || got.Sale.Phase != tc.want {
			t.Errorf("%v, want %s", got, tc.want)
		}
	}
}

func TestBadVouchersAreRefused(t *testing.T) {
	sh := newShelf(t)
	v := sh.add(t, &voucher.Voucher{ShopID: 1, Title: "券"}, 0, 0)
	for name, patch := range map[string]string{
		"no title":           `{"title":" "}`,
		"long title":         `{"title":"` + strings.Repeat("长", 61) + `"}`,
		"reversed text":      `{"subTitle":"a\u202eb"}`,
		"title of two lines": `{"title":"a\nb"}`,
		"free":               `{"payValue":0}`,
		"negative":           `{"payValue":-100}`,
		"fraction":           `{"payValue":1.5}`,
		"above the limit":    `{"faceValue":10000001}`,
		"pays too much":      `{"payValue":10001}`,
		"worth too little":   `{"faceValue":4999}`,
		"no days":            `{"validDays":0}`,
		"unknown status":     `{"status":"deleted"}`,
		"status as number":   `{"status":2}`,
		"mass assignment":    `{"shopId":"2"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if a := sh.do(t, owner, "PATCH", "/vouchers/"+v.ID.String(), patch); a.status != 422 || a.body["code"] != "request.invalid" || a.body["errors"] == nil {
				t.Fatal(a.status, a.text)
			}
		})
	}
	a := sh.do(t, owner, "POST", "/shops/1/vouchers", `{"title":"券","payValue":200,"faceValue":100}`)
	if a.status != 422 || !strings.Contains(a.text, "body.payValue") {
		t.Error(a.status, a.text)
	}
	if a := sh.do(t, owner, "PATCH", "/vouchers/77", `{"title":"券"}`); a.status != 404 || a.body["code"] != "voucher.not_found" {
		t.Error(a.status, a.text)
	}
	if got, err := sh.Find(t.Context(), v.ID); err != nil || got.PayValue != 5000 || got.UpdatedAt != 0 || sh.audits(t) != 0 {
		t.Error("a refused change must leave no trace", got, err)
	}
}

func TestCreateAndPatch(t *testing.T) {
	sh := newShelf(t)
	a := sh.do(t, owner, "POST", "/shops/1/vouchers", `{"title":" 双人餐 ","rules":"周末可用\n需预约","payValue":9900,"faceValue":9900}`)
	if a.status != 201 || a.body["title"] != "双人餐" || a.body["status"] != "onSale" || a.body["validDays"] != 30.0 || a.body["rules"] != "周末可用\n需预约" {
		t.Fatal(a.status, a.text)
	}
	path := "/vouchers/" + a.body["id"].(string)
	if a := sh.do(t, owner, "PATCH", path, `{"status":"offShelf","payValue":8800}`); a.status != 200 || a.body["status"] != "offShelf" || a.body["payValue"] != 8800.0 || a.body["title"] != "双人餐" {
		t.Fatal(a.status, a.text)
	}
	if a := sh.do(t, 0, "GET", "/shops/1/vouchers", ""); a.titles() != "" {
		t.Fatal(a.text)
	}
	if a := sh.do(t, owner, "PATCH", path, `{}`); a.status != 200 || a.body["payValue"] != 8800.0 || sh.audits(t) != 2 {
		t.Fatal("an empty patch is no change", a.status, a.text)
	}
}

func TestPriceStaysWhileASaleIsOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		begins, ends time.Duration
		patch        string
		want         int
	}{
		"coming":           {time.Hour, 2 * time.Hour, `{"payValue":4000}`, 409},
		"running":          {-time.Hour, time.Hour, `{"faceValue":20000}`, 409},
		"same price":       {-time.Hour, time.Hour, `{"payValue":5000,"title":"改名"}`, 200},
		"off the shelf":    {-time.Hour, time.Hour, `{"status":"offShelf"}`, 200},
		"ended":            {-time.Hour, -time.Minute, `{"payValue":4000}`, 200},
		"never had a sale": {0, 0, `{"payValue":4000}`, 200},
	} {
		t.Run(name, func(t *testing.T) {
			sh := newShelf(t)
			v := sh.add(t, &voucher.Voucher{ShopID: 1, Title: "券"}, tc.begins, tc.ends)
			if a := sh.do(t, owner, "PATCH", "/vouchers/"+v.ID.String(), tc.patch); a.status != tc.want || tc.want == 409 && a.body["code"] != "voucher.sale_open" {
				t.Fatal(a.status, a.text)
			}
		})
	}
}

// Two patches that are each fine must not meet in a price above the face value.
func TestPatchesAtOnceKeepTheRule(t *testing.T) {
	sh := newShelf(t)
	for range 10 {
		v := sh.add(t, &voucher.Voucher{ShopID: 1, Title: "券"}, 0, 0)
		done := make(chan error, 2)
		for _, patch := range []string{`{"payValue":9000}`, `{"faceValue":6000}`} {
			go func() {
				var p voucher.VoucherPatch
				if err := json.Unmarshal([]byte(patch), &p); err != nil {
					done <- err
					return
				}
				_, err := sh.Update(as(t.Context(), owner), v.ID, p)
				done <- err
			}()
		}
		for range 2 {
			if err := <-done; err != nil && !errors.Is(err, api.ErrInvalid) {
				t.Fatal(err)
			}
		}
		if got, err := sh.Find(t.Context(), v.ID); err != nil || got.PayValue > got.FaceValue {
			t.Fatal(got, err)
		}
	}
}
