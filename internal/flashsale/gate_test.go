package flashsale_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/rueidis"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/order"
)

// clock is time that only the test moves.
type clock struct{ ms atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.ms.Store(time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).UnixMilli())
	return c
}
func (c *clock) Now() time.Time          { return time.UnixMilli(c.ms.Load()) }
func (c *clock) advance(d time.Duration) { c.ms.Add(d.Milliseconds()) }

// gateBundle is one gate and the clock it goes by.
type gateBundle struct {
	flashsale.Gate
	*clock
	moved func() // tells the gate that the clock was moved
}

func (g gateBundle) advance(d time.Duration) {
	g.clock.advance(d)
	g.moved()
}

func gates() map[string]func(t testing.TB) gateBundle {
	return map[string]func(t testing.TB) gateBundle{
		"memory": func(testing.TB) gateBundle {
			c := newClock()
			return gateBundle{flashsale.NewMemoryGate(c.Now), c, func() {}}
		},
		"redis": func(t testing.TB) gateBundle { return openRedisGate(t, newClock()) },
	}
}

// openRedisGate empties a database of the server at TANDIAN_REDIS_ADDR that no other package's tests use.
func openRedisGate(t testing.TB, c *clock) gateBundle {
	addr := os.Getenv("TANDIAN_REDIS_ADDR")
	if addr == "" {
		t.Skip(`no TANDIAN_REDIS_ADDR; run: eval "$(scripts/services up)"`)
	}
	o := rueidis.ClientOption{InitAddress: []string{addr}, SelectDB: 2}
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	do := func(words ...string) rueidis.RedisResult {
		return client.Do(t.Context(), client.B().Arbitrary(words...).Build())
	}
	if err := do("FLUSHDB").Error(); err != nil {
		t.Fatal(err)
	}
	g, err := flashsale.OpenRedisGate(o, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	g.Clock = c.Now
	return gateBundle{g, c, func() {
		sales, err := g.Loaded(t.Context())
		for _, s := range sales {
			err = errors.Join(err, do("HSET", "{sale:"+s.String()+"}:meta", "clock", fmt.Sprint(c.Now().UnixMilli())).Error())
		}
		if err != nil {
			t.Fatal(err)
		}
	}}
}

const saleID = id.ID(42)

// snapshot is a sale that is live for an hour.
func (g gateBundle) snapshot(stock int64, limit int) flashsale.Snapshot {
	return flashsale.Snapshot{Epoch: 1, Stock: stock, Terms: flashsale.Terms{SaleID: saleID, VoucherID: 7, Version: 1, Released: stock, BeginsAt: g.Now(), EndsAt: g.Now().Add(time.Hour),
		Limit: limit, Amount: 4750, PayWindow: 30 * time.Minute}}
}

func (g gateBundle) load(t testing.TB, s flashsale.Snapshot) {
	t.Helper()
	if ok, err := g.Load(t.Context(), s); !ok || err != nil {
		t.Fatal("load:", ok, err)
	}
}

func (g gateBundle) admit(t testing.TB, orderID, userID id.ID, key string) flashsale.Verdict {
	t.Helper()
	v, err := g.Admit(t.Context(), saleID, flashsale.Request{OrderID: orderID, UserID: userID, RequestID: key})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (g gateBundle) want(t testing.TB, stock, pending, orders int64) {
	t.Helper()
	s, err := g.Standing(t.Context(), saleID)
	if err != nil || s.Stock != stock || s.Pending != pending || s.Orders != orders {
		t.Fatalf("stock %d, pending %d, orders %d (%v); want %d, %d, %d", s.Stock, s.Pending, s.Orders, err, stock, pending, orders)
	}
}

// TestGateContract is the law that every Gate keeps.
func TestGateContract(t *testing.T) {
	for name, open := range gates() {
		t.Run(name, func(t *testing.T) { gateContract(t, open) })
	}
}

func gateContract(t *testing.T, open func(t testing.TB) gateBundle) {
	t.Run("S3 each result is told apart", func(t *testing.T) {
		g := open(t)
		if v := g.admit(t, 1, 1, "a"); v.Result != flashsale.NotLoaded {
			t.Fatal(v)
		}
		s := g.snapshot(1, 1)
		s.BeginsAt = g.Now().Add(time.Minute)
		g.load(t, s)
		check := func(want flashsale.Result, orderID, user id.ID, key string) flashsale.Verdict {
			t.Helper()
			v := g.admit(t, orderID, user, key)
			if v.Result != want {
				t.Fatalf("result %d, want %d", v.Result, want)
			}
			return v
		}
		check(flashsale.NotStarted, 1, 1, "a")
		g.advance(time.Minute)
		v := check(flashsale.Admitted, 2, 1, "a")
		want := order.Reservation{OrderID: 2, SaleID: saleID, VoucherID: 7, UserID: 1, Slot: 0, Amount: 4750, RequestID: "a",
			AdmittedAt: g.Now().UnixMilli(), PayBefore: g.Now().Add(30 * time.Minute).UnixMilli()}
		if diff := cmp.Diff(want, v.Reservation); diff != "" {
			t.Fatal(diff)
		}
		if v := check(flashsale.Repeat, 3, 1, "a"); v.OrderID != 2 {
			t.Fatal("a repeat must name the earlier id", v)
		}
		if v := check(flashsale.LimitReached, 4, 1, "b"); !slices.Equal(v.Orders, []id.ID{2}) {
			t.Fatal("the limit must name what holds it", v)
		}
		check(flashsale.SoldOut, 5, 2, "a")
		for request, want := range map[string]id.ID{"a": 2, "b": 0} {
			if got, err := g.Answer(t.Context(), saleID, 1, request); got != want || err != nil {
				t.Fatal(request, got, err)
			}
		}
		s.Paused, s.Version = true, 2
		if err := g.Change(t.Context(), s.Terms); err != nil {
			t.Fatal(err)
		}
		check(flashsale.Paused, 6, 3, "a")
		g.advance(time.Hour)
		check(flashsale.Ended, 7, 3, "a")
		check(flashsale.Repeat, 8, 1, "a") // whatever the window: a lost answer can be asked again
		g.want(t, 0, 1, 1)
	})
	t.Run("F04 the window is [begin, end)", func(t *testing.T) {
		g := open(t)
		s := g.snapshot(10, 1)
		s.BeginsAt, s.EndsAt = g.Now().Add(time.Second), g.Now().Add(2*time.Second)
		g.load(t, s)
		for i, step := range []struct {
			after time.Duration
			want  flashsale.Result
		}{{999 * time.Millisecond, flashsale.NotStarted}, {time.Millisecond, flashsale.Admitted}, {999 * time.Millisecond, flashsale.Admitted}, {time.Millisecond, flashsale.Ended}} {
			g.advance(step.after)
			if v := g.admit(t, id.ID(i+1), id.ID(i+1), "key"); v.Result != step.want {
				t.Fatalf("step %d: %d, want %d", i, v.Result, step.want)
			}
		}
	})
	t.Run("idempotent by order id", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(5, 2))
		g.admit(t, 1, 1, "a")
		if v := g.admit(t, 1, 1, "a"); v.Result != flashsale.Repeat || v.OrderID != 1 {
			t.Fatal(v)
		}
		g.want(t, 4, 1, 1)
	})
	t.Run("D04 a thousand rivals never oversell", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(100, 1))
		var admitted, soldOut atomic.Int64
		var wg sync.WaitGroup
		for u := range 1000 {
			wg.Go(func() {
				switch g.admit(t, id.ID(u+1), id.ID(u+1), "k").Result {
				case flashsale.Admitted:
					admitted.Add(1)
				case flashsale.SoldOut:
					soldOut.Add(1)
				}
			})
		}
		wg.Wait()
		if admitted.Load() != 100 || soldOut.Load() != 900 {
			t.Fatal(admitted.Load(), soldOut.Load())
		}
		g.want(t, 0, 100, 100)
	})
	t.Run("D03 one buyer's storm takes his limit and no more", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(100, 3))
		slots := make(chan int, 500)
		var wg sync.WaitGroup
		for i := range 500 {
			wg.Go(func() {
				if v := g.admit(t, id.ID(i+1), 9, fmt.Sprint("k", i)); v.Result == flashsale.Admitted {
					slots <- v.Reservation.Slot
				}
			})
		}
		wg.Wait()
		close(slots)
		var got []int
		for s := range slots {
			got = append(got, s)
		}
		slices.Sort(got)
		if !slices.Equal(got, []int{0, 1, 2}) {
			t.Fatal("slots", got)
		}
		g.want(t, 97, 3, 3)
	})
	t.Run("B7 the same request a hundred times at once is one order", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(100, 5))
		ids := sync.Map{}
		var wg sync.WaitGroup
		for i := range 100 {
			wg.Go(func() { ids.Store(g.admit(t, id.ID(i+1), 9, "same").OrderID, true) })
		}
		wg.Wait()
		n := 0
		ids.Range(func(any, any) bool { n++; return true })
		if n != 1 {
			t.Fatalf("%d different order ids", n)
		}
		g.want(t, 99, 1, 1)
	})
	t.Run("release gives back once, and only what is held", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(1, 1))
		g.admit(t, 1, 1, "a")
		for range 3 {
			if err := g.Release(t.Context(), saleID, 1, true); err != nil {
				t.Fatal(err)
			}
			if err := g.Release(t.Context(), saleID, 999, true); err != nil {
				t.Fatal(err)
			}
		}
		g.want(t, 1, 0, 0)
		if v := g.admit(t, 2, 1, "a"); v.Result != flashsale.Admitted || v.OrderID != 2 {
			t.Fatal("a forgotten request id may try again", v)
		}
		if err := g.Release(t.Context(), saleID, 2, false); err != nil {
			t.Fatal(err)
		}
		if v := g.admit(t, 3, 1, "a"); v.Result != flashsale.Repeat || v.OrderID != 2 {
			t.Fatal("a kept request id names its closed order", v)
		}
		if v := g.admit(t, 4, 1, "b"); v.Result != flashsale.Admitted {
			t.Fatal("a closed buyer may buy again", v)
		}
	})
	t.Run("settle adopts what it doesn't know, once", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(1, 1))
		rs := []order.Reservation{{OrderID: 1, SaleID: saleID, UserID: 1, RequestID: "a", AdmittedAt: 1, PayBefore: 2}, {OrderID: 2, SaleID: saleID, UserID: 2, RequestID: "a", AdmittedAt: 1, PayBefore: 2}}
		for range 2 {
			if err := g.Settle(t.Context(), saleID, rs); err != nil {
				t.Fatal(err)
			}
		}
		g.want(t, -1, 0, 2) // below zero while in-flight units are adopted
		if v := g.admit(t, 3, 1, "a"); v.Result != flashsale.Repeat || v.OrderID != 1 {
			t.Fatal(v)
		}
		if v := g.admit(t, 4, 3, "a"); v.Result != flashsale.SoldOut {
			t.Fatal(v)
		}
	})
	t.Run("an unloaded sale is told", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(1, 1))
		if err := g.Unload(t.Context(), saleID); err != nil {
			t.Fatal(err)
		}
		for name, err := range map[string]error{
			"settle":  g.Settle(t.Context(), saleID, []order.Reservation{{OrderID: 1, SaleID: saleID, UserID: 1}}),
			"release": g.Release(t.Context(), saleID, 1, true),
			"change":  g.Change(t.Context(), flashsale.Terms{SaleID: saleID}),
		} {
			if err != flashsale.ErrNotLoaded {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, ok := g.Peek(saleID, 1); ok {
			t.Error("peek can't know")
		}
		if s, err := g.Standing(t.Context(), saleID); s.Loaded || err != nil {
			t.Error(s, err)
		}
	})
	t.Run("F62 F63 a live gate is never overwritten", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(10, 1))
		g.admit(t, 1, 1, "a")
		s := g.snapshot(4, 1)
		for s.Epoch = range int64(3) {
			if ok, err := g.Load(t.Context(), s); ok || err != nil {
				t.Fatal(s.Epoch, ok, err)
			}
		}
		g.want(t, 9, 1, 1)
		s.Epoch = 3 // there was a load in between: what is here had been lost
		g.load(t, s)
		g.want(t, 4, 0, 0)
	})
	t.Run("a load knows holders, answered requests and what is in flight", func(t *testing.T) {
		g := open(t)
		s := g.snapshot(5, 1)
		res := func(orderID, user id.ID, key string) order.Reservation {
			return order.Reservation{OrderID: orderID, SaleID: saleID, VoucherID: 7, UserID: user, RequestID: key, AdmittedAt: 1, PayBefore: 2}
		}
		s.Live = []order.Reservation{res(1, 1, "a")}
		s.Answered = []order.Reservation{res(2, 2, "a")}
		s.InFlight = []order.Reservation{res(3, 3, "a"), res(3, 3, "a"), res(1, 1, "a")}
		g.load(t, s)
		g.want(t, 4, 1, 2)
		for user, earlier := range map[id.ID]id.ID{1: 1, 2: 2, 3: 3} {
			if v := g.admit(t, 100+user, user, "a"); v.Result != flashsale.Repeat || v.OrderID != earlier {
				t.Errorf("user %d: %+v", user, v)
			}
		}
		if v := g.admit(t, 200, 2, "b"); v.Result != flashsale.Admitted {
			t.Error("an answered request holds no slot", v)
		}
		if v := g.admit(t, 201, 3, "b"); v.Result != flashsale.LimitReached {
			t.Error("what is in flight holds its slot", v)
		}
	})
	t.Run("F64 F65 only newer terms count, however often they are told", func(t *testing.T) {
		g := open(t)
		s := g.snapshot(10, 1)
		g.load(t, s)
		g.admit(t, 1, 1, "a")
		tell := func(version, released int64, paused bool) {
			t.Helper()
			terms := s.Terms
			terms.Version, terms.Released, terms.Paused = version, released, paused
			if err := g.Change(t.Context(), terms); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			tell(3, 15, false)
		}
		tell(2, 100, true) // told late
		g.want(t, 14, 1, 1)
		if v := g.admit(t, 2, 2, "a"); v.Result != flashsale.Admitted {
			t.Fatal("the older terms must not count", v)
		}
		tell(4, 12, false)
		g.want(t, 10, 2, 2)
	})
	t.Run("what is withdrawn is what is left", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(3, 1))
		g.admit(t, 1, 1, "a")
		for _, step := range []struct {
			n    int64
			ok   bool
			left int64
		}{{3, false, 2}, {2, true, 0}, {1, false, 0}, {-1, true, 1}, {-5, true, 2}, {-1, true, 2}} {
			if ok, err := g.Withdraw(t.Context(), saleID, step.n); ok != step.ok || err != nil {
				t.Fatal(step, ok, err)
			}
			g.want(t, step.left, 1, 1)
		}
	})
	t.Run("an end that is told before its beginning counts", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(5, 1))
		r := g.admit(t, 1, 1, "a").Reservation
		late := order.Reservation{OrderID: 9, SaleID: saleID, VoucherID: 7, UserID: 9, RequestID: "z", AdmittedAt: 1, PayBefore: 2}
		for _, orderID := range []id.ID{1, 9} { // 9 was in flight while the gate was loaded
			if err := g.Release(t.Context(), saleID, orderID, false); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Settle(t.Context(), saleID, []order.Reservation{r, late}); err != nil {
			t.Fatal(err)
		}
		g.want(t, 5, 0, 0)
	})
	t.Run("find, waiting and pending see what has no row yet", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(10, 3))
		first := g.admit(t, 1, 1, "a").Reservation
		g.advance(time.Second)
		second := g.admit(t, 2, 1, "b").Reservation
		if err := g.Settle(t.Context(), saleID, []order.Reservation{second}); err != nil {
			t.Fatal(err)
		}
		if r, pending, err := g.Find(t.Context(), 1); err != nil || !pending || cmp.Diff(&first, r) != "" {
			t.Fatal(r, pending, err)
		}
		if r, pending, err := g.Find(t.Context(), 2); err != nil || pending || r == nil {
			t.Fatal(r, pending, err)
		}
		if r, _, err := g.Find(t.Context(), 3); r != nil || err != nil {
			t.Fatal(r, err)
		}
		for name, got := range map[string]func() ([]order.Reservation, error){
			"waiting": func() ([]order.Reservation, error) { return g.Waiting(t.Context(), 1) },
			"of sale": func() ([]order.Reservation, error) { return g.Waiting(t.Context(), 1, 41, saleID) },
			"pending": func() ([]order.Reservation, error) { return g.Pending(t.Context(), saleID, g.Now(), 10) },
		} {
			if rs, err := got(); err != nil || cmp.Diff([]order.Reservation{first}, rs) != "" {
				t.Error(name, rs, err)
			}
		}
		if rs, err := g.Pending(t.Context(), saleID, g.Now().Add(-time.Hour), 10); len(rs) != 0 || err != nil {
			t.Error("nothing is that old", rs, err)
		}
		if rs, err := g.Waiting(t.Context(), 1, 41); len(rs) != 0 || err != nil {
			t.Error("nothing waits in another sale", rs, err)
		}
		if st, err := g.Standings(t.Context(), []id.ID{41, saleID}); err != nil || st[0].Loaded || st[0].Cause != flashsale.CauseAbsent || !st[1].Loaded || st[1].Pending != 1 {
			t.Error(st, err)
		}
	})
	t.Run("S11 peek never refuses who may hold something", func(t *testing.T) {
		g := open(t)
		g.load(t, g.snapshot(1, 1))
		g.advance(time.Minute)
		if _, ok := g.Peek(saleID, 1); ok {
			t.Fatal("a unit is left: the gate must be asked")
		}
		g.admit(t, 1, 1, "a")
		// Whoever is refused for the sale's sake teaches this process.
		eventually(t, "a stranger needs no gate to hear that all is gone", func() bool {
			g.admit(t, 2, 2, "a")
			v, ok := g.Peek(saleID, 3)
			return ok && v.Result == flashsale.SoldOut
		})
		if _, ok := g.Peek(saleID, 1); ok {
			t.Fatal("the buyer must reach the gate")
		}
		if err := g.Release(t.Context(), saleID, 1, false); err != nil {
			t.Fatal(err)
		}
		eventually(t, "a unit has come back", func() bool { _, ok := g.Peek(saleID, 3); return !ok })
		if v := g.admit(t, 4, 3, "a"); v.Result != flashsale.Admitted {
			t.Fatal(v)
		}
		eventually(t, "sold out again", func() bool {
			g.admit(t, 5, 2, "a")
			_, ok := g.Peek(saleID, 4)
			return ok
		})
		if _, ok := g.Peek(saleID, 1); ok {
			t.Fatal("whose request was answered must reach the gate, also when his order is closed")
		}
	})
}

func BenchmarkMemoryGateAdmit(b *testing.B) {
	g := gates()["memory"](b)
	g.load(b, g.snapshot(1<<40, 1))
	var n atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			u := id.ID(n.Add(1))
			g.admit(b, u, u, "bench-key-0123456789")
		}
	})
}
