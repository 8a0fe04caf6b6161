package account_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tandian/internal/account"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
)

const (
	horse   = "correct horse"
	battery = "battery staple"
)

// W15: what everybody sees of a user is id, nickname and avatar.
func TestPublicUser(t *testing.T) {
	w := newTown(t)
	token, user := w.signIn(alice)
	w.do("PUT", "/me/password", `{"password":"`+horse+`"}`, "Authorization", token).want(t, 204, "")
	a := w.do("GET", "/users/"+user.String(), "").want(t, 200, "")
	if keys := slices.Sorted(maps.Keys(a.body)); !slices.Equal(keys, []string{"avatar", "id", "nickname"}) {
		t.Errorf("%s", a.text)
	}
	w.do("GET", "/users/999", "").want(t, 404, "user.not_found")
	w.do("GET", "/users/0", "").want(t, 422, "request.invalid")
}

// A2: what a session knows of its user is no phone and no password; GET /me masks the phone.
func TestMe(t *testing.T) {
	w := newTown(t, func(o *account.Options) {
		o.ShopsOf = func(_ context.Context, user id.ID) ([]id.ID, error) { return []id.ID{user * 10, 9007199254740993}, nil }
	})
	token, user := w.signIn(alice)
	w.do("PUT", "/me/password", `{"password":"`+horse+`"}`, "Authorization", token).want(t, 204, "")
	a := w.me(token).want(t, 200, "")
	if keys := slices.Sorted(maps.Keys(a.body)); !slices.Equal(keys, []string{"avatar", "hasPassword", "id", "nickname", "phone", "roles", "shopIds"}) {
		t.Errorf("%s", a.text)
	}
	if a.body["hasPassword"] != true || fmt.Sprint(a.body["shopIds"]) != fmt.Sprintf("[%d 9007199254740993]", user*10) {
		t.Errorf("%s", a.text)
	}
	if c := w.resolve(token); strings.Contains(fmt.Sprintf("%+v", c.User), alice) || c.User.ID != user || c.Session == token {
		t.Errorf("%+v", c)
	}
}

// W23: nicknames are one visible line of 1 to 24 characters.
func TestNicknames(t *testing.T) {
	w := newTown(t)
	token, _ := w.signIn(alice)
	patch := func(nickname string) answer {
		return w.do("PATCH", "/me", `{"nickname":"`+nickname+`"}`, "Authorization", token)
	}
	for _, bad := range []string{"", " ", "　", strings.Repeat("字", 25), `a\u202eb`, `a\u2066b`, `a\u0000b`, `a\u0007b`, `a\nb`, `a\tb`, strings.Repeat("a", 60_000)} {
		patch(bad).want(t, 422, "request.invalid")
	}
	patch(strings.Repeat("a", 70_000)).want(t, 413, "request.too_large")
	for _, good := range []string{"a", strings.Repeat("字", 24), "👨‍👩‍👧‍👦 𠮷", "O'Brien"} {
		if a := patch(good).want(t, 200, ""); a.body["nickname"] != good {
			t.Errorf("%s", a.text)
		}
	}
	w.do("PATCH", "/me", `{"phone":"`+bob+`"}`, "Authorization", token).want(t, 422, "request.invalid")
	w.do("PATCH", "/me", `{"roles":["operator"]}`, "Authorization", token).want(t, 422, "request.invalid")
	w.do("PATCH", "/me", `{"nickname":"x"}`).want(t, 401, "auth.required")
}

// W24: an avatar is a picture of our own.
func TestAvatars(t *testing.T) {
	w := newTown(t)
	token, _ := w.signIn(alice)
	patch := func(avatar string) answer {
		return w.do("PATCH", "/me", `{"avatar":"`+avatar+`"}`, "Authorization", token)
	}
	for _, bad := range []string{"http://127.0.0.1:6379/", "//evil.example/a.png", "/pictures/../secret", "/pictures//evil", "/pictures/a b", "/etc/passwd", "pictures/a.png",
		"/pictures/", "/uploads/%2e%2e/x", "javascript:alert(1)", "/pictures/a\\\\b", "/pictures/" + strings.Repeat("a", 300), "/pictures/图.png", "/uploads/a?x=1"} {
		patch(bad).want(t, 422, "request.invalid")
	}
	for _, good := range []string{"/pictures/category-1.svg", "/uploads/2026/11/ab_C-9.webp", ""} {
		if a := patch(good).want(t, 200, ""); a.body["avatar"] != good {
			t.Errorf("%s", a.text)
		}
	}
}

