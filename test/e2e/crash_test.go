package e2e

import (
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"testing"

	"tandian/internal/kit/store"
	"tandian/test/history"
)

// The server is killed at ten random moments of one sale and started again on the same files. The buyers ask again
// with the same key until they know. In the end every id that was told resolves to an order, and no unit is lost or
// sold twice (F03, F10, F21–F24, F82, D01; I1, I2, I4, I6, I7).
func TestTenKillsInOneSale(t *testing.T) {
	killSale(t, 10, binary(t, ""))
}

// The same while the writer refuses some orders, so that tombstones are written and units return between the kills.
func TestKillsWhileUnitsReturn(t *testing.T) {
	killSale(t, 5, binary(t, "fault"), "FAILPOINT=fail_some")
}

func killSale(t *testing.T, kills int, path string, env ...string) {
	const users, stock = 600, 400
	failing := len(env) > 0
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	var running atomic.Pointer[server]
	launch := func() *server {
		s := startWith(t, env, path, dir, "--demo")
		running.Store(s)
		return s
	}
	s := launch()
	c := gather(t, s, s.newSale(t, s.signIn(t, operatorPhone), stock, 1), users)
	waitForJournal(t, dir, users+1)
	r := c.rush(running.Load)
	for range kills {
		r.pass(1 + random.IntN(users/kills-5)) // let some more buyers through
		s.kill(t)
		s = launch()
	}
	r.wait()
	for _, op := range c.Ops() {
		if op.Outcome == history.Fail && op.Final() && op.Code != "sale.sold_out" {
			t.Errorf("%s was refused with %s", op.RequestID, op.Code)
		}
	}
	told, owners := c.Told(), c.owners()
	each(len(told), func(i int) { c.ask(s, owners[told[i].User]) }) // whose key still means his order

	db := openSQLite(t, dir)
	c.mustHold(db, afterAnInstance, s)
	state := s.inspect(t, s.operator(), c.sale)
	if state.Released != stock || int64(len(told)) != state.DB.Live+state.DB.Failed || failing != (state.DB.Failed > 0) || !failing && state.DB.Stock != 0 {
		t.Fatalf("%d ids told; %+v", len(told), state)
	}
	if err := s.stop(t); err != nil {
		t.Fatalf("ended with %v\n%s", err, s.log)
	}
}

// openSQLite opens a server's database beside it.
func openSQLite(t *testing.T, dir string) *store.DB {
	t.Helper()
	db, err := store.OpenSQLite(t.Context(), filepath.Join(dir, "tandian.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// waitForJournal waits until the sign-ins have reached the disk: in embedded mode they may lag by a moment.
func waitForJournal(t *testing.T, dir string, sessions int) {
	t.Helper()
	db := openSQLite(t, dir)
	until(t, "the sign-ins reach the disk", func() bool {
		n, err := db.Read.NewSelect().Table("kv_entry").Where("k LIKE 'login:token:%'").Count(t.Context())
		return err == nil && int(n) >= sessions
	})
}
