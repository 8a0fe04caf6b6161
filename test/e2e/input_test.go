package e2e

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// operation is one route as the OpenAPI document has it.
type operation struct {
	method, path string
	body         bool // JSON
	query        []string
}

func (s *server) operations(t *testing.T) (ops []operation) {
	t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]any `json:"content"`
			} `json:"requestBody"`
			Parameters []struct{ In, Name string }
		}
	}
	if err := json.Unmarshal([]byte(s.must(t, 200, "GET", "/api/openapi.json", "", "").Text), &doc); err != nil {
		t.Fatal(err)
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			o := operation{method: strings.ToUpper(method), path: path, body: op.RequestBody.Content["application/json"] != nil}
			for _, p := range op.Parameters {
				if p.In == "query" {
					o.query = append(o.query, p.Name)
				}
			}
			ops = append(ops, o)
		}
	}
	sort.Slice(ops, func(i, j int) bool { return ops[i].path+ops[i].method < ops[j].path+ops[j].method })
	if len(ops) < 20 {
		t.Fatalf("only %d operations", len(ops))
	}
	return ops
}

// validBodies are what each route would take, to which one unknown field is added.
var validBodies = map[string]string{
	"POST /api/v1/auth/codes":               `{"phone":"13900000001"}`,
	"POST /api/v1/auth/sessions":            `{"phone":"13900000001","code":"123456"}`,
	"PATCH /api/v1/me":                      `{"nickname":"new"}`,
	"PUT /api/v1/me/password":               `{"password":"a good long one","currentPassword":"tandian-demo"}`,
	"POST /api/v1/console/test-users":       `{"count":1}`,
	"POST /api/v1/console/users/{id}/roles": `{"roles":["merchant"]}`,
	"POST /api/v1/shops":                    `{"name":"店","categoryId":"1","location":{"lng":120,"lat":30}}`,
	"PATCH /api/v1/shops/{id}":              `{"name":"新名字"}`,
	"POST /api/v1/shops/{id}/vouchers":      `{"title":"券","payValue":1,"faceValue":2}`,
	"PATCH /api/v1/vouchers/{id}":           `{"title":"券"}`,
	"POST /api/v1/vouchers/{id}/sale":       `{"stock":1,"beginsAt":"2026-01-01T00:00:00Z","endsAt":"2026-01-02T00:00:00Z"}`,
	"PATCH /api/v1/sales/{id}":              `{"limitPerUser":1}`,
	"POST /api/v1/sales/{id}/stock":         `{"delta":1,"reason":"r"}`,
	"POST /api/v1/sales/{id}/orders":        `{}`,
	"POST /api/v1/orders/{id}/payments":     `{"provider":"sandbox"}`,
	"POST /api/v1/redemptions":              `{"code":"123456789012"}`,
	"POST /api/v1/orders/{id}/refund":       `{"reason":"r"}`,

	"POST /api/v1/console/dead-letters/replay":      `{"dryRun":true}`,
	"POST /api/v1/console/dead-letters/{id}/ignore": `{"note":"n"}`,
	"POST /api/v1/console/reconciliations":          `{"saleId":"1"}`,
}

