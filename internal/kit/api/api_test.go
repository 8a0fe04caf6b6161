package api_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
)

var errSold = errs.Define("test.sold_out", errs.Conflict, "库存不足", "Sold out.")

var errFull = errors.New("disk full: secret")

type thing struct {
	Name string `json:"name" minLength:"1" maxLength:"10"`
	N    int    `json:"n,omitempty" minimum:"1"`
}

func handler(t *testing.T, caller *identity.Caller) http.Handler {
	t.Helper()
	return counted(t, caller, prometheus.NewRegistry())
}

// counted is handler with its metrics.
func counted(t *testing.T, caller *identity.Caller, metrics prometheus.Registerer) http.Handler {
	t.Helper()
	a := api.New(api.Options{Version: "test", Log: slog.New(slog.DiscardHandler), Metrics: metrics,
		Limiter: limit.New(time.Now, limit.Override{}), Now: time.Now, Rand: rand.Reader,
		Resolve:  func(*http.Request) *identity.Caller { return caller },
		ClientIP: func(r *http.Request) string { return "192.0.2.1" },
		Away:     func(err error) bool { return errors.Is(err, errFull) }})
	type in struct {
		ID   id.Param `path:"id"`
		Body thing
	}
	type out struct{ Body map[string]string }
	api.Handle(a, api.Route{Method: "POST", Path: "/things/{id}", ID: "make-thing", Tag: "t", Errors: []*errs.Error{errSold}},
		func(_ context.Context, i *in) (*out, error) {
			switch i.Body.Name {
			case "sold":
				return nil, errSold.Set(api.ExtraOrderIDs, []id.ID{1}).After(1500 * time.Millisecond)
			case "boom":
				return nil, errors.New("dial tcp 10.0.0.1: secret")
			case "full":
				return nil, fmt.Errorf("insert: %w", errFull)
			case "panic":
				panic("secret")
			}
			return &out{map[string]string{"id": i.ID.String()}}, nil
		})
	api.Handle(a, api.Route{Method: "GET", Path: "/private", ID: "private", Tag: "t", Private: true, Limit: limit.Rule{User: limit.PerMinute(2)}},
		func(ctx context.Context, _ *struct{}) (*out, error) {
			u, err := identity.Require(ctx)
			return &out{map[string]string{"id": u.ID.String()}}, err
		})
	return a.Handler(http.NotFoundHandler())
}

type answer struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

func do(t *testing.T, h http.Handler, method, path, body string, header ...string) answer {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := answer{status: w.Code, header: w.Header(), text: w.Body.String()}
	_ = json.Unmarshal(w.Body.Bytes(), &a.body)
	return a
}

// Bad input gets a 4xx with a code, never a 500, and nothing of it is echoed (W31, W35, F06).
func TestBadInput(t *testing.T) {
	h := handler(t, &identity.Caller{})
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, tc := range []struct {
		name, path, body string
		header           []string
		status           int
		code             string
	}{
		{"id 0", "/api/v1/things/0", `{"name":"a"}`, nil, 422, "request.invalid"},
		{"negative id", "/api/v1/things/-1", `{"name":"a"}`, nil, 422, "request.invalid"},
		{"id 2^63", "/api/v1/things/9223372036854775808", `{"name":"a"}`, nil, 422, "request.invalid"},
		{"text id", "/api/v1/things/1%3BDROP", `{"name":"a"}`, nil, 422, "request.invalid"},
		{"unknown field", "/api/v1/things/1", `{"name":"a","status":2}`, nil, 422, "request.invalid"},
		{"array", "/api/v1/things/1", `[1]`, nil, 422, "request.invalid"},
		{"wrong type", "/api/v1/things/1", `{"name":[1]}`, nil, 422, "request.invalid"},
		{"fraction", "/api/v1/things/1", `{"name":"a","n":1.5}`, nil, 422, "request.invalid"},
		{"no body", "/api/v1/things/1", ``, nil, 400, "request.malformed"},
		{"half a body", "/api/v1/things/1", `{"name":"a`, nil, 400, "request.malformed"},
		{"broken UTF-8", "/api/v1/things/1", "{\"name\":\"a\xff\"}", nil, 400, "request.malformed"},
		{"deep", "/api/v1/things/1", `{"name":` + deep[:20_000] + `}`, nil, 400, "request.malformed"},
		{"10 MB", "/api/v1/things/1", `{"name":"` + strings.Repeat("a", 10<<20) + `"}`, nil, 413, "request.too_large"},
		{"not JSON", "/api/v1/things/1", `<a/>`, []string{"Content-Type", "text/xml"}, 415, "request.unsupported_type"},
		{"no such path", "/api/v1/nothing", ``, nil, 404, "request.no_such_path"},
		{"wrong method", "/api/v1/private", ``, nil, 405, "request.method_not_allowed"},
		{"foreign page", "/api/v1/things/1", `{"name":"a"}`, []string{"Sec-Fetch-Site", "cross-site"}, 403, "request.cross_origin"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := do(t, h, "POST", tc.path, tc.body, tc.header...)
			if a.status != tc.status || a.body["code"] != tc.code {
				t.Fatalf("%d %v, want %d %s", a.status, a.text, tc.status, tc.code)
			}
			if a.header.Get("Content-Type") != "application/problem+json" || a.body["requestId"] == "" || len(a.text) > 2000 {
				t.Fatal(a.header, a.text)
			}
		})
	}
}

