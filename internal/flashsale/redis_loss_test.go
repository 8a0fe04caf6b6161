package flashsale_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

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
		unseen   bool // not even by him
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
		"an older version":  {words: []string{"HDEL", "meta", "server"}}, // whose gates have none
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
		"one and a half":    {words: []string{"HSET", "meta", "limit", "1.5"}},
		"a stranger listed": {words: []string{"SADD", "sales:loaded", "x"}, harmless: true, unseen: true},
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
			if _, err := p.orders.Find(t.Context(), 1, 12345); !hand.unseen && !errors.Is(err, order.ErrUnknown) {
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
	caughtUp(t, server.client, replica.client)
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

// caughtUp waits until the replica has all that its primary holds now. WAIT would not do: it is about the writes of the
// client that asks.
func caughtUp(t *testing.T, primary, replica rueidis.Client) {
	t.Helper()
	offset := func(c rueidis.Client, field string) int64 {
		text, err := c.Do(t.Context(), c.B().Info().Section("replication").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(text, field+":")
		n, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
		if err != nil {
			t.Fatal(field, err)
		}
		return n
	}
	now := offset(primary, "master_repl_offset")
	eventually(t, "the replica has caught up", func() bool { return offset(replica, "slave_repl_offset") >= now })
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

// rush has n users ask at once, each at one of the processes, and returns who got an order id.
func rush(t *testing.T, first, n int, processes ...*process) map[id.ID]id.ID {
	t.Helper()
	var mu sync.Mutex
	accepted := map[id.ID]id.ID{}
	var wg sync.WaitGroup
	for u := range n {
		wg.Go(func() {
			p, user := processes[u%len(processes)], id.ID(first+u)
			orderID, err := p.Grab(t.Context(), user, p.sale, key(user))
			if err != nil {
				if !errors.Is(err, flashsale.ErrSoldOut) {
					t.Error(err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			accepted[user] = orderID
		})
	}
	wg.Wait()
	return accepted
}

// F05, F63: all keys are gone, and a hundred buyers at each of two processes find that out at once, while the database
// is slow. One load, by one of them.
func TestManyFindTheGateGone(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	one, two := w.process(t, newLink(server.addr).option()), w.process(t, newLink(server.addr).option())
	one.open(t, 30, 1)
	sold := one.buy(t, 1, 5)
	one.drain(t)
	epoch, loads := one.epoch(t), one.loads(t, "")+two.loads(t, "")
	server.do(t, "FLUSHALL")

	slow, err := w.db.Write.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback()
	if _, err := slow.Exec(`SELECT * FROM sale WHERE id = ? FOR UPDATE`, w.sale); err != nil {
		t.Fatal(err)
	}
	done := make(chan map[id.ID]id.ID)
	go func() { done <- rush(t, 100, 200, one, two) }()
	eventually(t, "both processes wait for the row", func() bool {
		var waiting int
		err := w.db.Read.NewRaw(`SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND info LIKE 'UPDATE sale SET epoch%'`).Scan(t.Context(), &waiting)
		if err != nil {
			t.Fatal(err)
		}
		return waiting == 2
	})
	if err := slow.Commit(); err != nil {
		t.Fatal(err)
	}
	late := <-done
	if n := one.loads(t, "") + two.loads(t, "") - loads; n != 1 || one.epoch(t) != epoch+1 {
		t.Fatalf("%d loads, epoch %d after %d", n, one.epoch(t), epoch)
	}
	if len(late) != 25 {
		t.Fatalf("%d accepted of 25 units", len(late))
	}
	one.settle(t)
	one.atRest(t, sold, late)
}

// eventually waits for what other processes do.
func eventually(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it didn't happen: ", what)
		}
	}
}

// F61: FLUSHALL while 500 reservations are queued. Whoever was accepted is never told that there is no such order, nobody
// is sold what isn't there, and in the end gate and SQL agree.
func TestFlushWithABacklog(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	p := w.process(t, newLink(server.addr).option())
	p.open(t, 600, 1)
	if _, err := p.orders.Find(t.Context(), 1, 12345); !errors.Is(err, order.ErrNotFound) {
		t.Fatal("a gate that has never been lost knows everything:", err)
	}
	sold := rush(t, 1, 500, p)
	server.do(t, "FLUSHALL")
	ask := func(when string, user, orderID id.ID, want error) {
		t.Helper()
		if v, err := p.orders.Find(t.Context(), user, orderID); !errors.Is(err, want) {
			t.Fatal(when, v, err)
		}
	}
	ask("nothing is loaded", 1, sold[1], order.ErrUnknown)
	p.sweep(t) // no buyer is needed
	if n := p.loads(t, flashsale.CauseAbsent); n != 2 {
		t.Fatal("loads", n)
	}
	ask("loaded, but without what is queued", 1, sold[1], order.ErrUnknown)
	w.ahead.Add(int64(61 * time.Second))
	ask("a minute later the queue still holds it", 1, sold[1], order.ErrUnknown)
	late := rush(t, 1001, 200, p)

	stop := p.write(t)
	asking, stopAsking := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for asking.Err() == nil {
			for user, orderID := range sold {
				if p.known(t, map[id.ID]id.ID{user: orderID}); asking.Err() != nil {
					return
				}
			}
		}
	})
	eventually(t, "the queue is empty", func() bool {
		d, err := p.broker.Depth(t.Context(), order.TopicCreate)
		return err == nil && d.Ready+d.Unacked == 0
	})
	stopAsking()
	wg.Wait()
	stop()
	p.settle(t)
	live, failed := p.atRest(t, sold, late)
	if live != 600 || failed != len(late)-100 {
		t.Fatalf("%d live, %d failed, %d accepted after the loss", live, failed, len(late))
	}
	w.ahead.Add(int64(61 * time.Second))
	ask("all is told again", 1, 12345, order.ErrNotFound)
}

// F62: processes that start during a sale leave its gate as it is.
func TestWarmUpDuringASale(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	p := w.process(t, newLink(server.addr).option())
	p.open(t, 300, 1)
	epoch := p.epoch(t)
	stop := p.write(t)
	started := make(chan struct{})
	go func() {
		defer close(started)
		for range 10 {
			w.process(t, newLink(server.addr).option())
		}
	}()
	sold := rush(t, 1, 600, p)
	<-started
	stop()
	if len(sold) != 300 || p.epoch(t) != epoch {
		t.Fatalf("%d sold of 300; epoch %d, was %d", len(sold), p.epoch(t), epoch)
	}
	p.settle(t)
	p.atRest(t, sold)
}

// F12, F81: of a gate that somebody is about to replace, nobody is admitted whom the new one wouldn't know.
func TestSalvagedGateAdmitsNobody(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	p := w.process(t, newLink(server.addr).option())
	p.open(t, 3, 1)
	sold := p.buy(t, 1, 1)
	remains, err := p.gate.Salvage(t.Context(), p.sale)
	if err != nil || len(remains) != 1 || remains[0].OrderID != sold[1] {
		t.Fatal(remains, err)
	}
	late := flashsale.Request{OrderID: 99, UserID: 2, RequestID: key(2)}
	if v, err := p.gate.Admit(t.Context(), p.sale, late); err != nil || v.Result != flashsale.NotLoaded {
		t.Fatalf("%+v %v", v, err)
	}
	more := p.buy(t, 2, 2)
	if _, err := p.Grab(t.Context(), 4, p.sale, key(4)); !errors.Is(err, flashsale.ErrSoldOut) {
		t.Error(err)
	}
	p.drain(t)
	p.settle(t)
	if live, failed := p.atRest(t, sold, more); live != 3 || failed != 0 {
		t.Errorf("%d live, %d failed", live, failed)
	}
}

// F67: SCRIPT FLUSH costs a gate nothing.
func TestScriptsAreForgotten(t *testing.T) {
	server := privateRedis(t, "redis")
	w := newTown(t)
	p := w.process(t, newLink(server.addr).option())
	p.open(t, 10, 1)
	sold, epoch := sellThree(t, p), p.epoch(t)
	for range 3 {
		server.do(t, "SCRIPT", "FLUSH")
		p.known(t, sold)
		server.do(t, "SCRIPT", "FLUSH")
		p.sweep(t)
	}
	server.do(t, "SCRIPT", "FLUSH")
	more := p.buy(t, 4, 7)
	if p.epoch(t) != epoch {
		t.Fatal("loaded anew")
	}
	server.do(t, "SCRIPT", "FLUSH")
	p.settle(t)
	p.atRest(t, sold, more)
}
