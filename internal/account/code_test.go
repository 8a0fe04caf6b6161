package account_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tandian/internal/account"
	"tandian/internal/kit/limit"
)

const (
	alice = "13812345678"
	bob   = "19987654321"
)

// A1, A2, W07: a code opens a session, creates the user at the first time and never shows in an answer.
func TestSignInWithCode(t *testing.T) {
	w := newTown(t)
	sent := w.do("POST", "/auth/codes", `{"phone":"`+alice+`"}`).want(t, 204, "")
	code, _, _ := w.inbox.Last(alice)
	if sent.text != "" || strings.Contains(fmt.Sprint(sent.header), code) {
		t.Fatal("W07: the answer must be empty:", sent.text, sent.header)
	}
	a := w.tryCode(alice, code).want(t, 201, "")
	token, user := a.body["token"].(string), a.body["user"].(map[string]any)
	if len(token) != 32 || strings.Trim(token, "0123456789abcdef") != "" {
		t.Errorf("token %q is not 128 bits of hex", token)
	}
	nick := user["nickname"].(string)
	if suffix, found := strings.CutPrefix(nick, "探友_"); !found || len(suffix) != 6 {
		t.Errorf("nickname %q", nick)
	}
	if fmt.Sprint(user["roles"]) != "[shopper]" || strings.Contains(a.text, alice) {
		t.Errorf("%s", a.text)
	}
	if want := "2026-12-30T08:00:00+08:00"; a.body["expiresAt"] != want {
		t.Errorf("expiresAt %v, want the absolute end %s", a.body["expiresAt"], want)
	}
	me := w.me(token).want(t, 200, "")
	if me.body["phone"] != "138****5678" || me.body["hasPassword"] != false || fmt.Sprint(me.body["shopIds"]) != "[]" || me.body["id"] != user["id"] {
		t.Errorf("%s", me.text)
	}
	w.clock.advance(time.Minute)
	if again := w.tryCode(alice, w.code(alice)).want(t, 201, ""); again.body["user"].(map[string]any)["id"] != user["id"] {
		t.Errorf("second sign-in is somebody else: %s", again.text)
	}
}

// A1, W40: only mainland mobile numbers; nothing of the phone reaches a key.
func TestPhones(t *testing.T) {
	w := newTown(t)
	for _, phone := range []string{"", "1381234567", "138123456789", "12812345678", "23812345678", "1381234567８", "13812345 78", "13812:45678",
		`1381234567\n`, `13812345678\n`, "1381234*678", "+8613812345678", strings.Repeat("1", 32)} {
		before := w.kv.calls.Load()
		w.do("POST", "/auth/codes", `{"phone":"`+phone+`"}`).want(t, 422, "auth.phone_invalid")
		w.do("POST", "/auth/sessions", `{"phone":"`+phone+`","code":"123456"}`).want(t, 422, "auth.phone_invalid")
		w.do("POST", "/auth/sessions", `{"phone":"`+phone+`","password":"12345678"}`).want(t, 422, "auth.phone_invalid")
		if w.kv.calls.Load() != before {
			t.Errorf("%q reached the store", phone)
		}
	}
	w.do("POST", "/auth/codes", `{"phone":"`+strings.Repeat("1", 5000)+`"}`).want(t, 422, "request.invalid")
	w.do("POST", "/auth/sessions", `{"phone":"`+alice+`"}`).want(t, 422, "request.invalid")
	w.do("POST", "/auth/sessions", `{"phone":"`+alice+`","code":"1","password":"2"}`).want(t, 422, "request.invalid")
}

// A1, W08: five wrong tries void the code, the right one too.
func TestBruteForce(t *testing.T) {
	w := newTown(t)
	code := w.code(alice)
	for range 1000 {
		w.tryCode(alice, wrong(code)).want(t, 401, "auth.code_wrong")
	}
	w.tryCode(alice, code).want(t, 401, "auth.code_wrong")

	w.clock.advance(time.Minute)
	code = w.code(alice)
	for range 4 {
		w.tryCode(alice, wrong(code)).want(t, 401, "auth.code_wrong")
	}
	w.tryCode(alice, code).want(t, 201, "") // the count of the code before died with it

	w.clock.advance(time.Minute)
	code = w.code(alice)
	for range 5 {
		w.tryCode(alice, wrong(code)).want(t, 401, "auth.code_wrong")
	}
	w.tryCode(alice, code).want(t, 401, "auth.code_wrong")
}

