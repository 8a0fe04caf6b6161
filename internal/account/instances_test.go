package account_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/uptrace/bun"

	"tandian/internal/account"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/kv"
	"tandian/internal/kit/kv/kvtest"
)

// patience is how long a test waits for an event before it calls it lost.
const patience = 20 * time.Second

// until waits for something to become so.
func until(t testing.TB, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !so(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
	}
}

// instance is one of several processes on the same stores, with a link to Redis that can be cut.
type instance struct {
	*town
	redis *kv.Redis
	line  *kvtest.Line // of the link; everything else goes straight to the server
}

// hears reports whether the instance hears of changes.
func (i *instance) hears() bool { return i.redis.Lease("login:token:").Holds(i.clock.Now()) }

// fleet is two instances on one Redis, one database and one clock, which stands still unless a test moves it: nothing
// is seen below because time has gone by.
type fleet struct {
	t      *testing.T
	server *kvtest.Server
	clock  *clock
	a, b   *instance
	reads  atomic.Int64 // statements that the database was asked
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, server: kvtest.Start(t), clock: newClock()}
	f.a = f.instance()
	f.b = f.instance(func(o *account.Options) { o.DB = f.a.db })
	f.a.db.Read = f.a.db.Read.WithQueryHook(counter{&f.reads})
	return f
}

func (f *fleet) instance(adjust ...func(*account.Options)) *instance {
	f.t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{f.server.Addr}, DisableCache: true})
	ok(f.t, err)
	f.t.Cleanup(client.Close)
	i := &instance{line: f.server.Line()}
	link := kv.NewLink(rueidis.ClientOption{InitAddress: []string{i.line.Addr}}, account.LeasedKeys(), f.clock.Now, func(err error) { f.t.Log("link:", err) })
	ctx, cancel := context.WithCancel(f.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = link.Run(ctx) })
	f.t.Cleanup(func() { i.line.Heal(); cancel(); wg.Wait() })

	i.redis = &kv.Redis{Client: client, Link: link}
	watched := &watchedKV{Store: i.redis}
	i.town = newTown(f.t, append(adjust, func(o *account.Options) { o.KV, o.Now = watched, f.clock.Now })...)
	i.kv, i.clock = watched, f.clock
	until(f.t, "the link is up", i.hears)
	return i
}

// counter counts statements.
type counter struct{ n *atomic.Int64 }

func (c counter) BeforeQuery(ctx context.Context, _ *bun.QueryEvent) context.Context {
	c.n.Add(1)
	return ctx
}
func (counter) AfterQuery(context.Context, *bun.QueryEvent) {}

// user is signed in on a.
func (f *fleet) user(n int) (token string, user id.ID) {
	f.t.Helper()
	user, err := f.a.Ensure(f.t.Context(), account.Profile{Phone: fmt.Sprintf("1380000%04d", n)})
	ok(f.t, err)
	token, _, err = f.a.Issue(f.t.Context(), user, "", "")
	ok(f.t, err)
	return token, user
}

// told waits until b has heard of all that a has done.
func (f *fleet) told() {
	f.t.Helper()
	until(f.t, "the link is up", f.b.hears)
	lease := f.b.redis.Lease("login:token:marker")
	ok(f.t, f.a.redis.Set(f.t.Context(), "login:token:marker", nil, time.Minute))
	until(f.t, "b hears of a", func() bool { return !lease.Holds(f.clock.Now()) })
}

// remembers waits until b has heard of all that a has done and remembers the token.
func (f *fleet) remembers(token string) {
	f.t.Helper()
	f.told()
	until(f.t, "b asks nobody", func() bool {
		before := f.b.kv.calls.Load() + f.reads.Load()
		f.b.resolve(token)
		return f.b.kv.calls.Load()+f.reads.Load() == before
	})
}

// change is one that a makes and b must see.
type change struct {
	name  string
	first func(f *fleet, user id.ID) // before b is asked; may be nil
	make  func(f *fleet, token string, user id.ID)
	seen  func(c *identity.Caller) bool
}

