package demo_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tandian/internal/account"
	"tandian/internal/demo"
	"tandian/internal/kit/id"
	"tandian/internal/kit/kv"
	"tandian/internal/kit/store"
	"tandian/internal/schema"
	"tandian/internal/shop"
	"tandian/internal/voucher"
)

// world is a database, a clock that the test moves, and the town on them.
type world struct {
	*demo.Town
	db  *store.DB
	mu  sync.Mutex
	now time.Time // guarded by mu
	err error     // what NewSale answers; guarded by mu
}

func newWorld(t testing.TB) *world {
	t.Helper()
	db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "demo.db"))
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	_, err = schema.Up(t.Context(), schema.SQLite, db.Write.DB)
	must(t, err)
	w := &world{db: db, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	accounts := account.New(account.Options{DB: db, KV: kv.NewMemory(w.clock), Now: w.clock, Log: slog.New(slog.DiscardHandler)})
	w.Town = demo.New(demo.Options{DB: db, Accounts: accounts, Now: w.clock, NewSale: w.newSale})
	return w
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) failNewSale(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// newSale is what package flashsale does to SQL.
func (w *world) newSale(ctx context.Context, voucherID id.ID, stock int64, beginsAt, endsAt time.Time, limit int) (id.ID, error) {
	w.mu.Lock()
	err, now := w.err, store.Millis(w.now)
	w.mu.Unlock()
	if err != nil {
		return 0, err
	}
	row := &voucher.FlashSale{VoucherID: voucherID, Stock: stock, BeginsAt: store.Millis(beginsAt), EndsAt: store.Millis(endsAt), LimitPerUser: limit, CreatedAt: now, UpdatedAt: now}
	return row.ID, voucher.InsertSale(ctx, w.db, w.db.Write, row)
}

// phases counts the sales by phase; endingSoon are live ones that end within ten minutes, startingSoon those that
// begin within a minute.
func (w *world) phases(t testing.TB) (n map[voucher.Phase]int, endingSoon, startingSoon, all int) {
	t.Helper()
	rows, err := voucher.FindOffers(t.Context(), w.db.Read, "1 = 1", nil, "ends_at", false, 0, 0, 100_000)
	must(t, err)
	now := w.clock()
	n = map[voucher.Phase]int{}
	for _, r := range rows {
		phase := r.Phase(now)
		n[phase]++
		if phase == voucher.Live && store.Time(r.EndsAt).Sub(now) <= 10*time.Minute {
			endingSoon++
		}
		if phase == voucher.Scheduled && store.Time(r.BeginsAt).Sub(now) <= time.Minute {
			startingSoon++
		}
	}
	return n, endingSoon, startingSoon, len(rows)
}

func (w *world) dump(t testing.TB) string {
	t.Helper()
	var b strings.Builder
	for _, table := range []string{"users", "category", "shop", "shop_staff", "voucher", "sale"} {
		var rows []map[string]any
		must(t, w.db.Read.NewRaw("SELECT * FROM "+table+" ORDER BY 1, 2").Scan(t.Context(), &rows))
		fmt.Fprintln(&b, table, len(rows), rows)
	}
	return b.String()
}

func (w *world) shops(t testing.TB) []*shop.Shop {
	t.Helper()
	var list []*shop.Shop
	must(t, w.db.Read.NewSelect().Model(&list).Order("id").Scan(t.Context()))
	return list
}

func TestSeedTwiceIsStable(t *testing.T) {
	w := newWorld(t)
	must(t, w.Seed(t.Context()))
	before := w.dump(t)
	must(t, w.Seed(t.Context()))
	if after := w.dump(t); after != before {
		t.Fatalf("before %s\nafter %s", before, after)
	}
}

func TestTownIsComplete(t *testing.T) {
	w := newWorld(t)
	must(t, w.Seed(t.Context()))
	shops := w.shops(t)
	if len(shops) < 34 {
		t.Errorf("%d shops", len(shops))
	}
	perCategory, names := map[id.ID]int{}, map[string]bool{}
	for i, s := range shops {
		perCategory[s.CategoryID]++
		if s.ID != id.ID(i+1) || names[s.Name] || s.Score < 10 || s.Score > 50 || s.AvgPrice <= 0 || s.OpenHours == "" || s.Area == "" || !strings.HasPrefix(s.Address, "青梧市") {
			t.Errorf("%+v", s)
		}
		names[s.Name] = true
		if d := shop.Metres(s.Location, shop.Location{Lng: 120.15, Lat: 30.28}); d > 8000 {
			t.Errorf("%s is %.0f m away", s.Name, d)
		}
	}
	if len(perCategory) != 10 {
		t.Error(perCategory)
	}
	var vouchers []*voucher.Voucher
	must(t, w.db.Read.NewSelect().Model(&vouchers).Scan(t.Context()))
	plain := map[id.ID]int{}
	for _, v := range vouchers {
		if v.PayValue >= v.FaceValue || v.FaceValue > voucher.MaxPrice || v.Title == "" || v.ValidDays != 30 {
			t.Errorf("%+v", v)
		}
		if v.Status == voucher.OnSale {
			plain[v.ShopID]++
		}
	}
	for _, s := range shops {
		if plain[s.ID] < 2 {
			t.Errorf("%s has %d vouchers on sale", s.Name, plain[s.ID])
		}
	}
}

func TestAccountsAndTheirShops(t *testing.T) {
	w := newWorld(t)
	must(t, w.Seed(t.Context()))
	directory := shop.New(shop.Options{DB: w.db, Now: w.clock, Log: slog.New(slog.DiscardHandler)})
	want := map[string][]id.ID{"operator": {}, "merchant": {1, 2, 3, 4, 5}, "clerk": {1}, "shopper": {}}
	if len(demo.Accounts()) != len(want) {
		t.Error(demo.Accounts())
	}
	for i, a := range demo.Accounts() {
		var user struct {
			ID    id.ID
			Roles string
			Hash  string `bun:"password_hash"`
		}
		must(t, w.db.Read.NewRaw(`SELECT id, roles, COALESCE(password_hash, '') AS password_hash FROM users WHERE phone = ?`, a.Phone).Scan(t.Context(), &user))
		if a.Phone != fmt.Sprintf("1380000000%d", i+1) || a.Password != "tandian-demo" || user.Hash == "" || !strings.Contains(user.Roles, string(a.Role)) {
			t.Errorf("%+v %+v", a, user)
		}
		if ids, err := directory.ShopsOf(t.Context(), user.ID); err != nil || !slices.Equal(ids, want[string(a.Role)]) {
			t.Errorf("%s: %v, %v", a.Role, ids, err)
		}
	}
}

func TestFirstStartHasSalesOfEveryKind(t *testing.T) {
	w := newWorld(t)
	must(t, w.Seed(t.Context()))
	n, ending, starting, _ := w.phases(t)
	if n[voucher.Live] < 3 || n[voucher.Scheduled] < 3 || n[voucher.Ended] < 2 || ending < 1 || starting < 1 {
		t.Fatal(n, ending, starting)
	}
	w.pass(time.Minute)
	if n, _, _, _ := w.phases(t); n[voucher.Live] < 4 {
		t.Fatal("a sale that starts in a minute has not", n)
	}
}

// However the time passes, all kinds are there after KeepFresh, and a second call at once has nothing to do.
// plan_test.go drives the plan through many more histories.
func TestSalesStayFresh(t *testing.T) {
	w := newWorld(t)
	must(t, w.Seed(t.Context()))
	for _, step := range []time.Duration{10 * time.Second, time.Minute, 8 * time.Minute, 7 * time.Minute, time.Hour, time.Minute, 26 * time.Hour, 400 * time.Hour} {
		w.pass(step)
		must(t, w.KeepFresh(t.Context()))
		n, ending, starting, _ := w.phases(t)
		if n[voucher.Live] < 3 || n[voucher.Scheduled] < 3 || n[voucher.Ended] < 2 || ending < 1 || step >= time.Hour && starting < 1 {
			t.Fatal(step, n, ending, starting)
		}
		before := w.dump(t)
		must(t, w.KeepFresh(t.Context()))
		if w.dump(t) != before {
			t.Fatal("the second call changed something after", step)
		}
	}
}

func TestADayOfTicksGrowsLittle(t *testing.T) {
	w := newWorld(t)
	must(t, w.Seed(t.Context()))
	_, _, _, before := w.phases(t)
	for range 24 * 6 {
		w.pass(10 * time.Minute)
		must(t, w.KeepFresh(t.Context()))
	}
	if _, _, _, after := w.phases(t); after-before > 24*15 {
		t.Fatalf("%d new sales in a day", after-before)
	}
	var long int
	must(t, w.db.Read.NewRaw(`SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM voucher WHERE status = 1 GROUP BY shop_id)`).Scan(t.Context(), &long))
	if long > 12 {
		t.Fatalf("a shop shows %d vouchers", long)
	}
}

// A load test may buy every sale empty in seconds: there are new ones, but not without end.
func TestBoughtEmpty(t *testing.T) {
	w := newWorld(t)
	must(t, w.Seed(t.Context()))
	sellOut := func() {
		_, err := w.db.Write.ExecContext(t.Context(), `UPDATE sale SET stock = 0`)
		must(t, err)
	}
	sellOut()
	must(t, w.KeepFresh(t.Context()))
	if n, _, _, _ := w.phases(t); n[voucher.Live] < 3 {
		t.Fatal(n)
	}
	_, _, _, before := w.phases(t)
	for range 50 { // minutes
		sellOut()
		w.pass(time.Minute)
		must(t, w.KeepFresh(t.Context()))
	}
	if _, _, _, after := w.phases(t); after-before > 40 {
		t.Fatalf("%d new sales in less than an hour", after-before)
	}
}

// A gate that is away leaves one voucher behind, not one every ten seconds.
func TestGateAway(t *testing.T) {
	w := newWorld(t)
	away := errors.New("gate away")
	w.failNewSale(away)
	if err := w.Seed(t.Context()); !errors.Is(err, away) {
		t.Fatal(err)
	}
	count := func() (n int) {
		must(t, w.db.Read.NewRaw(`SELECT COUNT(*) FROM voucher`).Scan(t.Context(), &n))
		return n
	}
	before := count()
	for range 5 {
		if err := w.KeepFresh(t.Context()); !errors.Is(err, away) {
			t.Fatal(err)
		}
	}
	if after := count(); after != before {
		t.Fatalf("%d vouchers, then %d", before, after)
	}
	w.failNewSale(nil)
	must(t, w.KeepFresh(t.Context()))
	if n, _, _, _ := w.phases(t); n[voucher.Live] < 3 || n[voucher.Scheduled] < 3 {
		t.Fatal(n)
	}
	var spare int
	must(t, w.db.Read.NewRaw(`SELECT COUNT(*) FROM voucher v WHERE v.title LIKE '秒杀%' AND NOT EXISTS (SELECT 1 FROM sale s WHERE s.voucher_id = v.id)`).Scan(t.Context(), &spare))
	if spare != 0 {
		t.Fatalf("%d vouchers without a sale", spare)
	}
}

// A town beside what somebody wrote before, and two instances that seed at the same moment.
func TestSeedOnAUsedDatabaseByTwo(t *testing.T) {
	w := newWorld(t)
	must(t, shop.InsertCategories(t.Context(), w.db.Write, []*shop.Category{{ID: 7, Name: "书店", Icon: "/uploads/books.png", Sort: 1}}))
	must(t, shop.InsertShops(t.Context(), w.db.Write, &shop.Shop{ID: 3, CategoryID: 7, Name: "旧书店"}))
	results := make(chan error, 2)
	for range 2 {
		go func() { results <- w.Seed(t.Context()) }()
	}
	for range 2 {
		must(t, <-results)
	}
	shops := w.shops(t)
	if shops[0].Name != "旧书店" || shops[1].ID != 4 || shops[1].OwnerID == 0 || len(shops) != 39 {
		t.Fatal(len(shops), shops[0], shops[1])
	}
}

func BenchmarkSeed(b *testing.B) {
	b.Run("empty", func(b *testing.B) {
		for range b.N {
			b.StopTimer()
			w := newWorld(b)
			b.StartTimer()
			must(b, w.Seed(b.Context()))
		}
	})
	b.Run("seeded", func(b *testing.B) {
		w := newWorld(b)
		must(b, w.Seed(b.Context()))
		for b.Loop() {
			must(b, w.Seed(b.Context()))
		}
	})
}
