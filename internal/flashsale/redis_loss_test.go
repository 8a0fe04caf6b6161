package flashsale_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/order"
)

// sellThree leaves one order written, one queued, and one whose message is lost.
func sellThree(t *testing.T, p *process) map[id.ID]id.ID {
	t.Helper()
	sold := p.buy(t, 1, 1)
	p.drain(t)
	for user, orderID := range p.buy(t, 2, 1) {
		sold[user] = orderID
	}
	p.broker.OnPublish(func(func() error) error { return errors.New("connection lost") })
	for user, orderID := range p.buy(t, 3, 1) {
		sold[user] = orderID
	}
	p.broker.OnPublish(nil)
	return sold
}

// F05, F12, F28, F61: an operator's hand in one of the keys, or the loss of one. The gate is loaded anew by whoever asks
// next, and still knows what was never handed over; nobody gets a unit that isn't there.
func TestDamagedGateIsLoadedAnew(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	p := w.process(t, newLink(server.addr).option())
	for name, hand := range map[string]struct {
		words    []string
		forgets  bool // the records of orders are gone
		harmless bool // seen by nobody but who looks for orders
	}{
		"no meta":           {words: []string{"DEL", "meta"}},
		"no stock":          {words: []string{"DEL", "stock"}},
		"no buyers":         {words: []string{"DEL", "buyers"}},
		"no orders":         {words: []string{"DEL", "orders"}, forgets: true},
		"no requests":       {words: []string{"DEL", "requests"}},
		"no pending":        {words: []string{"DEL", "pending"}},
		"no ended":          {words: []string{"DEL", "ended"}},
		"stock 9999":        {words: []string{"SET", "stock", "9999"}},
		"stock of words":    {words: []string{"SET", "stock", "many"}},
		"one order less":    {words: []string{"HDEL", "orders"}},
		"no units":          {words: []string{"HDEL", "meta", "units"}},
		"no limit":          {words: []string{"HDEL", "meta", "limit"}},
		"meta is a string":  {words: []string{"SET", "meta", "x"}},
		"stock is a list":   {words: []string{"RPUSH", "stock", "x"}},
		"buyers a string":   {words: []string{"SET", "buyers", "x"}},
		"orders a string":   {words: []string{"SET", "orders", "x"}, forgets: true},
		"requests a string": {words: []string{"SET", "requests", "x"}},
		"pending a string":  {words: []string{"SET", "pending", "x"}},
		"ended a string":    {words: []string{"SET", "ended", "x"}},
		"not on the list":   {words: []string{"SREM", "sales:loaded"}, harmless: true},
		"no list":           {words: []string{"SET", "sales:loaded", "x"}, harmless: true},
	} {
		t.Run(name, func(t *testing.T) {
			saleID := p.open(t, 5, 1)
			sold := sellThree(t, p)
			loads, words := p.loads(t, ""), append([]string(nil), hand.words...)
			switch {
			case words[1] == "sales:loaded" && words[0] == "SREM":
				words = append(words, saleID.String())
			case words[1] == "sales:loaded":
			default:
				words[1] = "{sale:" + saleID.String() + "}:" + words[1]
			}
			if len(words) == 2 && words[0] == "HDEL" {
				words = append(words, sold[1].String())
			}
			if words[0] == "RPUSH" {
				server.do(t, "DEL", words[1])
			}
			server.do(t, words...)

			p.known(t, sold)
			if _, err := p.orders.Find(t.Context(), 1, 12345); !errors.Is(err, order.ErrUnknown) {
				t.Fatal("S7: while the gate can't be trusted nobody knows what was admitted:", err)
			}
			more := p.buy(t, 4, 1)
			if n := p.loads(t, "") - loads; !hand.harmless && n != 1 {
				t.Fatalf("loaded %d times", n)
			}
			if !hand.forgets { // what is on its way is not for sale again
				more[5] = p.buy(t, 5, 1)[5]
				if _, err := p.Grab(t.Context(), 6, p.sale, key(6)); !errors.Is(err, flashsale.ErrSoldOut) {
					t.Fatal(err)
				}
			}
			if hand.forgets {
				delete(sold, 3) // its record was the only one
			}
			p.settle(t)
			p.atRest(t, sold, more)
		})
	}
}

