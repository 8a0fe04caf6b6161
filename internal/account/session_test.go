package account_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tandian/internal/account"
	"tandian/internal/kit/identity"
)

// resolve asks Resolve alone, without HTTP around it.
func (w *town) resolve(token string) *identity.Caller {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", token)
	return w.Resolve(r)
}

// A2, A3: the token is taken from the header, raw or as Bearer, else from the cookie.
func TestWaysToSendTheToken(t *testing.T) {
	w := newTown(t)
	a := w.tryCode(alice, w.code(alice)).want(t, 201, "")
	token := a.body["token"].(string)
	for _, header := range [][]string{{"Authorization", token}, {"Authorization", "Bearer " + token}, {"Authorization", "bearer " + token},
		{"Cookie", "tandian_session=" + token}, {"Cookie", "a=b; tandian_session=" + token + "; c=d"}} {
		w.do("GET", "/me", "", header...).want(t, 200, "")
	}
	w.do("GET", "/me", "").want(t, 401, "auth.required")
	w.do("GET", "/me", "", "Authorization", strings.Repeat("a", 32), "Cookie", "tandian_session="+token).want(t, 401, "auth.required")

	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	ok(t, err)
	if cookie.Name != "tandian_session" || cookie.Value != token || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" ||
		cookie.MaxAge != 30*24*3600 || cookie.Secure {
		t.Errorf("%+v", cookie)
	}
	w = newTown(t, func(o *account.Options) { o.SecureCookie = true })
	a = w.tryCode(alice, w.code(alice)).want(t, 201, "")
	if cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie")); err != nil || !cookie.Secure {
		t.Error(cookie, err)
	}
}

// W40: what can't be a token is anonymous and never meets the store.
func TestMalformedTokens(t *testing.T) {
	w := newTown(t)
	token, _ := w.signIn(alice)
	before := w.kv.calls.Load()
	for _, bad := range []string{"", " ", "Bearer", "Bearer ", "Basic " + token, "a:b\r\n", "login:token:*", token[:31], token + "0", strings.ToUpper(token) + "g",
		"A" + strings.Repeat("a", 31), token[:31] + "\n", token[:31] + "*", strings.Repeat("a", 1<<20), "Bearer  " + token, "Bearer Bearer " + token, "令牌" + token[:26]} {
		if c := w.resolve(bad); c.User != nil || c.Unknown || c.Session != "" {
			t.Errorf("%.40q: %+v", bad, c)
		}
		w.do("GET", "/me", "", "Authorization", bad).want(t, 401, "auth.required")
	}
	if n := w.kv.calls.Load() - before; n != 0 {
		t.Errorf("%d calls to the store", n)
	}
	if c := w.resolve(strings.Repeat("0", 32)); c.User != nil || c.Unknown {
		t.Errorf("well formed but unknown: %+v", c)
	}
}

// A5: a hot session costs no call; renewal is written at most once per sixth of the TTL.
func TestHotPathAndRenewal(t *testing.T) {
	w := newTown(t)
	token, _ := w.signIn(alice)
	w.me(token).want(t, 200, "")
	before := w.kv.calls.Load()
	for range 100 {
		w.me(token).want(t, 200, "")
		w.clock.advance(500 * time.Millisecond)
	}
	if n := w.kv.calls.Load() - before; n != 0 {
		t.Fatalf("%d calls in 50 s", n)
	}
	const span = 2 * time.Hour
	for range int(span / (10 * time.Second)) {
		w.me(token).want(t, 200, "")
		w.clock.advance(10 * time.Second)
	}
	if n := w.kv.touches.Load(); n < 20 || n > int64(span/(5*time.Minute)) {
		t.Fatalf("%d renewals in %v of use, want at most one per 5 minutes", n, span)
	}
	before = w.kv.touches.Load()
	w.clock.advance(10 * time.Minute)
	at(32, func(int) { w.resolve(token) })
	if n := w.kv.touches.Load() - before; n != 1 {
		t.Fatalf("%d renewals by requests at the same moment", n)
	}
}

// A2: a session slides for 30 minutes.
func TestSlidingExpiry(t *testing.T) {
	w := newTown(t)
	token, _ := w.signIn(alice)
	for range 10 {
		w.clock.advance(30*time.Minute - time.Millisecond)
		w.me(token).want(t, 200, "")
	}
	w.clock.advance(30 * time.Minute)
	w.me(token).want(t, 401, "auth.required")
}