// Every route, fed with bad ids, bodies and queries by an operator, whom nothing but validation stops: a 4xx with a
// code, never a 500, never an echo of internals (F06, W03, W21, W31, W34, W35).
func TestBadInputOnEveryRoute(t *testing.T) {
	s := start(t, binary(t, ""), t.TempDir(), "--demo")
	operator := s.signIn(t, operatorPhone)
	ids := []string{"0", "-1", "9223372036854775808", "99999999999999999999999", "abc", "1;DROP TABLE orders", "1,2", "[1]", "1.5", "０", "%00", strings.Repeat("9", 300)}
	bodies := map[string]string{
		"an unknown field":   `{"status":2,"userId":"2","stock":9,"sold":99999,"ownerId":"1"}`,
		"an array":           `[1,2]`,
		"a number":           `1`,
		"null":               `null`,
		"half a document":    `{"a":`,
		"broken UTF-8":       "{\"title\":\"\xff\xfe\",\"phone\":\"\xff\"}",
		"deep nesting":       strings.Repeat(`{"a":`, 11000) + "1" + strings.Repeat("}", 11000),
		"over the limit":     `{"title":"` + strings.Repeat("x", 100<<10) + `"}`,
		"wrong types":        `{"title":[],"phone":{},"stock":"many","count":"1","delta":1.5,"beginsAt":5}`,
		"huge numbers":       `{"stock":9223372036854775808,"count":1e400,"delta":-9e18,"payValue":-1,"faceValue":0,"limitPerUser":64}`,
		"a foreign language": `<a/>`,
	}
	refused := func(t *testing.T, what string, a answer) {
		t.Helper()
		if requestID, _ := a.Body["requestId"].(string); a.Status < 400 || a.Status >= 500 || a.Body["code"] == nil || requestID == "" {
			t.Errorf("%s: %d %.300s", what, a.Status, a.Text)
		}
		for _, leak := range []string{"goroutine", "sqlite", "SQL logic", ".go:", "panic"} {
			if strings.Contains(a.Text, leak) {
				t.Errorf("%s shows internals: %.300s", what, a.Text)
			}
		}
	}
	for _, op := range s.operations(t) {
		t.Run(op.method+" "+op.path, func(t *testing.T) {
			if strings.Contains(op.path, "{") {
				for _, bad := range ids {
					prefix, rest, _ := strings.Cut(op.path, "{")
					_, suffix, _ := strings.Cut(rest, "}")
					refused(t, "id "+bad, s.do(t, op.method, prefix+url.PathEscape(bad)+suffix, operator, ""))
				}
			}
			path := strings.ReplaceAll(op.path, "{id}", "1")
			if op.body {
				for name, body := range bodies {
					a := s.do(t, op.method, path, operator, body)
					refused(t, name, a)
					if name == "over the limit" && a.Status != 413 {
						t.Errorf("%s: %d", name, a.Status)
					}
				}
				valid, ok := validBodies[op.method+" "+op.path]
				if !ok {
					t.Errorf("this test has no valid body of %s %s to add an unknown field to", op.method, op.path)
				}
				for _, field := range []string{`"status":2`, `"userId":"2"`, `"stock_released":9`, `"sold":99999`, `"ownerId":"1"`, `"id":"1"`} {
					mixed := strings.Replace(valid, "{", "{"+field+",", 1)
					mixed = strings.Replace(mixed, ",}", "}", 1)
					a := s.do(t, op.method, path, operator, mixed)
					refused(t, "unknown field "+field, a)
					if name, _, _ := strings.Cut(field[1:], `"`); !strings.Contains(a.Text, name) {
						t.Errorf("the answer doesn't name the unknown field %s: %s", name, a.Text)
					}
				}
				refused(t, "text", s.do(t, op.method, path, operator, "a=1", "Content-Type", "text/plain"))
			}
			for _, q := range op.query {
				for _, bad := range []string{"-1", "1e9", "%' OR 1=1 --", "id;SELECT sleep(5)", "%ff%fe", strings.Repeat("x", 5000), "null", "[]"} {
					if op.method != "GET" || strings.HasSuffix(op.path, "/events") {
						continue
					}
					a := s.do(t, op.method, path+"?"+q+"="+url.QueryEscape(bad), operator, "")
					if a.Status >= 500 {
						t.Errorf("%s=%q: %d %.300s", q, bad, a.Status, a.Text)
					}
				}
			}
		})
	}
	for _, window := range []string{`"beginsAt":"2026-11-30T12:00:00Z","endsAt":"9999-12-31T20:00:00Z"`, `"beginsAt":"0000-01-01T00:00:00+14:00","endsAt":"2026-12-01T00:00:00Z"`,
		`"beginsAt":"2026-12-01T00:00:00Z","endsAt":"2026-12-01T00:00:00Z"`, `"beginsAt":"yesterday","endsAt":"2026-12-01T00:00:00Z"`} {
		refused(t, "window "+window, s.do(t, "POST", "/api/v1/vouchers/1/sale", operator, `{"stock":1,`+window+`}`))
		refused(t, "window "+window, s.do(t, "PATCH", "/api/v1/sales/1", operator, `{`+window+`}`))
	}
	for _, body := range []string{`{"delta":0,"reason":"none"}`, `{"delta":1,"reason":""}`, `{"delta":1,"reason":"\u202e"}`, `{"delta":-10000000,"reason":"all"}`} {
		refused(t, "stock "+body, s.do(t, "POST", "/api/v1/sales/1/stock", operator, body))
	}
	for _, limit := range []string{"0", "-1", "51", "1000000", "x"} {
		refused(t, "limit "+limit, s.do(t, "GET", "/api/v1/shops?limit="+limit, "", ""))
	}
	for _, header := range []string{"short", strings.Repeat("k", 65), "has spaces in it", "quote'--------"} {
		refused(t, "Idempotency-Key "+header, s.do(t, "POST", "/api/v1/sales/1/orders", operator, "", "Idempotency-Key", header))
	}
	// What was refused changed nothing.
	if a := s.do(t, "GET", "/api/v1/shops/1", "", ""); a.Body["sold"] == 99999.0 {
		t.Error("W03: mass assignment got through", a.Text)
	}
	if strings.Contains(s.log.String(), `"level":"ERROR"`) {
		t.Errorf("bad input is no error of the server:\n%s", s.log)
	}
}

