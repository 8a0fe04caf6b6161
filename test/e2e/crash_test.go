package e2e

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"tandian/internal/kit/store"
)

// attempt is one buyer's story: the id he was told, if any, and every answer that he got.
type attempt struct {
	token, key string
	told       string
	refused    string // the code of a definite refusal
}

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
	launch := func() *server { return startWith(t, env, path, dir, "--demo") }
	s := launch()
	operator := s.signIn(t, operatorPhone)
	saleID := s.newSale(t, operator, stock, 1)
	tokens := s.testUsers(t, users)
	waitForJournal(t, dir, users+1)

	var mu sync.RWMutex // guards s: held for reading by a buyer's request, for writing by the killer
	attempts := make([]*attempt, users)
	work := make(chan *attempt, users)
	for i := range attempts {
		attempts[i] = &attempt{token: tokens[i], key: fmt.Sprintf("crash-%08d", i)}
		work <- attempts[i]
	}
	close(work)
	settled := make(chan struct{}, users)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for a := range work {
				for a.told == "" && a.refused == "" {
					mu.RLock()
					a.ask(s, saleID)
					mu.RUnlock()
				}
				settled <- struct{}{}
			}
		})
	}
	for range kills {
		for range 1 + random.IntN(users/kills-5) { // let some more buyers through
			<-settled
		}
		s.kill(t) // requests are under way: RLock is held by them, and they fail
		mu.Lock() // all of them have failed by now
		s = launch()
		mu.Unlock()
	}
	wg.Wait()

	operator = s.signIn(t, operatorPhone)
	var state inspection
	until(t, "the sale comes to rest", func() bool { state = s.inspect(t, operator, saleID); return state.AtRest })
	told := map[string]bool{}
	for _, a := range attempts {
		if a.told == "" {
			if a.refused != "sale.sold_out" {
				t.Errorf("%s was refused with %s", a.key, a.refused)
			}
			continue
		}
		if told[a.told] {
			t.Errorf("order %s was told twice", a.told)
		}
		told[a.told] = true
		got := s.do(t, "GET", "/api/v1/orders/"+a.told, a.token, "")
		ended := got.Body["status"] == "unpaid" || failing && got.Body["status"] == "failed" && got.Body["reason"] == "sold_out"
		if got.Status != 200 || got.Body["id"] != a.told || !ended {
			t.Errorf("LOST: %s was told %s, which is now %d %s", a.key, a.told, got.Status, got.Text)
		}
		again := s.do(t, "POST", "/api/v1/sales/"+saleID+"/orders", a.token, "", "Idempotency-Key", a.key)
		if again.Body["orderId"] != a.told {
			t.Errorf("the same key now gives %s, was %s", again.Text, a.told)
		}
	}
	if state.Gate.Stock != state.DB.Stock || state.DB.Stock+state.DB.Live != stock || state.DB.OverLimit != 0 || state.Released != stock ||
		int64(len(told)) != state.DB.Live+state.DB.Failed || failing != (state.DB.Failed > 0) || !failing && state.DB.Stock != 0 {
		t.Fatalf("%d ids told; %+v", len(told), state)
	}
	if err := s.stop(t); err != nil {
		t.Fatalf("ended with %v\n%s", err, s.log)
	}
}

// ask makes one attempt and notes a definite answer.
func (a *attempt) ask(s *server, saleID string) {
	got, err := s.try("POST", "/api/v1/sales/"+saleID+"/orders", a.token, "", "Idempotency-Key", a.key)
	switch {
	case err != nil: // the server is gone: unknown
		time.Sleep(time.Millisecond)
	case got.Status == 202:
		a.told = got.Body["orderId"].(string)
	case got.Status == 503: // busy or unknown: ask again with the same key
	default:
		a.refused = fmt.Sprint(got.Body["code"])
	}
}

// waitForJournal waits until the sign-ins have reached the disk: in embedded mode they may lag by a moment.
func waitForJournal(t *testing.T, dir string, sessions int) {
	t.Helper()
	db, err := store.OpenSQLite(t.Context(), filepath.Join(dir, "tandian.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	until(t, "the sign-ins reach the disk", func() bool {
		n, err := db.Read.NewSelect().Table("kv_entry").Where("k LIKE 'login:token:%'").Count(t.Context())
		return err == nil && int(n) >= sessions
	})
}