// A2, W13: no use keeps a session alive beyond 30 days.
func TestAbsoluteLimit(t *testing.T) {
	w := newTown(t)
	token, _ := w.signIn(alice)
	began := w.clock.Now()
	const month = 30 * 24 * time.Hour
	last := time.Duration(0)
	for {
		w.clock.advance(19 * time.Minute)
		if w.resolve(token).User == nil {
			break
		}
		last = w.clock.Now().Sub(began)
		if last >= month {
			t.Fatalf("alive after %v", last)
		}
	}
	if last < month-25*time.Minute {
		t.Fatalf("only %v", last)
	}
	w.me(token).want(t, 401, "auth.required")
}

// A2: sessions that were opened under a longer limit end by the one in force.
func TestAbsoluteLimitShortened(t *testing.T) {
	w := newTown(t)
	token, _ := w.signIn(alice)
	strict := newTown(t, func(o *account.Options) {
		o.DB, o.KV, o.Now, o.SessionMax = w.db, w.kv, w.clock.Now, 20*time.Minute
	})
	w.clock.advance(20*time.Minute - time.Millisecond)
	if strict.resolve(token).User == nil {
		t.Fatal("too early")
	}
	w.clock.advance(time.Millisecond)
	if strict.resolve(token).User != nil || w.resolve(token).User == nil {
		t.Fatal("alive after 20 minutes")
	}
}

// A4, W14: after logout the token is dead at once, other sessions live, the cookie goes.
func TestSignOut(t *testing.T) {
	w := newTown(t)
	token, _ := w.signIn(alice)
	w.clock.advance(time.Minute)
	other, _ := w.signIn(alice)
	w.me(token).want(t, 200, "")
	a := w.do("DELETE", "/auth/sessions/current", "", "Authorization", token).want(t, 204, "")
	if cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie")); err != nil || cookie.Name != "tandian_session" || cookie.Value != "" || cookie.MaxAge >= 0 {
		t.Error(cookie, err)
	}
	w.me(token).want(t, 401, "auth.required")
	w.do("GET", "/me", "", "Cookie", "tandian_session="+token).want(t, 401, "auth.required")
	w.me(other).want(t, 200, "")
	w.do("DELETE", "/auth/sessions/current", "", "Authorization", token).want(t, 204, "")
	w.do("DELETE", "/auth/sessions/current", "", "Cookie", "tandian_session="+other).want(t, 204, "")
	w.me(other).want(t, 401, "auth.required")
}

// A4: a session that was being read while it was ended is not remembered.
func TestSignOutWhileResolving(t *testing.T) {
	w := newTown(t)
	token, user := w.signIn(alice)
	w.kv.afterGet = func(string) {
		w.kv.afterGet = nil
		if n, err := w.Kick(t.Context(), user); n != 1 || err != nil {
			t.Error(n, err)
		}
	}
	w.resolve(token) // its answer from the store is older than the kick
	if w.kv.afterGet != nil {
		t.Fatal("the store was not asked")
	}
	if c := w.resolve(token); c.User != nil {
		t.Fatal("the kicked session is back")
	}
}

// A4: the same under fire; run with -race.
func TestSignOutUnderFire(t *testing.T) {
	w := newTown(t)
	user, err := w.Ensure(t.Context(), account.Profile{Phone: alice})
	ok(t, err)
	for range 50 {
		token, _, err := w.Issue(t.Context(), user, "", "")
		ok(t, err)
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						w.resolve(token)
					}
				}
			})
		}
		for w.resolve(token).User == nil {
			t.Fatal("not signed in")
		}
		if n, err := w.Kick(t.Context(), user); n != 1 || err != nil {
			t.Error(n, err)
		}
		if w.resolve(token).User != nil {
			t.Error("alive after the kick")
		}
		w.clock.advance(10 * time.Minute) // renewals must not bring it back
		if w.resolve(token).User != nil {
			t.Error("alive again")
		}
		close(stop)
		wg.Wait()
	}
}