// A1, W08, W09: guesses that arrive at once get no more looks, and of many right answers one wins.
func TestCodeUnderConcurrency(t *testing.T) {
	w := newTown(t)
	code := w.code(alice)
	var won atomic.Int32
	at(5, func(int) {
		if _, err := w.SignInWithCode(t.Context(), alice, code, account.Device{}); err == nil {
			won.Add(1)
		} else if !errors.Is(err, account.ErrCodeWrong) {
			t.Error(err)
		}
	})
	if won.Load() != 1 {
		t.Fatalf("%d sign-ins with one code", won.Load())
	}
	code = w.code(bob)
	at(200, func(int) {
		if _, err := w.SignInWithCode(t.Context(), bob, wrong(code), account.Device{}); !errors.Is(err, account.ErrCodeWrong) {
			t.Error(err)
		}
	})
	w.tryCode(bob, code).want(t, 401, "auth.code_wrong")
}

// A2: a phone that signs in twice at once for the first time becomes one user.
func TestFirstSignInTwiceAtOnce(t *testing.T) {
	w := newTown(t)
	var mu sync.Mutex
	users := map[string]bool{}
	at(8, func(i int) {
		u, err := w.Ensure(t.Context(), account.Profile{Phone: alice})
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		users[u.String()] = true
	})
	if len(users) != 1 {
		t.Fatal(users)
	}
}

