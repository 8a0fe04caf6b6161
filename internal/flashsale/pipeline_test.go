package flashsale_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"tandian/internal/flashsale"
	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

func TestGrabToOrder(t *testing.T) { onBoth(t, testGrabToOrder) }

func testGrabToOrder(t *testing.T) {
	p := newPipeline(t, 2, 1)
	orderID := p.grab(t, 1, "key-00000001")
	if st, _ := p.status(t, 1, orderID); st != order.Queued {
		t.Fatal("S7: an accepted id is queued at once, not unknown:", st)
	}
	if _, err := p.orders.Find(t.Context(), 2, orderID); !errors.Is(err, order.ErrNotFound) {
		t.Fatal("D12, W16: nobody sees another's order", err)
	}
	p.want(t, 1, 1, 2, 0)
	p.drain(t)
	p.want(t, 1, 0, 1, 1)
	v, err := p.orders.Find(t.Context(), 1, orderID)
	if err != nil || v.Status != order.Unpaid || v.Amount != 4750 || v.Voucher.Title != "代金券" || len(v.History) != 1 || v.PayBefore-v.AdmittedAt != 30*60*1000 {
		t.Fatalf("%+v %v", v, err)
	}
	if _, err := p.orders.Find(t.Context(), 2, orderID); !errors.Is(err, order.ErrNotFound) {
		t.Fatal(err)
	}
	if again := p.grab(t, 1, "key-00000001"); again != orderID {
		t.Fatal("the same key must give the same id", again, orderID)
	}
	if _, err := p.Grab(t.Context(), 1, p.sale, "key-00000002"); !errors.Is(err, flashsale.ErrLimit) {
		t.Fatal(err)
	}
	if _, err := p.Grab(t.Context(), 1, 999, "key-00000002"); !errors.Is(err, voucher.ErrSaleNotFound) {
		t.Fatal(err)
	}
}

func TestRedeliveryChangesNothing(t *testing.T) { onBoth(t, testRedeliveryChangesNothing) } // F22

func testRedeliveryChangesNothing(t *testing.T) {
	p := newPipeline(t, 5, 1)
	for u := range 3 {
		p.grab(t, id.ID(u+1), "key-00000001")
	}
	bodies, err := sqlqueue.Backlog(t.Context(), p.db.Read, order.TopicCreate)
	if err != nil || len(bodies) == 0 {
		t.Fatal(len(bodies), err)
	}
	p.drain(t)
	for range 2 {
		for i, b := range bodies {
			if err := p.broker.Publish(t.Context(), order.TopicCreate, fmt.Sprint("again-", i), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.drain(t)
	p.want(t, 2, 0, 2, 3)
}

func TestTombstoneWinsOverALateMessage(t *testing.T) { onBoth(t, testTombstoneWinsOverALateMessage) } // F16

func testTombstoneWinsOverALateMessage(t *testing.T) {
	p := newPipeline(t, 5, 1)
	var late func() error
	p.broker.OnPublish(func(deliver func() error) error { late = deliver; return queue.ErrRefused })
	_, err := p.Grab(t.Context(), 1, p.sale, "key-00000001")
	if !errors.Is(err, flashsale.ErrBusy) {
		t.Fatal(err)
	}
	p.want(t, 5, 0, 5, 0)
	p.broker.OnPublish(nil)
	if err := p.releaser.Turn(t.Context()); err != nil { // the row of a release that has happened already
		t.Fatal(err)
	}
	second := p.grab(t, 1, "key-00000001") // the refused key may try again
	if err := late(); err != nil {
		t.Fatal(err)
	}
	p.drain(t)
	p.want(t, 4, 0, 4, 1)
	if st, _ := p.status(t, 1, second); st != order.Unpaid {
		t.Fatal(st)
	}
}

func TestUnknownHandOverKeepsTheUnit(t *testing.T) { onBoth(t, testUnknownHandOverKeepsTheUnit) } // F13, F16, F18

func testUnknownHandOverKeepsTheUnit(t *testing.T) {
	for name, reached := range map[string]bool{"the message was lost": false, "the message got through": true} {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t, 5, 1)
			p.broker.OnPublish(func(deliver func() error) error {
				if reached {
					if err := deliver(); err != nil {
						return err
					}
				}
				return errors.New("connection lost")
			})
			if _, err := p.Grab(t.Context(), 1, p.sale, "key-00000001"); !errors.Is(err, flashsale.ErrUnknown) {
				t.Fatal(err)
			}
			p.want(t, 4, 1, 5, 0)
			p.broker.OnPublish(nil)
			orderID := p.grab(t, 1, "key-00000001")
			p.drain(t)
			p.want(t, 4, 0, 4, 1)
			if st, _ := p.status(t, 1, orderID); st != order.Unpaid {
				t.Fatal(st)
			}
		})
	}
}