// A4: kick, ban and changes bite with the next request.
func TestChangesBiteAtOnce(t *testing.T) {
	w := newTown(t)
	ctx := t.Context()
	first, user := w.signIn(alice)
	w.clock.advance(time.Minute)
	second, _ := w.signIn(alice)
	w.me(first).want(t, 200, "")
	w.me(second).want(t, 200, "")

	w.do("PATCH", "/me", `{"nickname":"新名字","avatar":"/pictures/a-1.svg"}`, "Authorization", first).want(t, 200, "")
	if u := w.resolve(second).User; u.Nickname != "新名字" || u.Avatar != "/pictures/a-1.svg" {
		t.Errorf("%+v", u)
	}
	ok(t, w.SetRoles(ctx, user, identity.Operator, identity.Operator))
	if u := w.resolve(second).User; !u.Has(identity.Operator) || len(u.Roles) != 2 || u.Roles[0] != identity.Shopper {
		t.Errorf("%+v", u)
	}
	ok(t, w.SetRoles(ctx, user))
	if u := w.resolve(second).User; u.Has(identity.Operator) {
		t.Errorf("%+v", u)
	}
	if err := w.SetRoles(ctx, user, "emperor"); err == nil {
		t.Error("no such role")
	}

	if n, err := w.Kick(ctx, user); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	w.me(first).want(t, 401, "auth.required")
	w.me(second).want(t, 401, "auth.required")

	w.clock.advance(time.Minute)
	third, _ := w.signIn(alice)
	ok(t, w.Ban(ctx, user))
	w.me(third).want(t, 401, "auth.required")
	w.clock.advance(time.Minute)
	w.tryCode(alice, w.code(alice)).want(t, 403, "auth.banned")
	ok(t, w.Unban(ctx, user))
	w.me(third).want(t, 401, "auth.required")
	w.clock.advance(time.Minute)
	w.signIn(alice)

	for _, err := range []error{w.Ban(ctx, 999), w.Unban(ctx, 999), w.SetRoles(ctx, 999)} {
		if err == nil || !strings.Contains(err.Error(), "user.not_found") {
			t.Error(err)
		}
	}
}

// A3, F68: when the store can't be asked, private pages say 503, public ones go on, and nobody is signed out.
func TestStoreOutage(t *testing.T) {
	w := newTown(t)
	token, user := w.signIn(alice)
	w.me(token).want(t, 200, "")
	w.kv.down.Store(true)
	w.me(token).want(t, 200, "") // remembered
	w.clock.advance(time.Minute)
	if c := w.resolve(token); !c.Unknown || c.User != nil {
		t.Fatalf("%+v", c)
	}
	w.me(token).want(t, 503, "auth.unknown")
	w.do("GET", "/users/"+user.String(), "", "Authorization", token).want(t, 200, "")
	w.do("GET", "/me", "").want(t, 401, "auth.required") // nothing to ask
	w.do("POST", "/auth/codes", `{"phone":"`+bob+`"}`).want(t, 503, "auth.unknown")
	w.tryCode(alice, "123456").want(t, 503, "auth.unknown")
	w.tryPassword(alice, "12345678").want(t, 503, "auth.unknown")
	w.do("DELETE", "/auth/sessions/current", "", "Authorization", token).want(t, 503, "auth.unknown")
	w.kv.down.Store(false)
	w.me(token).want(t, 200, "")
}

// A3: a client that hangs up doesn't spoil the answer for others who ask about the same token.
func TestCallerHangsUp(t *testing.T) {
	w := newTown(t)
	token, _ := w.signIn(alice)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
	r.Header.Set("Authorization", token)
	w.Resolve(r)
	w.me(token).want(t, 200, "")
}