func at(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// A1, W09: a code works once, for its phone, for two minutes.
func TestCodeReuse(t *testing.T) {
	w := newTown(t)
	code := w.code(alice)
	w.code(bob)
	if bobs, _, _ := w.inbox.Last(bob); bobs == code {
		t.Skip("one in a million: both codes are equal")
	}
	w.tryCode(bob, code).want(t, 401, "auth.code_wrong")
	w.tryCode(alice, code).want(t, 201, "")
	w.tryCode(alice, code).want(t, 401, "auth.code_wrong")

	w.clock.advance(time.Minute)
	code = w.code(alice)
	w.clock.advance(2*time.Minute - time.Millisecond)
	w.tryCode(alice, code).want(t, 201, "")
	code = w.code(alice)
	w.clock.advance(2 * time.Minute)
	w.tryCode(alice, code).want(t, 401, "auth.code_wrong")
}

// A1, W10: one code a minute and ten a day per phone, a hundred a day per address; the wait is exact.
func TestCodeLimits(t *testing.T) {
	w := newTown(t)
	send := func(phone, ip string) answer {
		return w.do("POST", "/auth/codes", `{"phone":"`+phone+`"}`, "ip", ip)
	}
	send(alice, "192.0.2.1").want(t, 204, "")
	w.clock.advance(18_500 * time.Millisecond)
	for range 19 {
		a := send(alice, "192.0.2.2").want(t, 429, "auth.code_too_often")
		if a.body["retryAfterMs"] != 41_500.0 || a.header.Get("Retry-After") != "42" {
			t.Fatal(a.text, a.header)
		}
	}
	w.clock.advance(41_500 * time.Millisecond)
	for range 9 {
		send(alice, "192.0.2.3").want(t, 204, "")
		w.clock.advance(time.Minute)
	}
	a := send(alice, "192.0.2.4").want(t, 429, "auth.code_too_often")
	if left := time.Duration(a.body["retryAfterMs"].(float64)) * time.Millisecond; left != 24*time.Hour-10*time.Minute {
		t.Fatal("the day began with the first code:", left)
	}
	w.clock.advance(24*time.Hour - 10*time.Minute)
	send(alice, "192.0.2.5").want(t, 204, "")

	got := map[int]int{}
	for i := range 200 {
		got[send(fmt.Sprintf("137%08d", i), "198.51.100.7").status]++
	}
	if got[204] != 100 || got[429] != 100 {
		t.Fatal("per address:", got)
	}
	// An address over its cap doesn't close the door for a phone it has not reached.
	send("13700000150", "198.51.100.8").want(t, 204, "")
}

// W10, R: the limit of the route comes before the daily cap.
func TestRouteLimits(t *testing.T) {
	w := newTownWith(t, limit.Override{})
	got := map[string]int{}
	for i := range 50 {
		a := w.do("POST", "/auth/codes", fmt.Sprintf(`{"phone":"137%08d"}`, i))
		got[fmt.Sprintf("%d %v", a.status, a.body["code"])]++
	}
	if got["204 <nil>"] != 30 || got["429 limit.exceeded"] != 20 {
		t.Fatal(got)
	}
	got = map[string]int{}
	for range 100 {
		a := w.tryCode(alice, "123456")
		got[fmt.Sprintf("%d %v", a.status, a.body["code"])]++
	}
	if got["401 auth.code_wrong"] != 60 || got["429 limit.exceeded"] != 40 {
		t.Fatal(got)
	}
}

// W11: what is drawn comes from the reader that was given.
func TestRandomnessIsInjected(t *testing.T) {
	w := newTown(t, func(o *account.Options) { o.Rand = zeros{} })
	if code := w.code(alice); code != "000000" {
		t.Fatal(code)
	}
	a := w.tryCode(alice, "000000").want(t, 201, "")
	if a.body["token"] != strings.Repeat("0", 32) || a.body["user"].(map[string]any)["nickname"] != "探友_aaaaaa" {
		t.Fatal(a.text)
	}
	w = newTown(t, func(o *account.Options) { o.Rand = io.LimitReader(zeros{}, 32) })
	w.do("POST", "/auth/codes", `{"phone":"`+alice+`"}`).want(t, 500, "internal")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// W11: codes are six digits, all over the range.
func TestCodesAreSpread(t *testing.T) {
	w := newTown(t, func(o *account.Options) { o.CodesPerIP = 1e6 })
	var tens [10]int
	for i := range 2000 {
		code := w.code(fmt.Sprintf("137%08d", i))
		tens[code[0]-'0']++
	}
	for d, n := range tens { // 200 expected, six sigmas = 80
		if n < 120 || n > 280 {
			t.Errorf("%d of 2000 codes begin with %d", n, d)
		}
	}
}

// A1, A2: the store's values hold neither codes nor tokens nor phones.
func TestStoreHoldsNoSecrets(t *testing.T) {
	w := newTown(t)
	kept := &recorder{Store: w.kv.Store}
	w.kv.Store = kept
	code := w.code(alice)
	token := w.tryCode(alice, code).want(t, 201, "").body["token"].(string)
	values := strings.Join(kept.values, "\n")
	if len(kept.values) < 4 || strings.Contains(strings.Join(kept.keys, "\n"), token) {
		t.Error(kept.keys)
	}
	for _, secret := range []string{token, alice} {
		if strings.Contains(values, secret) {
			t.Errorf("%q in %s", secret, values)
		}
	}
	if slices.Contains(kept.values, code) || strings.Contains(values, ":"+code) || strings.Contains(values, code+":") {
		t.Errorf("%q in %s", code, values)
	}
}

// A1: a sender that fails leaves no code behind and may be tried again at once; what it says is logged without secrets.
func TestSenderFails(t *testing.T) {
	gateway := &flakyGateway{}
	w := newTown(t, func(o *account.Options) { o.SMS = gateway })
	gateway.fail = true
	w.do("POST", "/auth/codes", `{"phone":"`+alice+`"}`).want(t, 503, "auth.code_not_sent")
	w.tryCode(alice, gateway.last).want(t, 401, "auth.code_wrong")
	if log := w.log.String(); !strings.Contains(log, "gateway refused") || strings.Contains(log, alice) || strings.Contains(log, gateway.last) {
		t.Fatal(log)
	}
	gateway.fail = false
	w.do("POST", "/auth/codes", `{"phone":"`+alice+`"}`).want(t, 204, "")
	w.tryCode(alice, gateway.last).want(t, 201, "")
}

// flakyGateway fails on request, quoting what it was given as real ones do.
type flakyGateway struct {
	fail bool
	last string
}

func (g *flakyGateway) Send(_ context.Context, phone, code string) error {
	g.last = code
	if g.fail {
		return fmt.Errorf("gateway refused to=%s text=%s", phone, code)
	}
	return nil
}

// W12: no code, token or phone in any log, whatever happens.
func TestLogsHoldNoSecrets(t *testing.T) {
	var secrets []string
	w := newTown(t)
	code := w.code(alice)
	w.tryCode(alice, wrong(code)).want(t, 401, "auth.code_wrong")
	token := w.tryCode(alice, code).want(t, 201, "").body["token"].(string)
	secrets = append(secrets, alice, code, token)
	w.do("PUT", "/me/password", `{"password":"correct horse"}`, "Authorization", token).want(t, 204, "")
	w.tryPassword(alice, "wrong horse").want(t, 401, "auth.password_wrong")
	w.do("GET", "/me?token="+token, "", "Cookie", "tandian_session="+token).want(t, 200, "")
	w.kv.down.Store(true)
	w.clock.advance(time.Minute)
	w.do("POST", "/auth/codes", `{"phone":"`+bob+`"}`).want(t, 503, "auth.unknown")
	w.me(token).want(t, 503, "auth.unknown")
	secrets = append(secrets, bob, "correct horse", "wrong horse", "argon2id")
	log := w.log.String()
	if !strings.Contains(log, `"route":"POST /api/v1/auth/sessions"`) {
		t.Fatal("the log was not captured:", log)
	}
	for _, secret := range secrets {
		if strings.Contains(log, secret) {
			t.Errorf("%q is in the log", secret)
		}
	}

	w = newTown(t, func(o *account.Options) { o.SMS = nil; o.DemoInbox = true })
	w.do("POST", "/auth/codes", `{"phone":"`+alice+`"}`).want(t, 204, "")
	code = w.do("GET", "/dev/codes?phone="+alice, "").want(t, 200, "").text[len(`{"phone":"`+alice+`","code":"`):][:6]
	if log := w.log.String(); !strings.Contains(log, "138****5678") || strings.Contains(log, alice) || strings.Contains(log, code) {
		t.Errorf("log sender: code %s: %s", code, log)
	}
}