func TestARefusalNamesWhatIsKept(t *testing.T) { onBoth(t, testARefusalNamesWhatIsKept) } // I6, F01, F82

// The gate of the embedded mode dies with its process: a refusal names no order that would die with it.
func testARefusalNamesWhatIsKept(t *testing.T) {
	p := newPipeline(t, 5, 1)
	p.broker.OnPublish(func(func() error) error { return errors.New("connection lost") })
	for _, key := range []string{"key-00000001", "key-00000002"} {
		if _, err := p.Grab(t.Context(), 1, p.sale, key); !errors.Is(err, flashsale.ErrUnknown) {
			t.Errorf("%s: %v", key, err)
		}
	}
	p.broker.OnPublish(nil)
	_, err := p.Grab(t.Context(), 1, p.sale, "key-00000002")
	var refused *errs.Error
	if !errors.As(err, &refused) || !errors.Is(err, flashsale.ErrLimit) {
		t.Fatal(err)
	}
	named := refused.Extra[api.ExtraOrderIDs].([]id.ID)
	p.start(t)
	p.drain(t)
	if len(named) != 1 {
		t.Fatal(named)
	}
	if st, _ := p.status(t, 1, named[0]); st != order.Unpaid {
		t.Error(st)
	}
}

func TestARefusedRepeatEndsNothing(t *testing.T) { onBoth(t, testARefusedRepeatEndsNothing) } // I6, F01

// The queue has the order and is full when the buyer clicks again: that is no reason to fail what he was told.
func testARefusedRepeatEndsNothing(t *testing.T) {
	p := newPipeline(t, 5, 1)
	told := p.grab(t, 1, "key-00000001")
	p.broker.OnPublish(func(func() error) error { return queue.ErrRefused })
	for _, key := range []string{"key-00000001", "key-00000002"} {
		if again, err := p.Grab(t.Context(), 1, p.sale, key); err == nil && again != told {
			t.Errorf("%s: %d after %d", key, again, told)
		}
	}
	p.broker.OnPublish(nil)
	p.drain(t)
	if st, _ := p.status(t, 1, told); st != order.Unpaid {
		t.Error(st)
	}
}

func TestSweeperSendsAgainWhatWasLost(t *testing.T) { onBoth(t, testSweeperSendsAgainWhatWasLost) } // S4, F10

func testSweeperSendsAgainWhatWasLost(t *testing.T) {
	p := newPipeline(t, 5, 1)
	p.broker.OnPublish(func(func() error) error { return errors.New("connection lost") })
	if _, err := p.Grab(t.Context(), 1, p.sale, "key-00000001"); !errors.Is(err, flashsale.ErrUnknown) {
		t.Fatal(err)
	}
	p.broker.OnPublish(nil)
	sweeper := flashsale.NewSweeper(p.Service)
	turn := func(want int64) {
		t.Helper()
		if err := sweeper.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, err := p.broker.Depth(t.Context(), order.TopicCreate); err != nil || d.Ready != want {
			t.Fatalf("%d messages, want %d (%v)", d.Ready, want, err)
		}
	}
	turn(0) // too young
	p.advance(11 * time.Second)
	turn(1)
	turn(1) // its pause is running
	p.advance(11 * time.Second)
	turn(1) // the backlog explains the age
	p.drain(t)
	p.want(t, 4, 0, 4, 1)
}

func TestNoStockInSQL(t *testing.T) { onBoth(t, testNoStockInSQL) } // F28, D06