// A2, A4: a user sees his sessions and ends one or all others; nobody ends a stranger's.
func TestSessionList(t *testing.T) {
	w := newTown(t)
	sign := func(agent, ip string) string {
		w.clock.advance(time.Minute)
		return w.tryCode(alice, w.code(alice), "User-Agent", agent, "ip", ip).want(t, 201, "").body["token"].(string)
	}
	phone := sign("Phone\x00\u202e/1 "+strings.Repeat("x", 5000), "192.0.2.1")
	laptop := sign("Laptop/2", "192.0.2.2")
	list := func(token string) []map[string]any {
		var items []map[string]any
		for _, x := range w.do("GET", "/me/sessions", "", "Authorization", token).want(t, 200, "").body["items"].([]any) {
			items = append(items, x.(map[string]any))
		}
		return items
	}
	w.clock.advance(10 * time.Minute)
	w.me(phone).want(t, 200, "")
	items := list(phone)
	if len(items) != 2 {
		t.Fatal(items)
	}
	a, b := items[0], items[1]
	if a["current"] != true || a["lastSeenAt"] != "2026-11-30T08:12:00+08:00" || a["createdAt"] != "2026-11-30T08:01:00+08:00" || a["ip"] != "192.0.2.1" ||
		!strings.HasPrefix(a["userAgent"].(string), "Phone/1 xxx") || len(a["userAgent"].(string)) != 200 {
		t.Error(a)
	}
	if b["current"] != false || b["lastSeenAt"] != b["createdAt"] || b["userAgent"] != "Laptop/2" {
		t.Error(b)
	}
	if text := fmt.Sprint(items); strings.Contains(text, phone) || strings.Contains(text, laptop) {
		t.Error("a token in the list")
	}

	stranger, _ := w.signIn(bob)
	w.do("DELETE", "/me/sessions/"+b["id"].(string), "", "Authorization", stranger).want(t, 404, "auth.session_not_found")
	w.do("DELETE", "/me/sessions/"+strings.Repeat("0", 64), "", "Authorization", phone).want(t, 404, "auth.session_not_found")
	w.do("DELETE", "/me/sessions/x", "", "Authorization", phone).want(t, 422, "request.invalid")
	w.me(laptop).want(t, 200, "")
	w.do("DELETE", "/me/sessions/"+b["id"].(string), "", "Authorization", phone).want(t, 204, "")
	w.me(laptop).want(t, 401, "auth.required")

	laptop, tablet := sign("Laptop", ""), sign("Tablet", "")
	w.do("DELETE", "/me/sessions", "", "Authorization", tablet).want(t, 204, "")
	w.me(laptop).want(t, 401, "auth.required")
	w.me(phone).want(t, 401, "auth.required")
	w.me(tablet).want(t, 200, "")
	w.me(stranger).want(t, 200, "")
	if items := list(tablet); len(items) != 1 {
		t.Error(items)
	}
}

// A user has at most 20 sessions: the one seen longest ago makes room, and expired ones don't count.
func TestSessionsAreBounded(t *testing.T) {
	w := newTown(t)
	ctx := t.Context()
	user, err := w.Ensure(ctx, account.Profile{Phone: alice})
	ok(t, err)
	issue := func() string {
		w.clock.advance(time.Second)
		token, _, err := w.Issue(ctx, user, "", "")
		ok(t, err)
		return token
	}
	var tokens []string
	for range 25 {
		tokens = append(tokens, issue())
	}
	for i, token := range tokens {
		if alive := w.resolve(token).User != nil; alive != (i >= 5) {
			t.Errorf("session %d alive: %v", i, alive)
		}
	}
	w.clock.advance(time.Hour)
	issue()
	if list, err := w.Sessions(ctx, user); len(list) != 1 || err != nil {
		t.Error(len(list), err)
	}
	if members, _ := w.kv.Members(ctx, "login:sessions:"+user.String()); len(members) != 1 {
		t.Error("expired sessions stay in the set:", len(members))
	}
}

// Step one runs on every request of a flash sale.
func BenchmarkResolve(b *testing.B) {
	w := newTown(b, func(o *account.Options) { o.Now = time.Now })
	user, err := w.Ensure(b.Context(), account.Profile{Phone: alice})
	ok(b, err)
	token, _, err := w.Issue(b.Context(), user, "", "")
	ok(b, err)
	request := func(header, value string) *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set(header, value)
		return r
	}
	for name, r := range map[string]*http.Request{
		"header":    request("Authorization", token),
		"cookie":    request("Cookie", "tandian_session="+token),
		"malformed": request("Authorization", "x"+token),
		"anonymous": request("Accept", "*/*"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					w.Resolve(r)
				}
			})
		})
	}
	b.Run("cold", func(b *testing.B) { // each time another user: one kv session, one SQL row
		const users = 2000
		tokens, err := w.CreateTestUsers(b.Context(), users, account.Device{})
		ok(b, err)
		requests := make([]*http.Request, users)
		for i, token := range tokens {
			requests[i] = request("Authorization", token)
		}
		// Without leases each request is a miss.
		cold := newTown(b, func(o *account.Options) { o.Now = time.Now; o.KV = leaseless{w.kv}; o.DB = w.db })
		b.ReportAllocs()
		b.ResetTimer()
		for i := 0; b.Loop(); i++ {
			if cold.Resolve(requests[i%users]).User == nil {
				b.Fatal("not signed in")
			}
		}
	})
}

func BenchmarkCreateTestUsers(b *testing.B) {
	w := newTown(b)
	for b.Loop() {
		tokens, err := w.CreateTestUsers(b.Context(), 5000, account.Device{})
		if err != nil || len(tokens) != 5000 {
			b.Fatal(len(tokens), err)
		}
	}
}