// A2: a password is set under /me, needs the current one to change, and a change ends all other sessions.
func TestPassword(t *testing.T) {
	w := newTown(t)
	w.UseCheapHashes()
	token, _ := w.signIn(alice)
	w.clock.advance(time.Minute)
	other, _ := w.signIn(alice)
	put := func(body string) answer { return w.do("PUT", "/me/password", body, "Authorization", token) }
	put(`{"password":"short"}`).want(t, 422, "request.invalid")
	put(`{"password":"`+strings.Repeat("a", 65)+`"}`).want(t, 422, "request.invalid")
	w.tryPassword(alice, horse).want(t, 401, "auth.password_wrong")

	put(`{"password":"`+horse+`"}`).want(t, 204, "")
	w.me(other).want(t, 401, "auth.required")
	w.me(token).want(t, 200, "")
	other = w.tryPassword(alice, horse).want(t, 201, "").body["token"].(string)

	put(`{"password":"`+battery+`"}`).want(t, 422, "auth.current_password_wrong")
	put(`{"password":"`+battery+`","currentPassword":"wrong"}`).want(t, 422, "auth.current_password_wrong")
	w.me(other).want(t, 200, "")
	put(`{"password":"`+battery+`","currentPassword":"`+horse+`"}`).want(t, 204, "")
	w.me(other).want(t, 401, "auth.required")
	w.tryPassword(alice, horse).want(t, 401, "auth.password_wrong")
	w.tryPassword(alice, battery).want(t, 201, "")
}

// A2, W36: phones that are known, known without a password and unknown are told apart neither by words nor by time.
func TestNoEnumeration(t *testing.T) {
	w := newTown(t)
	const known, bare, unknown = "13800000011", "13800000012", "13800000013"
	_, err := w.Ensure(t.Context(), account.Profile{Phone: known, Password: horse})
	ok(t, err)
	_, err = w.Ensure(t.Context(), account.Profile{Phone: bare})
	ok(t, err)
	fastest := map[string]time.Duration{}
	said := map[string]string{}
	for range 3 {
		for _, phone := range []string{known, bare, unknown} {
			began := time.Now()
			a := w.tryPassword(phone, battery).want(t, 401, "auth.password_wrong")
			if took := time.Since(began); fastest[phone] == 0 || took < fastest[phone] {
				fastest[phone] = took
			}
			delete(a.body, "requestId")
			said[phone] = fmt.Sprint(a.body)
		}
	}
	if said[known] != said[bare] || said[known] != said[unknown] {
		t.Error(said)
	}
	// Without the hash an answer takes a hundredth.
	if fastest[bare] < fastest[known]/3 || fastest[unknown] < fastest[known]/3 {
		t.Error(fastest)
	}
	w.UseCheapHashes()
	for range 7 {
		for _, phone := range []string{bare, unknown} {
			w.tryPassword(phone, battery).want(t, 401, "auth.password_wrong")
		}
	}
	for range 7 { // the stored hash keeps its cost
		w.tryPassword(known, battery).want(t, 401, "auth.password_wrong")
	}
	for _, phone := range []string{known, bare, unknown} {
		if a := w.tryPassword(phone, battery).want(t, 429, "auth.too_many_tries"); a.body["retryAfterMs"] != 900_000.0 {
			t.Error(phone, a.text)
		}
		w.do("POST", "/auth/codes", `{"phone":"`+phone+`"}`).want(t, 204, "")
	}
	if u, err := w.SignInWithPassword(t.Context(), unknown, "", account.Device{}); err == nil {
		t.Error("a password never creates a user:", u)
	}
}

// W08 for passwords: ten wrong ones close this door for 15 minutes, the other stays open.
func TestPasswordBruteForce(t *testing.T) {
	w := newTown(t)
	w.UseCheapHashes()
	_, err := w.Ensure(t.Context(), account.Profile{Phone: alice, Password: horse})
	ok(t, err)
	for range 10 {
		w.tryPassword(alice, battery).want(t, 401, "auth.password_wrong")
	}
	w.tryPassword(alice, horse).want(t, 429, "auth.too_many_tries")
	w.tryCode(alice, w.code(alice)).want(t, 201, "")
	w.clock.advance(15 * time.Minute)
	w.tryPassword(alice, horse).want(t, 201, "")
	for range 9 { // the right one has cleared the count
		w.tryPassword(alice, battery).want(t, 401, "auth.password_wrong")
	}
	w.tryPassword(alice, horse).want(t, 201, "")

	// A banned user hears so only after the right password.
	user, err := w.Ensure(t.Context(), account.Profile{Phone: alice})
	ok(t, err)
	ok(t, w.Ban(t.Context(), user))
	w.tryPassword(alice, battery).want(t, 401, "auth.password_wrong")
	w.tryPassword(alice, horse).want(t, 403, "auth.banned")
}

