package shop_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
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
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/store"
	"tandian/internal/schema"
	"tandian/internal/shop"
)

const (
	owner    = id.ID(11)
	stranger = id.ID(12) // a merchant with another shop
	operator = id.ID(13)
	clerk    = id.ID(14)
	shopper  = id.ID(15)
	readOnly = id.ID(16)
)

var roles = map[id.ID]identity.Role{owner: identity.Merchant, stranger: identity.Merchant, operator: identity.Operator,
	clerk: identity.Clerk, shopper: identity.Shopper, readOnly: identity.ReadOnly}

func callerOf(user id.ID) *identity.Caller {
	if user == 0 {
		return &identity.Caller{}
	}
	return &identity.Caller{User: &identity.User{ID: user, Roles: []identity.Role{identity.Shopper, roles[user]}}}
}

func as(ctx context.Context, user id.ID) context.Context { return identity.With(ctx, callerOf(user)) }

// town is a fresh database with two categories, behind the service and its HTTP surface.
type town struct {
	*shop.Service
	db   *store.DB
	http http.Handler
}

func newTown(t *testing.T) *town {
	t.Helper()
	db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := schema.Up(t.Context(), schema.SQLite, db.Write.DB); err != nil {
		t.Fatal(err)
	}
	must(t, shop.InsertCategories(t.Context(), db.Write, []*shop.Category{{ID: 1, Name: "美食", Icon: "/pictures/category-1.svg", Sort: 2}, {ID: 2, Name: "KTV", Icon: "/pictures/category-2.svg", Sort: 1}}))
	log := slog.New(slog.DiscardHandler)
	s := shop.New(shop.Options{DB: db, Now: time.Now, Log: log})
	a := api.New(api.Options{Version: "test", Log: log, Metrics: prometheus.NewRegistry(), Limiter: limit.New(time.Now, limit.Override{IP: 1 << 20, User: 1 << 20}),
		Now: time.Now, Rand: rand.Reader, ClientIP: func(*http.Request) string { return "192.0.2.1" },
		Resolve: func(r *http.Request) *identity.Caller {
			n, _ := strconv.Atoi(r.Header.Get("X-Test-User"))
			return callerOf(id.ID(n))
		}})
	s.Routes(a)
	return &town{Service: s, db: db, http: a.Handler(http.NotFoundHandler())}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// add writes shops as they are, past all checks, and lets the index see them.
func (tw *town) add(t *testing.T, shops ...*shop.Shop) {
	t.Helper()
	must(t, shop.InsertShops(t.Context(), tw.db.Write, shops...))
	must(t, tw.RefreshNearby(t.Context()))
}

type answer struct {
	status int
	text   string
	body   map[string]any
}

func (a answer) names() string {
	var names []string
	items, _ := a.body["items"].([]any)
	for _, item := range items {
		names = append(names, item.(map[string]any)["name"].(string))
	}
	return strings.Join(names, " ")
}

func (tw *town) do(t *testing.T, user id.ID, method, path, body string) answer {
	t.Helper()
	r := httptest.NewRequest(method, "/api/v1"+path, strings.NewReader(body))
	r.Header.Set("X-Test-User", user.String())
	w := httptest.NewRecorder()
	tw.http.ServeHTTP(w, r)
	a := answer{status: w.Code, text: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.body)
	return a
}

// row reads the columns that only the system writes.
func (tw *town) row(t *testing.T, shopID id.ID) *shop.Shop {
	t.Helper()
	s, err := shop.FindShop(t.Context(), tw.db.Read, shopID)
	must(t, err)
	return s
}

func (tw *town) audits(t *testing.T) (n int) {
	t.Helper()
	must(t, tw.db.Read.NewRaw(`SELECT COUNT(*) FROM audit_log`).Scan(t.Context(), &n))
	return n
}
