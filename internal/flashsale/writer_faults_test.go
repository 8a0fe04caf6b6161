package flashsale_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// patience is how long an event may take.
const patience = 30 * time.Second

// faultyPath is the path with its writer behind a database that fails on request. The queue is another database, as a
// broker is, which the faults don't reach.
type faultyPath struct {
	*pipeline
	faulty  *storetest.Faulty // nil on SQLite
	queue   *store.DB
	trouble chan string // why the writer paused, each time
	bought  []id.ID     // by user − 1
	written chan id.ID
}

// newFaultyPath opens the path on SQLite or, by the test's name, on MySQL; edit may change how the writer connects.
func newFaultyPath(t *testing.T, stock int64, edit func(*mysql.Config)) *faultyPath {
	t.Helper()
	p := &faultyPath{pipeline: newPipeline(t, stock, 1), queue: storetest.SQLite(t), trouble: make(chan string, 1000), written: make(chan id.ID, 10_000)}
	if strings.Contains(t.Name(), "/mysql") {
		p.faulty = storetest.Behind(t, p.db, edit)
		p.writer.DB = p.faulty.DB
	}
	p.broker.Broker, p.Backlog = sqlqueue.New(p.queue, time.Now), nil
	p.writer.Log = slog.New(troubleLog{p.trouble})
	p.writer.Written = func(ids []id.ID) {
		for _, v := range ids {
			p.written <- v
		}
	}
	return p
}

// troubleLog passes on why the writer pauses.
type troubleLog struct{ trouble chan<- string }

func (troubleLog) Enabled(context.Context, slog.Level) bool { return true }
func (l troubleLog) WithAttrs([]slog.Attr) slog.Handler     { return l }
func (l troubleLog) WithGroup(string) slog.Handler          { return l }
func (l troubleLog) Handle(_ context.Context, r slog.Record) error {
	if !strings.Contains(r.Message, "consuming pauses") {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			l.trouble <- a.Value.String()
		}
		return a.Key != "err"
	})
	return nil
}

// buy lets n more users buy.
func (p *faultyPath) buy(t *testing.T, n int) {
	t.Helper()
	for range n {
		p.bought = append(p.bought, p.grab(t, id.ID(len(p.bought)+1), "key-00000001"))
	}
}