// W32: what is for operators' machines is not on the public listener.
func TestNothingPrivateOnThePublicListener(t *testing.T) {
	s := start(t, binary(t, ""), t.TempDir())
	for _, path := range []string{"/debug/pprof/", "/debug/vars", "/metrics", "/druid/", "/swagger-ui.html", "/actuator", "/actuator/env", "/.git/config", "/.env"} {
		if a := s.do(t, "GET", path, "", ""); a.Status != 404 {
			t.Errorf("%s: %d %.100s", path, a.Status, a.Text)
		}
	}
	for _, path := range []string{"/api/v1/dev/codes?phone=13800000001", "/api/v1/console/test-users"} {
		method := "GET"
		if strings.Contains(path, "test-users") {
			method = "POST"
		}
		if a := s.do(t, method, path, "", `{"count":1}`); a.Status != 404 {
			t.Errorf("%s answers without demo data: %d %s", path, a.Status, a.Text)
		}
	}
	admin := &server{URL: s.AdminURL, log: s.log}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/healthz", "/readyz"} {
		admin.must(t, 200, "GET", path, "", "")
	}
	if text := admin.must(t, 200, "GET", "/metrics", "", "").Text; !strings.Contains(text, "tandian_queue_messages") || !strings.Contains(text, "tandian_http_request_duration_seconds") {
		t.Error("the pipeline's metrics are missing")
	}
}

// W33: nothing that changes state can be done from another site's page.
func TestCrossOrigin(t *testing.T) {
	s := start(t, binary(t, ""), t.TempDir(), "--demo")
	token := s.signIn(t, shopperPhone)
	a := s.do(t, "POST", "/api/v1/sales/1/orders", "", "", "Cookie", "tandian_session="+token, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
	if a.Status != 403 || a.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Fatal(a.Status, a.Text, a.Header)
	}
	if a := s.do(t, "GET", "/api/v1/me", "", "", "Cookie", "tandian_session="+token); a.Status != 200 {
		t.Fatal("the cookie itself works", a.Status, a.Text)
	}
}

// A second server on the same folder is refused in one line, and so is a taken port.
func TestRefusalsAtStart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, binary(t, ""), dir)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"folder in use": {[]string{"serve", "--data-dir", dir, "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"}, "in use by another tandian"},
		"port in use":   {[]string{"serve", "--data-dir", t.TempDir(), "--addr", strings.TrimPrefix(s.URL, "http://"), "--admin-addr", "127.0.0.1:0"}, "--a"},
		"bad setting":   {[]string{"serve", "--pay-window", "-1m"}, "pay-window"},
		"no database":   {[]string{"reconcile", "--data-dir", filepath.Join(dir, "mistyped")}, "holds no database"},
	} {
		out, code := output(t, tc.args...)
		if code == 0 || !strings.Contains(out, tc.want) || strings.Count(strings.TrimSpace(out), "\n") > 2 {
			t.Errorf("%s: exit %d\n%s", name, code, out)
		}
	}
}

// What a sale sees of a stopped server, and of the next on the same files: B9 for one instance.
func TestStopUnderLoadLosesNothing(t *testing.T) {
	const users, stock = 300, 200
	dir := t.TempDir()
	s := start(t, binary(t, ""), dir, "--demo")
	c := gather(t, s, s.newSale(t, s.signIn(t, operatorPhone), stock, 1), users)
	waitForJournal(t, dir, users+1)
	var running atomic.Pointer[server]
	running.Store(s)
	r := c.rush(running.Load)
	r.pass(users / 3)
	began := time.Now()
	if err := s.stop(t); err != nil {
		t.Fatalf("ended with %v\n%s", err, s.log)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("drained in %v", took)
	}
	s = start(t, binary(t, ""), dir, "--demo")
	running.Store(s)
	r.wait()
	c.mustHold(openSQLite(t, dir), afterAnInstance, s)
	if n := len(c.Told()); n != stock {
		t.Errorf("%d orders of %d units", n, stock)
	}
}