func changes() []change {
	gone := func(c *identity.Caller) bool { return c.User == nil && !c.Unknown }
	role := func(t *testing.T, f *fleet, user id.ID, roles ...identity.Role) {
		t.Helper()
		ok(t, f.a.SetRoles(t.Context(), user, roles...))
	}
	return []change{
		{"logout", nil, func(f *fleet, token string, _ id.ID) {
			f.a.do("DELETE", "/auth/sessions/current", "", "Authorization", token).want(f.t, 204, "")
		}, gone},
		{"kick", nil, func(f *fleet, _ string, user id.ID) {
			n, err := f.a.Kick(f.t.Context(), user)
			if n != 1 || err != nil {
				f.t.Error(n, err)
			}
		}, gone},
		{"ban", nil, func(f *fleet, _ string, user id.ID) { ok(f.t, f.a.Ban(f.t.Context(), user)) }, gone},
		{"unban", func(f *fleet, user id.ID) {
			_, err := f.a.db.Write.Exec("UPDATE users SET banned_at = 1 WHERE id = ?", user)
			ok(f.t, err)
		}, func(f *fleet, _ string, user id.ID) { ok(f.t, f.a.Unban(f.t.Context(), user)) },
			func(c *identity.Caller) bool { return c.User != nil }},
		{"nickname and avatar", nil, func(f *fleet, token string, _ id.ID) {
			f.a.do("PATCH", "/me", `{"nickname":"新名字","avatar":"/pictures/a-1.svg"}`, "Authorization", token).want(f.t, 200, "")
		}, func(c *identity.Caller) bool {
			return c.User != nil && c.User.Nickname == "新名字" && c.User.Avatar == "/pictures/a-1.svg"
		}},
		{"a role given", nil, func(f *fleet, _ string, user id.ID) { role(f.t, f, user, identity.Operator) },
			func(c *identity.Caller) bool { return c.User != nil && c.User.Has(identity.Operator) }},
		{"a role taken", func(f *fleet, user id.ID) { role(f.t, f, user, identity.Operator) },
			func(f *fleet, _ string, user id.ID) { role(f.t, f, user) },
			func(c *identity.Caller) bool { return c.User != nil && !c.User.Has(identity.Operator) }},
	}
}

// A4, F71: what one instance changes is seen on the other as soon as it hears of it.
func TestChangesBiteElsewhere(t *testing.T) {
	f := newFleet(t)
	for n, c := range changes() {
		t.Run(c.name, func(t *testing.T) {
			f.t, f.a.t, f.b.t = t, t, t
			token, user := f.user(n)
			if c.first != nil {
				c.first(f, user)
			}
			f.remembers(token)
			if c.seen(f.b.resolve(token)) {
				t.Fatal("seen before it is made")
			}
			c.make(f, token, user)
			until(t, "the other instance sees it", func() bool { return c.seen(f.b.resolve(token)) })
			if !c.seen(f.a.resolve(token)) {
				t.Error("not seen where it was made")
			}
		})
	}
}

// A4, A5: an instance whose link is silent sees changes half a second later at most, because it asks.
func TestChangesBiteWithoutTheLink(t *testing.T) {
	for name, trouble := range map[string]func(*kvtest.Line){
		"black hole both ways":  func(l *kvtest.Line) { l.Swallow("upstream", "downstream") },
		"black hole downstream": func(l *kvtest.Line) { l.Swallow("downstream") },
		"reset":                 func(l *kvtest.Line) { l.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t)
			all := changes()
			tokens, users := make([]string, len(all)), make([]id.ID, len(all))
			for n, c := range all {
				tokens[n], users[n] = f.user(n)
				if c.first != nil {
					c.first(f, users[n])
				}
				f.remembers(tokens[n])
			}
			trouble(f.b.line)
			for n, c := range all {
				c.make(f, tokens[n], users[n])
			}
			f.clock.advance(500 * time.Millisecond)
			for n, c := range all {
				if !c.seen(f.b.resolve(tokens[n])) {
					t.Errorf("%s is not seen after half a second", c.name)
				}
			}
			f.b.line.Heal()
			until(t, "the link is up again", f.b.hears)
			for n, c := range all {
				if !c.seen(f.b.resolve(tokens[n])) {
					t.Errorf("%s is not seen any more", c.name)
				}
			}
			token, user := f.user(len(all))
			f.remembers(token)
			n, err := f.a.Kick(t.Context(), user)
			if n != 1 || err != nil {
				t.Error(n, err)
			}
			until(t, "changes are heard of again", func() bool { return f.b.resolve(token).User == nil })
		})
	}
}

// A5: a hot session costs neither Redis nor the database anything.
func TestHotPathAsksNobody(t *testing.T) {
	f := newFleet(t)
	token, _ := f.user(1)
	f.remembers(token)
	asked := func() (n int) { // without heartbeats and the counting itself
		for name, calls := range f.server.Calls() {
			if command, _, _ := strings.Cut(name, "|"); !slices.Contains([]string{"ping", "hello", "client", "cluster", "info"}, command) {
				n += calls
			}
		}
		return n + int(f.reads.Load())
	}
	until(t, "10,000 requests that ask nobody", func() bool { // unless the machine makes the link silent for half a second
		before := asked()
		for range 10_000 {
			if f.b.resolve(token).User == nil {
				t.Fatal("not signed in")
			}
		}
		return asked() == before
	})
}