// work consumes as the program does until stop is called, at the latest by the end of the test. hangUp makes the
// consumer end after its batch. No message may be given up or have an attempt counted.
func (p *faultyPath) work(t *testing.T, handle func(context.Context, []queue.Message) []queue.Verdict) (hangUp, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- p.broker.Consume(ctx, order.TopicCreate, queue.Batch{Max: 200}, func(ctx context.Context, batch []queue.Message) []queue.Verdict {
			verdicts := handle(ctx, batch)
			for _, v := range verdicts {
				if v != queue.Ack() && v != queue.Requeue() {
					t.Errorf("%+v", v)
				}
			}
			return verdicts
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := event(t, ended); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return cancel, stop
}

// event waits for what must come.
func event[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

// pauses waits for n pauses of the writer whose reasons contain the text.
func (p *faultyPath) pauses(t *testing.T, n int, text string) {
	t.Helper()
	for n > 0 {
		why := event(t, p.trouble)
		if strings.Contains(why, text) {
			n--
		} else {
			t.Logf("not %q: %s", text, why)
		}
	}
}

// allWritten waits until the writer has told of all that was bought.
func (p *faultyPath) allWritten(t *testing.T) {
	t.Helper()
	missing := map[id.ID]bool{}
	for i, orderID := range p.bought {
		if st, reason := p.status(t, id.ID(i+1), orderID); st == order.Queued {
			missing[orderID] = true
		} else if st != order.Unpaid {
			t.Fatal(st, reason)
		}
	}
	for len(missing) > 0 {
		delete(missing, event(t, p.written))
	}
}

// queued checks that all orders but the first have neither row nor end.
func (p *faultyPath) queued(t *testing.T, first int) {
	t.Helper()
	for i, orderID := range p.bought[first:] {
		if st, reason := p.status(t, id.ID(first+i+1), orderID); st != order.Queued {
			t.Fatal(st, reason)
		}
	}
	p.noneParked(t)
}

// noneParked checks that no message has been given up or had an attempt counted.
func (p *faultyPath) noneParked(t *testing.T) {
	t.Helper()
	var dead, counted int64
	err := p.queue.Read.NewRaw(`SELECT (SELECT COUNT(*) FROM dead_letter), (SELECT COUNT(*) FROM queue_message WHERE attempts > 0)`).Scan(t.Context(), &dead, &counted)
	if err != nil || dead+counted > 0 {
		t.Fatalf("%d dead letters, %d attempts counted (%v)", dead, counted, err)
	}
}

// atRest checks that each order bought is unpaid, stock and gate agree, and the queue is empty.
func (p *faultyPath) atRest(t *testing.T, stock int64) {
	t.Helper()
	p.noneParked(t)
	n := int64(len(p.bought))
	p.want(t, stock-n, 0, stock-n, n)
	for i, orderID := range p.bought {
		if st, reason := p.status(t, id.ID(i+1), orderID); st != order.Unpaid {
			t.Fatal(st, reason)
		}
	}
	if d, err := p.broker.Depth(t.Context(), order.TopicCreate); err != nil || d.Ready+d.Unacked > 0 {
		t.Fatalf("%+v %v", d, err)
	}
}

// F21, F23, F24: the connection breaks at each step of a batch, before the server has heard of the step and after it
// has taken it, twice each time.
func TestWriterLosesItsConnection(t *testing.T) {
	t.Run("mysql", func(t *testing.T) {
		const stock = 100
		p := newFaultyPath(t, stock, nil)
		_, stop := p.work(t, p.writer.Handle)
		for _, step := range []string{"START TRANSACTION", "INSERT INTO orders", "INSERT INTO outbox", "UPDATE sale", "COMMIT"} {
			for _, fate := range []storetest.Fate{storetest.LoseRequest, storetest.LoseReply} {
				var struck atomic.Int64
				p.faulty.OnStatement(func(_ uint32, statement string) storetest.Fate {
					if strings.HasPrefix(statement, step) && struck.Add(1) <= 2 {
						return fate
					}
					return storetest.Pass
				})
				p.buy(t, 5)
				p.allWritten(t)
				if struck.Load() < 2 {
					t.Errorf("%s was never struck", step)
				}
			}
		}
		stop()
		p.atRest(t, stock)
	})
}

// F24: the server kills the connection while it commits. Some of these commits hold, and all look the same from here.
func TestKilledDuringCommit(t *testing.T) {
	t.Run("mysql", func(t *testing.T) {
		const stock, most, enough = 500, 60, 10
		p := newFaultyPath(t, stock, nil)
		_, stop := p.work(t, p.writer.Handle)
		var wg sync.WaitGroup
		defer wg.Wait()
		p.faulty.OnStatement(func(connection uint32, statement string) storetest.Fate {
			if statement == "COMMIT" && rand.IntN(2) == 0 {
				wg.Go(func() { _, _ = p.db.Write.ExecContext(t.Context(), fmt.Sprintf("KILL %d", connection)) }) // it may be gone
			}
			return storetest.Pass
		})
		held, lost := 0, 0
		for round := 0; round < most && (held < enough || lost < enough); round++ {
			p.buy(t, 1)
			orderID := p.bought[len(p.bought)-1]
			for written := false; !written; {
				select {
				case v := <-p.written:
					written = v == orderID
				case <-p.trouble: // the writer pauses now
					n, err := p.db.Read.NewSelect().Table("orders").Where("id = ?", orderID).Count(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					held, lost = held+int(n), lost+1-int(n)
				case <-time.After(patience):
					t.Fatal("nothing came")
				}
			}
		}
		t.Logf("of the commits that failed, %d had written the order and %d had not", held, lost)
		if held+lost == 0 {
			t.Error("no commit was ever hit")
		}
		stop()
		p.atRest(t, stock)
	})
}

// F21: the consumer goes away before the commit. Its messages come again, to another one, and count no attempt.
func TestConsumerEndsBeforeTheCommit(t *testing.T) {
	t.Run("mysql", func(t *testing.T) {
		const stock = 10
		p := newFaultyPath(t, stock, nil)
		p.buy(t, 3)
		var hangUp func()
		ready := make(chan struct{})
		p.faulty.OnStatement(func(_ uint32, statement string) storetest.Fate {
			if statement != "COMMIT" {
				return storetest.Pass
			}
			<-ready
			hangUp()
			return storetest.LoseRequest
		})
		hangUp, stop := p.work(t, p.writer.Handle)
		close(ready)
		p.pauses(t, 1, "")
		stop()
		p.queued(t, 0)
		p.want(t, stock-3, 3, stock, 0)
		p.faulty.OnStatement(nil)
		_, stop = p.work(t, p.writer.Handle)
		p.allWritten(t)
		stop()
		p.atRest(t, stock)
	})
}

// F22: what was committed comes again because the ack was lost, three times.
func TestAckIsLost(t *testing.T) {
	t.Run("mysql", func(t *testing.T) {
		const stock, lost = 10, 3
		p := newFaultyPath(t, stock, nil)
		p.buy(t, 3) // one batch
		deliveries, n := make(chan struct{}, 100), 0
		_, stop := p.work(t, func(ctx context.Context, batch []queue.Message) []queue.Verdict {
			verdicts := p.writer.Handle(ctx, batch)
			deliveries <- struct{}{}
			if n++; n <= lost {
				return nil
			}
			return verdicts
		})
		for range lost + 1 {
			event(t, deliveries)
		}
		stop()
		p.atRest(t, stock)
	})
}

// F25 (1205): somebody holds the sale's row for longer than the server lets anybody wait. The orders stay queued and are
// written when the row is free.
func TestLockedSale(t *testing.T) {
	t.Run("mysql", func(t *testing.T) {
		const stock = 20
		p := newFaultyPath(t, stock, func(cfg *mysql.Config) { cfg.Params = map[string]string{"innodb_lock_wait_timeout": "1"} })
		holder, err := p.db.Write.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer holder.Rollback()
		if _, err := holder.ExecContext(t.Context(), "SELECT id FROM sale WHERE id = ? FOR UPDATE", p.sale); err != nil {
			t.Fatal(err)
		}
		var waits atomic.Int64
		p.faulty.OnStatement(func(_ uint32, statement string) storetest.Fate {
			if strings.HasPrefix(statement, "UPDATE sale") {
				waits.Add(1)
			}
			return storetest.Pass
		})
		p.buy(t, 10)
		_, stop := p.work(t, p.writer.Handle)
		p.pauses(t, 2, "Error 1205")
		if n := waits.Load(); n > 3 {
			t.Errorf("%d waits for the lock in two tries: what no row is to blame for doesn't make a batch unclean", n)
		}
		p.queued(t, 0)
		p.want(t, stock-10, 10, stock, 0)
		if err := holder.Rollback(); err != nil {
			t.Fatal(err)
		}
		p.allWritten(t)
		stop()
		p.atRest(t, stock)
	})
}

// F25 (1213): two consumers hold the same two messages in opposite order, and each has written one row when it comes to
// the other's. The server picks a victim, which finds both rows when it tries again.
func TestDeadlockOfTwoWriters(t *testing.T) {
	t.Run("mysql", func(t *testing.T) {
		const stock = 10
		p := newFaultyPath(t, stock, nil)
		p.buy(t, 2)
		bodies, err := sqlqueue.Backlog(t.Context(), p.queue.Read, order.TopicCreate)
		if err != nil || len(bodies) != 2 {
			t.Fatal(len(bodies), err)
		}
		p.faulty.RowsPerInsert = 1
		var began sync.Map // connections that have inserted a row
		var atSecond atomic.Int64
		both := make(chan struct{})
		p.faulty.OnStatement(func(connection uint32, statement string) storetest.Fate {
			if !strings.HasPrefix(statement, "INSERT INTO orders") {
				return storetest.Pass
			}
			if _, second := began.LoadOrStore(connection, true); second {
				if atSecond.Add(1) == 2 {
					close(both)
				}
				<-both
			}
			return storetest.Pass
		})
		start := make(chan struct{})
		verdicts := make(chan []queue.Verdict, 2)
		for i := range 2 {
			go func() {
				<-start
				verdicts <- p.writer.Handle(t.Context(), []queue.Message{{ID: "a", Body: bodies[i]}, {ID: "b", Body: bodies[1-i]}})
			}()
		}
		close(start)
		for range 2 {
			for _, v := range event(t, verdicts) {
				if v != queue.Ack() {
					t.Errorf("%+v", v)
				}
			}
		}
		p.pauses(t, 1, "Error 1213")
		_, stop := p.work(t, p.writer.Handle) // what the queue has of it
		p.allWritten(t)
		stop()
		p.atRest(t, stock)
	})
}