// A6: Ensure creates a user, then updates only what it is given.
func TestEnsure(t *testing.T) {
	w := newTown(t)
	ctx := t.Context()
	first, err := w.Ensure(ctx, account.Profile{Phone: alice, Nickname: "店主", Avatar: "/pictures/m.svg", Password: horse, Roles: []identity.Role{identity.Merchant}})
	ok(t, err)
	token := w.tryPassword(alice, horse).want(t, 201, "").body["token"].(string)
	second, err := w.Ensure(ctx, account.Profile{Phone: alice, Roles: []identity.Role{identity.Operator}})
	ok(t, err)
	a := w.me(token).want(t, 200, "")
	if first != second || a.body["nickname"] != "店主" || a.body["avatar"] != "/pictures/m.svg" || fmt.Sprint(a.body["roles"]) != "[shopper operator]" || a.body["hasPassword"] != true {
		t.Error(first, second, a.text)
	}
	_, err = w.Ensure(ctx, account.Profile{Phone: alice, Nickname: "新店主", Avatar: "/pictures/n.svg", Password: battery})
	ok(t, err)
	if u := w.resolve(token).User; u.Nickname != "新店主" || u.Avatar != "/pictures/n.svg" || !u.Has(identity.Operator) {
		t.Errorf("%+v", u)
	}
	w.tryPassword(alice, battery).want(t, 201, "")
	for _, p := range []account.Profile{{Phone: "1"}, {Phone: bob, Nickname: "a\nb"}, {Phone: bob, Avatar: "http://x"}, {Phone: bob, Password: "short"}, {Phone: bob, Roles: []identity.Role{"emperor"}}} {
		if _, err := w.Ensure(ctx, p); err == nil {
			t.Errorf("%+v", p)
		}
	}
}

// M5: users for load tests, only where they are allowed.
func TestTestUsers(t *testing.T) {
	w := newTown(t)
	w.do("POST", "/console/test-users", `{"count":3}`).want(t, 404, "request.no_such_path")

	w = newTown(t, func(o *account.Options) { o.TestUsers = true })
	seen := map[string]bool{}
	for _, count := range []int{1, 1203} {
		a := w.do("POST", "/console/test-users", fmt.Sprintf(`{"count":%d}`, count)).want(t, 200, "")
		tokens := a.body["tokens"].([]any)
		if len(tokens) != count {
			t.Fatal(len(tokens))
		}
		for _, token := range tokens {
			c := w.resolve(token.(string))
			if c.User == nil || seen[c.User.ID.String()] || len(c.User.Roles) != 1 {
				t.Fatalf("%+v", c)
			}
			seen[c.User.ID.String()] = true
		}
	}
	if n, err := w.db.Read.NewSelect().Table("users").Where("phone LIKE '199________'").Count(t.Context()); n != 1204 || err != nil {
		t.Fatal(n, err)
	}
	for _, bad := range []string{`{"count":0}`, `{"count":20001}`, `{"count":-1}`, `{}`} {
		w.do("POST", "/console/test-users", bad).want(t, 422, "request.invalid")
	}
}

// W07: the inbox answers only where it is switched on.
func TestDemoInbox(t *testing.T) {
	w := newTown(t)
	w.code(alice)
	w.do("GET", "/dev/codes?phone="+alice, "").want(t, 404, "request.no_such_path")
	w.do("GET", "/dev/codes", "").want(t, 404, "request.no_such_path")

	w = newTown(t, func(o *account.Options) { o.DemoInbox = true })
	w.do("GET", "/dev/codes?phone="+alice, "").want(t, 404, "auth.no_code")
	w.do("GET", "/dev/codes", "").want(t, 404, "auth.no_code")
	w.code(alice)
	w.clock.advance(time.Minute)
	code := w.code(alice)
	a := w.do("GET", "/dev/codes?phone="+alice, "").want(t, 200, "")
	if a.body["code"] != code || a.body["phone"] != alice || a.body["sentAt"] != "2026-11-30T08:01:00+08:00" {
		t.Error(a.text)
	}
}

func TestInboxIsBounded(t *testing.T) {
	inbox := account.NewInbox(newClock().Now)
	for i := range 1500 {
		ok(t, inbox.Send(t.Context(), fmt.Sprint(i), fmt.Sprintf("%06d", i)))
	}
	if _, _, found := inbox.Last("499"); found {
		t.Error("the oldest must make room")
	}
	if code, _, found := inbox.Last("500"); !found || code != "000500" {
		t.Error(code, found)
	}
}