// A5: of all instances together one renews a session, and at most once per sixth of the TTL.
func TestRenewalAcrossInstances(t *testing.T) {
	f := newFleet(t)
	token, user := f.user(1)
	list, err := f.a.Sessions(t.Context(), user)
	ok(t, err)
	key := "login:token:" + list[0].ID
	const span, step = time.Hour, 150 * time.Second
	for range int(span / step) {
		// The server's clock can't be moved, so the time is taken off the session.
		f.clock.advance(step)
		left, err := f.server.Do("PTTL", key).AsInt64()
		ok(t, err)
		f.server.Do("PEXPIRE", key, fmt.Sprint(left-step.Milliseconds()))
		f.told()
		for _, i := range []*instance{f.a, f.b, f.a, f.b} {
			until(t, "the link is up", i.hears) // it takes a heartbeat at the new time
			if i.resolve(token).User == nil {
				t.Fatal("signed out")
			}
			f.told()
		}
	}
	if n := f.a.kv.touches.Load() + f.b.kv.touches.Load(); n < 8 || n > int64(span/(5*time.Minute)) {
		t.Errorf("%d renewals in %v of use, want one per 5 minutes", n, span)
	}
}

// A4: an instance that dies between its mark and its commit, or after it, leaves nobody believing the old row.
func TestDiesWhileChanging(t *testing.T) {
	f := newFleet(t)
	token, user := f.user(1)
	f.remembers(token)
	key := "login:changing:" + user.String()
	ok(t, f.a.redis.Add(t.Context(), key, 10*time.Second, "of the dead"))
	f.told()
	if u := f.b.resolve(token).User; u == nil || u.Nickname == "x" {
		t.Fatalf("%+v", u)
	}
	_, err := f.a.db.Write.Exec("UPDATE users SET nickname = 'x' WHERE id = ?", user)
	ok(t, err)
	if u := f.b.resolve(token).User; u == nil || u.Nickname != "x" {
		t.Fatalf("%+v", u)
	}
	f.server.Do("DEL", key) // its time is up
	f.remembers(token)
}

// A4: both instances change the same user at once; in the end both see what the row says.
func TestBothChangeAtOnce(t *testing.T) {
	f := newFleet(t)
	token, user := f.user(1)
	ctx := t.Context()
	var wg sync.WaitGroup
	for n, i := range []*instance{f.a, f.b} {
		wg.Go(func() {
			for round := range 50 {
				name := fmt.Sprintf("%d-%d", n, round)
				if err := i.UpdateProfile(ctx, user, &name, nil); err != nil {
					t.Error(err)
				}
				if i.resolve(token).User == nil {
					t.Error("signed out")
				}
			}
		})
	}
	wg.Wait()
	var want string
	ok(t, f.a.db.Read.QueryRow("SELECT nickname FROM users WHERE id = ?", user).Scan(&want))
	for _, i := range []*instance{f.a, f.b} {
		until(t, "the row is seen", func() bool { return i.resolve(token).User.Nickname == want })
	}
	f.remembers(token)
	if got := f.b.resolve(token).User.Nickname; got != want {
		t.Errorf("%q is remembered, the row says %q", got, want)
	}
}

// A4: what is flushed is forgotten.
func TestFlush(t *testing.T) {
	f := newFleet(t)
	token, _ := f.user(1)
	f.remembers(token)
	f.server.Do("FLUSHALL")
	until(t, "the flush is heard of", func() bool { return f.b.resolve(token).User == nil })
	f.b.me(token).want(t, 401, "auth.required")
}

// A3, A4, F68: while Redis is away nobody is signed out and public pages go on. A ban holds all the same.
func TestRedisAway(t *testing.T) {
	f := newFleet(t)
	banned, user := f.user(1)
	other, _ := f.user(2)
	f.remembers(banned)
	f.remembers(other)
	f.server.Kill()
	until(t, "the loss is noticed", func() bool { return f.b.resolve(other).Unknown })
	f.b.me(other).want(t, 503, "auth.unknown")
	f.b.me("").want(t, 401, "auth.required") // nothing to ask
	f.b.do("GET", "/users/"+user.String(), "", "Authorization", other).want(t, 200, "")
	if err := f.a.Ban(t.Context(), user); !errors.Is(err, identity.ErrUnknown) {
		t.Error("whoever bans must hear that sessions are left:", err)
	}

	f.server.Restart()
	until(t, "the session is there again", func() bool {
		a := f.b.me(other)
		if a.status != http.StatusOK {
			a.want(t, 503, "auth.unknown")
		}
		return a.status == http.StatusOK
	})
	for _, i := range []*instance{f.a, f.b} {
		until(t, "the ban holds", func() bool {
			a := i.me(banned)
			if a.status != http.StatusUnauthorized {
				a.want(t, 503, "auth.unknown")
			}
			return a.status == http.StatusUnauthorized
		})
	}
	f.remembers(other)
	token, user := f.user(3)
	f.remembers(token)
	ok(t, f.a.Ban(t.Context(), user))
	until(t, "changes are heard of again", func() bool { return f.b.resolve(token).User == nil })
}