// F60, L-R2: the server loses a second's work to an older append-only file, as after a power cut, and starts again.
func TestServerComesBackWithOlderData(t *testing.T) {
	server := privateRedis(t, "redis")
	l := newLink(server.addr)
	w := newTown(t)
	p := w.process(t, l.option())
	p.open(t, 20, 1)
	sold := sellThree(t, p)
	older, folder := filepath.Join(t.TempDir(), "appendonlydir"), filepath.Join(server.dir, "redis", "appendonlydir")
	if err := os.CopyFS(older, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	tail := p.buy(t, 4, 5)
	p.drain(t)
	queued := p.buy(t, 9, 5)
	server.up(t, "kill", "redis")
	if err := errors.Join(os.RemoveAll(folder), os.CopyFS(folder, os.DirFS(older))); err != nil {
		t.Fatal(err)
	}
	server.up(t, "restart", "redis")
	server.connect(t)
	if held, err := server.do(t, "HLEN", "{sale:"+p.sale.String()+"}:orders").ToInt64(); err != nil || held != 3 {
		t.Fatal("the older data is not there", held, err)
	}
	goesOn(t, p, flashsale.CauseForeign, sold, tail, queued)
}

// F60, L-R3: a replica that has fallen behind takes over while the sale goes on.
func TestStaleReplicaTakesOver(t *testing.T) {
	server := privateRedis(t, "redis")
	l := newLink(server.addr)
	w := newTown(t)
	p := w.process(t, l.option())
	p.open(t, 20, 1)
	server.do(t, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	replica := privateRedis(t, "replica")
	sold := sellThree(t, p)
	server.do(t, "WAIT", "1", "10000")
	replica.do(t, "REPLICAOF", "NO", "ONE")
	t.Cleanup(func() { server.up(t, "kill", "replica") })
	tail := p.buy(t, 4, 5)
	p.drain(t)
	queued := p.buy(t, 9, 5)
	if held, err := replica.do(t, "HLEN", "{sale:"+p.sale.String()+"}:orders").ToInt64(); err != nil || held != 3 {
		t.Fatal("the older data is not there", held, err)
	}
	l.turn(replica.addr)
	late := goesOn(t, p, flashsale.CauseForeign, sold, tail, queued)

	// Back to the first, which has its own gate still, as it was when it was left. It has missed an epoch.
	l.turn(server.addr)
	goesOn(t, p, flashsale.CauseForeign, sold, tail, queued, late)
}

// goesOn checks that a sale of 20 units is sold to the last piece after its gate went back in time, and that everybody
// who was accepted before has an end that he can look up. It returns who was accepted after.
func goesOn(t *testing.T, p *process, cause flashsale.Cause, accepted ...map[id.ID]id.ID) (late map[id.ID]id.ID) {
	t.Helper()
	loads := p.loads(t, cause)
	for _, bought := range accepted {
		p.known(t, bought)
	}
	var after sync.Map
	var wg sync.WaitGroup
	for u := range 40 {
		wg.Go(func() {
			user := id.ID(1000*(loads+1) + u)
			orderID, err := p.Grab(t.Context(), user, p.sale, key(user))
			if err != nil && !errors.Is(err, flashsale.ErrSoldOut) && !errors.Is(err, flashsale.ErrUnknown) && !errors.Is(err, flashsale.ErrBusy) {
				t.Error(err)
			}
			if err == nil {
				after.Store(user, orderID)
			}
		})
	}
	wg.Wait()
	for _, bought := range accepted {
		p.known(t, bought)
	}
	p.settle(t)
	if n := p.loads(t, cause) - loads; n != 1 {
		t.Fatalf("loaded %d times because it was %s", n, cause)
	}
	late = map[id.ID]id.ID{}
	after.Range(func(user, orderID any) bool { late[user.(id.ID)] = orderID.(id.ID); return true })
	all := append(slices.Clip(accepted), late)
	// Whom the new gate let in beside those it didn't know of yet is told that his order has failed.
	if live, failed := p.atRest(t, all...); live != 20 {
		t.Fatalf("I1: %d orders of 20 units, %d failed", live, failed)
	}
	for _, bought := range all {
		for user, orderID := range bought {
			if again, err := p.Grab(t.Context(), user, p.sale, key(user)); again != orderID || err != nil {
				t.Fatal("B7: the same key must give the same id", again, orderID, err)
			}
		}
	}
	return late
}