func TestErrorsBecomeProblems(t *testing.T) {
	h := handler(t, &identity.Caller{})
	a := do(t, h, "POST", "/api/v1/things/7", `{"name":"sold"}`)
	if a.status != 409 || a.body["code"] != "test.sold_out" || a.body["detail"] != "库存不足" || a.body["orderIds"] == nil ||
		a.body["retryAfterMs"] != 1500.0 || a.header.Get("Retry-After") != "2" {
		t.Fatal(a.status, a.text, a.header)
	}
	if a := do(t, h, "POST", "/api/v1/things/7", `{"name":"sold"}`, "Accept-Language", "en-GB,en;q=0.8"); a.body["detail"] != "Sold out." {
		t.Fatal(a.text)
	}
	for _, name := range []string{"boom", "panic"} {
		a := do(t, h, "POST", "/api/v1/things/7", `{"name":"`+name+`"}`)
		if a.status != 500 || a.body["code"] != "internal" || strings.Contains(a.text, "secret") {
			t.Fatal(a.status, a.text)
		}
	}
	if a := do(t, h, "POST", "/api/v1/things/7", `{"name":"full"}`); a.status != 503 || a.body["code"] != "service.unknown" || strings.Contains(a.text, "secret") {
		t.Fatal(a.status, a.text)
	}
	if a := do(t, h, "POST", "/api/v1/things/9007199254740993", `{"name":"ok"}`); a.body["id"] != "9007199254740993" {
		t.Fatal(a.text)
	}
}

// Every refusal is counted by its code, also those of the framework.
func TestErrorsAreCounted(t *testing.T) {
	metrics := prometheus.NewRegistry()
	h := counted(t, &identity.Caller{}, metrics)
	do(t, h, "POST", "/api/v1/things/7", `{"name":"sold"}`)
	do(t, h, "POST", "/api/v1/things/7", `{"name":1}`)
	do(t, h, "POST", "/api/v1/things/x", `{"name":"ok"}`)
	do(t, h, "GET", "/api/v1/private", "")
	do(t, h, "GET", "/api/v1/nothing", "")
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "tandian_api_errors_total" {
				got[m.Label[0].GetValue()] = m.Counter.GetValue()
			}
		}
	}
	want := map[string]float64{"test.sold_out": 1, "request.invalid": 2, "auth.required": 1, "request.no_such_path": 1}
	if !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}

func TestPrivateRoutesAndLimits(t *testing.T) {
	if a := do(t, handler(t, &identity.Caller{}), "GET", "/api/v1/private", ""); a.status != 401 || a.body["code"] != "auth.required" {
		t.Fatal(a.status, a.text)
	}
	if a := do(t, handler(t, &identity.Caller{Unknown: true}), "GET", "/api/v1/private", ""); a.status != 503 || a.body["code"] != "auth.unknown" {
		t.Fatal(a.status, a.text)
	}
	h := handler(t, &identity.Caller{User: &identity.User{ID: 5}})
	for i, want := range []int{200, 200, 429} {
		a := do(t, h, "GET", "/api/v1/private", "")
		if a.status != want || (want == 429) != (a.header.Get("Retry-After") != "") {
			t.Fatal(i, a.status, a.header, a.text)
		}
	}
}

func TestRequestID(t *testing.T) {
	h := handler(t, &identity.Caller{})
	if got := do(t, h, "GET", "/api/v1/private", "", "X-Request-Id", "abc-123").header.Get("X-Request-Id"); got != "abc-123" {
		t.Fatal(got)
	}
	if got := do(t, h, "GET", "/api/v1/private", "", "X-Request-Id", "a b\"").header.Get("X-Request-Id"); len(got) != 16 {
		t.Fatal(got)
	}
}

func TestCursor(t *testing.T) {
	type key struct{ At, ID int64 }
	var k key
	if err := api.DecodeCursor(api.EncodeCursor(key{5, 7}), &k); err != nil || k != (key{5, 7}) {
		t.Fatal(k, err)
	}
	for _, bad := range []string{"%", "e30x", api.EncodeCursor([]int{1})} {
		if err := api.DecodeCursor(bad, &k); !errors.Is(err, api.ErrCursor) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	page := api.Cut([]int{1, 2, 3}, 2, func(n int) any { return n })
	if len(page.Items) != 2 || page.NextCursor == "" || api.Cut([]int{1, 2}, 2, func(n int) any { return n }).NextCursor != "" {
		t.Fatal(page)
	}
}

func TestCleanText(t *testing.T) {
	for s, ok := range map[string]bool{"你好😇👨‍👩‍👧‍👦𠮷": true, "": false, "a\u202eb": false, "a\x00b": false, "a\xff": false,
		"line\nbreak": true, strings.Repeat("字", 20): true, strings.Repeat("字", 21): false} {
		if err := api.CleanText("body.x", s, 1, 20); (err == nil) != ok {
			t.Errorf("%q: %v", s, err)
		}
	}
}