func testNoStockInSQL(t *testing.T) {
	p := newPipeline(t, 1, 1)
	st, err := p.gate.Standing(t.Context(), p.sale)
	if err != nil {
		t.Fatal(err)
	}
	st.Terms.Version, st.Terms.Released = st.Terms.Version+1, st.Terms.Released+2 // which SQL knows nothing of
	if err := p.gate.Change(t.Context(), st.Terms); err != nil {
		t.Fatal(err)
	}
	ids := map[order.Status]int{}
	var accepted []id.ID
	for u := range 3 {
		accepted = append(accepted, p.grab(t, id.ID(u+1), "key-00000001"))
	}
	p.drain(t)
	for u, orderID := range accepted {
		st, reason := p.status(t, id.ID(u+1), orderID)
		if ids[st]++; st == order.Failed && reason != order.ReasonSoldOut {
			t.Fatal(reason)
		}
	}
	if ids[order.Unpaid] != 1 || ids[order.Failed] != 2 {
		t.Fatal("exactly one can be written", ids)
	}
	for range 2 {
		if err := p.releaser.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	p.want(t, 2, 0, 0, 1)
	if n, err := p.db.Read.NewSelect().Table("gate_release").Count(t.Context()); n != 0 || err != nil {
		t.Fatal(n, err)
	}
}

func TestTakenSlots(t *testing.T) { onBoth(t, testTakenSlots) }

func testTakenSlots(t *testing.T) {
	p := newPipeline(t, 10, 2)
	first, second := p.grab(t, 1, "key-00000001"), p.grab(t, 1, "key-00000002")
	// The gate is rebuilt without knowing what is in flight, as with a queue that can't be listed, and admits him anew.
	p.Backlog = nil
	if err := p.gate.Unload(t.Context(), p.sale); err != nil {
		t.Fatal(err)
	}
	third := p.grab(t, 1, "key-00000003")
	p.drain(t)
	if st, reason := p.status(t, 1, third); st != order.Failed || reason != order.ReasonLimit {
		t.Fatal("I2: the third order of a buyer who may hold two:", st, reason)
	}
	if err := p.releaser.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.want(t, 8, 0, 8, 2)
	for key, want := range map[string]id.ID{"key-00000001": first, "key-00000002": second, "key-00000003": third} {
		if again := p.grab(t, 1, key); again != want {
			t.Fatal("each key goes on to mean its order, the failed one too", key, again, want)
		}
	}
}

// A row that the database refuses counts its own attempts, ends as a dead letter of its own, keeps its unit, and is
// not sent again; its neighbours are written.
func TestDeadLetterOfOneReservation(t *testing.T) {
	p := newPipeline(t, 10, 1)
	good := p.grab(t, 1, "key-00000001")
	bad := p.grab(t, 2, "key-00000001")
	if _, err := p.db.Write.Exec(`CREATE TRIGGER refuse BEFORE INSERT ON orders WHEN NEW.user_id = 2 BEGIN SELECT RAISE(ABORT, 'no'); END`); err != nil {
		t.Fatal(err)
	}
	deadLetters := func() (n int64) {
		t.Helper()
		n, err := p.db.Read.NewSelect().Table("dead_letter").Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for deadLetters() == 0 { // each attempt has its pause
		p.drainDue(t)
		p.advance(5 * time.Second)
	}
	if st, _ := p.status(t, 1, good); st != order.Unpaid {
		t.Fatal(st)
	}
	if st, _ := p.status(t, 2, bad); st != order.Queued {
		t.Fatal("a dead-lettered reservation stays queued", st)
	}
	p.want(t, 8, 1, 9, 1)
	p.advance(time.Hour / 2)
	if err := flashsale.NewSweeper(p.Service).Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.drainDue(t)
	if n := deadLetters(); n != 1 {
		t.Fatalf("%d dead letters of one reservation", n)
	}
}

// F13, B7: "certainly no order" is not said of a request that was admitted before and whose answer was lost.
func TestKnownDownStillTellsWhatWasAdmitted(t *testing.T) {
	p := newPipeline(t, 5, 1)
	orderID := p.grab(t, 1, "key-00000001")
	p.drain(t)
	p.start(t) // this process hasn't answered him
	p.broker.SetDown(true)
	if got, err := p.Grab(t.Context(), 1, p.sale, "key-00000001"); got != orderID || err != nil {
		t.Fatal(got, err)
	}
	if _, err := p.Grab(t.Context(), 2, p.sale, "key-00000001"); !errors.Is(err, flashsale.ErrBusy) {
		t.Fatal(err)
	}
}

// S5: a queue that is known to be down costs no unit and no tombstone.
func TestKnownDownIsRefusedBeforeTheGate(t *testing.T) {
	p := newPipeline(t, 5, 1)
	p.broker.SetDown(true)
	for range 3 {
		if _, err := p.Grab(t.Context(), 1, p.sale, "key-00000001"); !errors.Is(err, flashsale.ErrBusy) {
			t.Fatal(err)
		}
	}
	p.want(t, 5, 0, 5, 0)
	if n, err := p.db.Read.NewSelect().Table("orders").Count(t.Context()); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	p.broker.SetDown(false)
	p.grab(t, 1, "key-00000001")
	p.want(t, 4, 1, 5, 0)
}

// Units that buyers hold are not taken away, also while they are on their way to their rows.
func TestTakingStockAwayLeavesPromisesAlone(t *testing.T) {
	onBoth(t, testTakingStockAwayLeavesPromisesAlone)
}

func testTakingStockAwayLeavesPromisesAlone(t *testing.T) {
	p := newPipeline(t, 10, 1)
	for u := range 8 {
		p.grab(t, id.ID(u+1), "key-00000001")
	}
	if _, err := p.AddStock(t.Context(), p.sale, -5, "too many"); !errors.Is(err, flashsale.ErrStockShort) {
		t.Fatal(err)
	}
	p.want(t, 2, 8, 10, 0)
	owners := p.Owners
	p.Owners = nobody{}
	if _, err := p.AddStock(t.Context(), p.sale, -2, "not mine"); !errors.Is(err, identity.ErrForbidden) {
		t.Fatal(err)
	}
	p.Owners = owners
	p.want(t, 2, 8, 10, 0)
	if sale, err := p.AddStock(t.Context(), p.sale, -2, "what is left"); err != nil || sale.StockLeft != 0 || sale.StockReleased != 8 {
		t.Fatalf("%+v %v", sale, err)
	}
	p.drain(t)
	p.want(t, 0, 0, 0, 8)
}

// Times that no client could read never reach a row.
func TestWindowIsBounded(t *testing.T) { onBoth(t, testWindowIsBounded) }

func testWindowIsBounded(t *testing.T) {
	p := newPipeline(t, 1, 1)
	for _, w := range [][2]string{{"2026-11-30T12:00:00Z", "9999-12-31T20:00:00Z"}, {"0000-01-01T00:00:00+14:00", "2026-12-30T12:00:00Z"},
		{"2026-12-30T12:00:00Z", "2026-12-30T12:00:00Z"}, {"1970-01-01T00:00:00Z", "2026-12-30T12:00:00Z"}} {
		begins, _ := time.Parse(time.RFC3339, w[0])
		ends, _ := time.Parse(time.RFC3339, w[1])
		if _, err := p.Edit(t.Context(), p.sale, flashsale.Draft{BeginsAt: &begins, EndsAt: &ends}); !errors.Is(err, api.ErrInvalid) {
			t.Errorf("%v: %v", w, err)
		}
	}
}

func TestOneBadReservationDoesNotHoldUpItsBatch(t *testing.T) {
	onBoth(t, testOneBadReservationDoesNotHoldUpItsBatch)
}

func testOneBadReservationDoesNotHoldUpItsBatch(t *testing.T) {
	p := newPipeline(t, 10, 1)
	good := p.grab(t, 1, "key-00000001")
	now := p.Now().UnixMilli()
	body, err := order.Encode([]order.Reservation{{OrderID: 5, SaleID: 12345, VoucherID: 7, UserID: 9, AdmittedAt: now, PayBefore: now}})
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range [][]byte{body, []byte("{"), []byte(`{"v":9,"reservations":[]}`)} {
		if err := p.broker.Publish(t.Context(), order.TopicCreate, fmt.Sprint("bad-", i), b); err != nil {
			t.Fatal(err)
		}
	}
	p.drain(t)
	p.want(t, 9, 0, 9, 1)
	if st, _ := p.status(t, 1, good); st != order.Unpaid {
		t.Fatal(st)
	}
	if st, reason := p.status(t, 9, 5); st != order.Failed || reason != order.ReasonNoSale {
		t.Fatal(st, reason)
	}
	var dead []string
	if err := p.db.Read.NewSelect().Table("dead_letter").Column("message_id").Order("id").Scan(t.Context(), &dead); err != nil || len(dead) != 2 {
		t.Fatal("poison must become dead letters", dead, err)
	}
}

func TestWriterWaitsForTheDatabase(t *testing.T) { // F26
	p := newPipeline(t, 10, 1)
	orderID := p.grab(t, 1, "key-00000001")
	readOnly := func(on int) {
		t.Helper()
		if _, err := p.db.Write.Exec(fmt.Sprintf("PRAGMA query_only = %d", on)); err != nil {
			t.Fatal(err)
		}
	}
	bodies, err := sqlqueue.Backlog(t.Context(), p.db.Read, order.TopicCreate)
	if err != nil || len(bodies) != 1 {
		t.Fatal(err)
	}
	batch := []queue.Message{{ID: "m", Body: bodies[0]}}
	readOnly(1)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	requeued := false
	queue.Sort(1, p.writer.Handle(ctx, batch), queue.Cases{Requeue: func(int) { requeued = true }})
	if !requeued {
		t.Fatal("nothing may be counted or lost for a database that is away")
	}
	readOnly(0)
	p.drain(t)
	if st, _ := p.status(t, 1, orderID); st != order.Unpaid {
		t.Fatal(st)
	}
}

func TestStormEndsAtRest(t *testing.T) { onBoth(t, testStormEndsAtRest) }

func testStormEndsAtRest(t *testing.T) {
	p := newPipeline(t, 50, 2)
	var wg sync.WaitGroup
	for u := range 100 {
		for try := range 4 {
			wg.Go(func() {
				_, err := p.Grab(t.Context(), id.ID(u+1), p.sale, fmt.Sprintf("key-%08d", try))
				if err != nil && !errors.Is(err, flashsale.ErrSoldOut) && !errors.Is(err, flashsale.ErrLimit) {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	p.drain(t)
	p.want(t, 0, 0, 0, 50)
}

func TestTopUpPauseAndEdit(t *testing.T) { onBoth(t, testTopUpPauseAndEdit) } // F64, F65, S16

func testTopUpPauseAndEdit(t *testing.T) {
	p := newPipeline(t, 1, 1)
	ctx := t.Context()
	p.grab(t, 1, "key-00000001")
	if _, err := p.Grab(ctx, 2, p.sale, "key-00000001"); !errors.Is(err, flashsale.ErrSoldOut) {
		t.Fatal(err)
	}
	sale, err := p.AddStock(ctx, p.sale, 5, "more cake")
	if err != nil || sale.StockLeft != 5 || sale.StockReleased != 6 {
		t.Fatalf("%+v %v", sale, err)
	}
	if _, err := p.AddStock(ctx, p.sale, -100, "mistake"); !errors.Is(err, flashsale.ErrStockShort) {
		t.Fatal(err)
	}
	if _, err := p.SetPaused(ctx, p.sale, true); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Grab(ctx, 2, p.sale, "key-00000001"); !errors.Is(err, flashsale.ErrPaused) {
		t.Fatal(err)
	}
	if _, err := p.SetPaused(ctx, p.sale, false); err != nil {
		t.Fatal(err)
	}
	p.grab(t, 2, "key-00000001")
	end := p.Now()
	if _, err := p.Edit(ctx, p.sale, flashsale.Draft{EndsAt: &end}); err == nil {
		t.Fatal("an end before the beginning must be refused")
	}
	end = p.Now().Add(time.Millisecond)
	if _, err := p.Edit(ctx, p.sale, flashsale.Draft{EndsAt: &end}); err != nil {
		t.Fatal(err)
	}
	p.advance(time.Millisecond)
	if _, err := p.Grab(ctx, 3, p.sale, "key-00000001"); !errors.Is(err, flashsale.ErrEnded) {
		t.Fatal(err)
	}
	p.drain(t)
	p.want(t, 4, 0, 4, 2)
	if n, err := p.db.Read.NewSelect().Table("audit_log").Count(ctx); n != 5 || err != nil {
		t.Fatal("each change leaves an audit line", n, err)
	}
}

func TestListPagesEachSaleOnce(t *testing.T) { onBoth(t, testListPagesEachSaleOnce) }

func testListPagesEachSaleOnce(t *testing.T) {
	p := newPipeline(t, 1, 1)
	ctx := t.Context()
	for i := range 7 { // several begin and end together
		if _, err := p.db.Write.Exec(`INSERT INTO voucher (id, shop_id, title, pay_value, face_value, created_at, updated_at) VALUES (?, 1, 'v', 1, 1, 1, 1)`, 100+i); err != nil {
			t.Fatal(err)
		}
		begin := p.Now().Add(time.Duration(i/3) * time.Hour)
		if _, err := p.Open(ctx, id.ID(100+i), 1, begin, begin.Add(time.Hour), 1); err != nil {
			t.Fatal(err)
		}
	}
	for state, want := range map[flashsale.State]int{flashsale.StateLive: 4, flashsale.StateUpcoming: 4, flashsale.StateEnded: 0, "": 8} {
		seen := map[id.ID]bool{}
		page := flashsale.ListPages(t, p.Service, state, 2, func(s *flashsale.Sale) { seen[s.ID] = true })
		if len(seen) != want || page != want {
			t.Errorf("%q: %d sales in %d rows, want %d", state, len(seen), page, want)
		}
	}
}
