package flashsale_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

// letters looks after the pipeline's dead letters; its Turn runs when asked.
func (p *pipeline) letters(t testing.TB) *order.DeadLetters {
	t.Helper()
	return p.lettersCountedBy(prometheus.NewRegistry())
}

func (p *pipeline) lettersCountedBy(reg *prometheus.Registry) *order.DeadLetters {
	d := &order.DeadLetters{DB: p.db, Broker: p.broker, Tomb: p.writer, Now: p.Now, Log: slog.New(slog.DiscardHandler), Metrics: order.NewLetterMetrics(reg), Pause: time.Minute}
	reg.MustRegister(d)
	return d
}

// metric returns the value of a counter or a gauge; labels are its values in the order of their names.
func metric(t testing.TB, reg *prometheus.Registry, name string, labels ...string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == name && slices.Equal(values, labels) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s %q", name, labels)
	return 0
}

// refuseOrdersOf makes the database refuse orders of a buyer, tombstones excepted, until mend is called.
func refuseOrdersOf(t testing.TB, db *store.DB, user id.ID) (mend func()) {
	t.Helper()
	breaks := fmt.Sprintf(`CREATE TRIGGER broken BEFORE INSERT ON orders WHEN NEW.user_id = %d AND NEW.status <> 7 BEGIN SELECT RAISE(ABORT, 'broken on purpose'); END`, user)
	mends := `DROP TRIGGER broken`
	if strings.HasPrefix(db.Name, "MySQL") {
		breaks = fmt.Sprintf(`ALTER TABLE orders ADD CONSTRAINT broken CHECK (user_id <> %d OR status = 7)`, user)
		mends = `ALTER TABLE orders DROP CONSTRAINT broken`
	}
	exec := func(statement string) {
		t.Helper()
		if _, err := db.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(breaks)
	return func() { exec(mends) }
}

// exhaust runs the writer until it has given up on what it can't write.
func (p *pipeline) exhaust(t testing.TB) {
	t.Helper()
	for range 4 {
		p.drainDue(t)
		p.advance(5 * time.Second)
	}
}

func (p *pipeline) turn(t testing.TB, d *order.DeadLetters) {
	t.Helper()
	if err := d.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// only returns the one letter there is.
func only(t testing.TB, d *order.DeadLetters) order.Letter {
	t.Helper()
	all, err := d.List(t.Context(), order.LetterFilter{}, 0, 10)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d letters, want one (%v)", len(all), err)
	}
	return all[0]
}

func depth(t testing.TB, b queue.Broker, topic string) int64 {
	t.Helper()
	d, err := b.Depth(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	return d.Ready + d.Unacked
}

// F27, S9: an order that the database refuses becomes a dead letter, keeps its unit and stays queued, also over a
// restart; it is tried again once by itself, then a person's replay writes it when the cause is mended.
func TestDeadLetterIsReplayed(t *testing.T) { onBoth(t, testDeadLetterIsReplayed) }

func testDeadLetterIsReplayed(t *testing.T) {
	p := newPipeline(t, 5, 1)
	mend := refuseOrdersOf(t, p.db, 1)
	orderID := p.grab(t, 1, "key-00000001")
	other := p.grab(t, 2, "key-00000002")
	p.exhaust(t)
	p.want(t, 3, 1, 4, 1)
	if st, _ := p.status(t, 2, other); st != order.Unpaid {
		t.Fatal("the others flow:", st)
	}
	reg := prometheus.NewRegistry()
	d := p.lettersCountedBy(reg)
	p.turn(t, d)
	l := only(t, d)
	if l.State != order.LetterPending || l.Topic != order.TopicCreate || l.Attempts != 3 || !l.Ours || l.Sent != 0 || l.Reason == "" || l.CreatedAt != l.LastAt {
		t.Fatalf("%+v", l)
	}
	if died, pending := metric(t, reg, "tandian_dead_letters_total", order.TopicCreate), metric(t, reg, "tandian_dead_letters", "pending", order.TopicCreate); died != 1 || pending != 1 {
		t.Fatal("counted:", died, pending)
	}
	content, err := d.Read(t.Context(), &l)
	if err != nil || len(content.Reservations) != 1 || content.Reservations[0].OrderID != orderID || len(content.Statuses) != 0 || content.Raw != "" {
		t.Fatalf("%+v %v", content, err)
	}

	p.start(t) // the memory gate is lost and loaded again
	d = p.letters(t)
	p.want(t, 3, 1, 4, 1)
	if st, _ := p.status(t, 1, orderID); st != order.Queued {
		t.Fatal("its buyer sees it queued:", st)
	}
	sweeper := flashsale.NewSweeper(p.Service)
	p.advance(15 * time.Second)
	if err := sweeper.Turn(t.Context()); err != nil || depth(t, p.broker, order.TopicCreate) != 0 {
		t.Fatal("the sweeper leaves to a person what is a dead letter", err)
	}

	p.advance(time.Minute)
	p.turn(t, d)
	p.turn(t, d)
	if depth(t, p.broker, order.TopicCreate) != 1 {
		t.Fatal("tried again by itself, once")
	}
	p.exhaust(t)
	p.advance(10 * time.Minute)
	p.turn(t, d)
	if again := only(t, d); again.ID != l.ID || again.State != order.LetterPending || again.Attempts != 6 || again.Sent != 1 || again.LastAt <= l.LastAt {
		t.Fatalf("another death of the same: %+v", again)
	}
	if depth(t, p.broker, order.TopicCreate) != 0 {
		t.Fatal("not a second time by itself")
	}

	mend()
	for range 2 { // replaying is safe to repeat
		if _, err := d.Replay(t.Context(), l.ID, 9); err != nil {
			t.Fatal(err)
		}
	}
	p.turn(t, d)
	if got := only(t, d); got.State != order.LetterPending || got.Sent != 3 || got.ActorID != 9 {
		t.Fatalf("sent again is not fixed: %+v", got)
	}
	p.drain(t)
	p.turn(t, d)
	if got := only(t, d); got.State != order.LetterFixed || got.EndedAt == 0 {
		t.Fatalf("%+v", got)
	}
	p.want(t, 3, 0, 3, 2)
	if st, _ := p.status(t, 1, orderID); st != order.Unpaid {
		t.Fatal(st)
	}
	if _, err := d.Replay(t.Context(), l.ID, 9); !errors.Is(err, order.ErrLetterEnded) {
		t.Fatal(err)
	}
	if n, err := p.db.Read.NewSelect().Table("audit_log").Where("action = 'dead_letter.replay' AND actor_id = 9").Count(t.Context()); n != 2 || err != nil {
		t.Fatal("audit lines:", n, err)
	}
}

// S9: ignoring writes the tombstone and gives the unit back; a message that still turns up afterwards changes nothing.
func TestDeadLetterIsIgnored(t *testing.T) { onBoth(t, testDeadLetterIsIgnored) }

func testDeadLetterIsIgnored(t *testing.T) {
	p := newPipeline(t, 5, 1)
	mend := refuseOrdersOf(t, p.db, 1)
	orderID := p.grab(t, 1, "key-00000001")
	p.exhaust(t)
	d := p.letters(t)
	p.turn(t, d)
	l := only(t, d)
	if _, err := d.Replay(t.Context(), l.ID, 9); err != nil { // on its way when it is ignored
		t.Fatal(err)
	}
	if got, err := d.Ignore(t.Context(), l.ID, 9, "the buyer was called"); err != nil || got.State != order.LetterIgnored || got.Note != "the buyer was called" || got.ActorID != 9 {
		t.Fatalf("%+v %v", got, err)
	}
	if st, reason := p.status(t, 1, orderID); st != order.Failed || reason != order.ReasonDropped {
		t.Fatal(st, reason)
	}
	if err := p.releaser.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.want(t, 5, 0, 5, 0)
	mend()
	p.drain(t)
	p.turn(t, d)
	p.want(t, 5, 0, 5, 0)
	if st, _ := p.status(t, 1, orderID); st != order.Failed || only(t, d).State != order.LetterIgnored {
		t.Fatal("the tombstone stays", st)
	}
	if _, err := d.Ignore(t.Context(), l.ID, 9, "again"); !errors.Is(err, order.ErrLetterEnded) {
		t.Fatal(err)
	}
	if _, err := d.Ignore(t.Context(), 999, 9, ""); !errors.Is(err, order.ErrNoLetter) {
		t.Fatal(err)
	}
	if again := p.grab(t, 1, "key-00000003"); again == orderID {
		t.Fatal("the buyer may buy again")
	}
}

// S9: a letter whose order has come about before it is ignored is fixed; nothing is taken from the buyer.
func TestIgnoringAnOrderThatExists(t *testing.T) { onBoth(t, testIgnoringAnOrderThatExists) }

func testIgnoringAnOrderThatExists(t *testing.T) {
	p := newPipeline(t, 5, 1)
	mend := refuseOrdersOf(t, p.db, 1)
	orderID := p.grab(t, 1, "key-00000001")
	p.exhaust(t)
	d := p.letters(t)
	p.turn(t, d)
	mend()
	if _, err := d.Replay(t.Context(), only(t, d).ID, 9); err != nil {
		t.Fatal(err)
	}
	p.drain(t)
	if l, err := d.Ignore(t.Context(), only(t, d).ID, 9, "too hasty"); err != nil || l.State != order.LetterFixed {
		t.Fatalf("%+v %v", l, err)
	}
	if st, _ := p.status(t, 1, orderID); st != order.Unpaid {
		t.Fatal(st)
	}
}

// S9: nobody can pay any more, so the unit doesn't wait for a person.
func TestDeadLetterPastItsPayWindow(t *testing.T) { onBoth(t, testDeadLetterPastItsPayWindow) }

func testDeadLetterPastItsPayWindow(t *testing.T) {
	p := newPipeline(t, 5, 1)
	refuseOrdersOf(t, p.db, 1)
	orderID := p.grab(t, 1, "key-00000001")
	p.exhaust(t)
	d := p.letters(t)
	p.turn(t, d)
	p.advance(29 * time.Minute)
	p.turn(t, d)
	if l := only(t, d); l.State != order.LetterPending {
		t.Fatalf("%+v", l)
	}
	p.exhaust(t) // its automatic retry
	p.advance(time.Minute)
	p.turn(t, d)
	if l := only(t, d); l.State != order.LetterIgnored || l.Note == "" || l.ActorID != 0 {
		t.Fatalf("%+v", l)
	}
	if st, reason := p.status(t, 1, orderID); st != order.Failed || reason != order.ReasonDropped {
		t.Fatal(st, reason)
	}
	if err := p.releaser.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.want(t, 5, 0, 5, 0)
}

// W39: what is forged reserves nothing, stops no sweeper, isn't sent again with our seal, and shows neither phone nor
// token. F27: what can't be read is treated the same.
func TestForeignLetters(t *testing.T) { onBoth(t, testForeignLetters) }

func testForeignLetters(t *testing.T) {
	p := newPipeline(t, 5, 1)
	d := p.letters(t)
	orderID := p.grab(t, 1, "key-00000001")
	r, _, err := p.gate.Find(t.Context(), orderID)
	if err != nil || r == nil {
		t.Fatal(r, err)
	}
	claim := *r
	claim.UserID = 66
	body, err := order.Encode([]order.Reservation{claim})
	if err != nil {
		t.Fatal(err)
	}
	keep := func(messageID string, body []byte, reason string) {
		t.Helper()
		m := queue.Message{ID: messageID, Body: body}
		if err := order.KeepDeadLetter(t.Context(), p.db, order.TopicCreate, m, errors.New(reason), p.Now()); err != nil {
			t.Fatal(err)
		}
	}
	keep("order-"+orderID.String(), body, "forged")
	keep("garbage", []byte(`{"v":1,"phone":"+8613812345678","token":"abcdefghij0123456789ABCDEFGHIJ"`), "create message: unexpected end of JSON input")
	if dead, err := order.DeadLettered(t.Context(), p.db.Read, []order.Reservation{*r}); err != nil || len(dead) != 0 {
		t.Fatal("a forged letter stops the sweeper", dead, err)
	}
	if rs, err := order.DeadReservations(t.Context(), p.db.Read); err != nil || len(rs) != 0 {
		t.Fatal("a forged letter reserves", rs, err)
	}
	p.turn(t, d)
	p.advance(2 * time.Minute)
	p.turn(t, d)
	all, err := d.List(t.Context(), order.LetterFilter{}, 0, 10)
	if err != nil || len(all) != 2 {
		t.Fatal(len(all), err)
	}
	before := depth(t, p.broker, order.TopicCreate)
	for _, l := range all {
		if l.Ours || l.Sent != 0 {
			t.Errorf("%+v", l)
		}
		if _, err := d.Replay(t.Context(), l.ID, 9); !errors.Is(err, order.ErrLetterForeign) {
			t.Error(err)
		}
		content, err := d.Read(t.Context(), &l)
		if err != nil || content.Raw == "" || content.Reservations != nil || strings.Contains(content.Raw, "13812345678") || strings.Contains(content.Raw, "abcdefghij0123456789") {
			t.Errorf("%+v %v", content, err)
		}
		if _, err := d.Ignore(t.Context(), l.ID, 9, "seen"); err != nil {
			t.Error(err)
		}
	}
	if depth(t, p.broker, order.TopicCreate) != before {
		t.Error("something was sent")
	}
	p.drain(t)
	p.want(t, 4, 0, 4, 1)
	if st, _ := p.status(t, 1, orderID); st != order.Unpaid {
		t.Error("the true buyer's order:", st)
	}
}

// S9: a filtered replay tells first what it would do, and then does that.
func TestFilteredReplay(t *testing.T) { onBoth(t, testFilteredReplay) }

func testFilteredReplay(t *testing.T) {
	p := newPipeline(t, 9, 1)
	d := p.letters(t)
	for i := range 5 {
		r := order.Reservation{OrderID: id.ID(100 + i), SaleID: p.sale, VoucherID: 7, UserID: id.ID(10 + i), Amount: 4750, RequestID: fmt.Sprint("request-", i),
			AdmittedAt: p.Now().UnixMilli(), PayBefore: p.Now().Add(time.Hour).UnixMilli()}
		body, err := order.Encode([]order.Reservation{r})
		if err != nil {
			t.Fatal(err)
		}
		reason := fmt.Sprintf("CHECK 100%% violated (%d)", i%2)
		m := queue.Message{ID: "order-" + r.OrderID.String(), Body: body, Attempts: 2}
		if err := order.KeepDeadLetter(t.Context(), p.db, order.TopicCreate, m, errors.New(reason), p.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := order.KeepDeadLetter(t.Context(), p.db, order.TopicCreate, queue.Message{ID: "x", Body: []byte("{")}, errors.New("unreadable 100%"), p.Now()); err != nil {
		t.Fatal(err)
	}
	p.turn(t, d)
	for _, tc := range []struct {
		filter order.LetterFilter
		want   order.Batch
	}{
		{order.LetterFilter{}, order.Batch{Matched: 6, Replayed: 5, Foreign: 1}},
		{order.LetterFilter{Text: "check 100% VIOLATED (1"}, order.Batch{Matched: 2, Replayed: 2}},
		{order.LetterFilter{Text: "100_ violated"}, order.Batch{}},
		{order.LetterFilter{Topic: order.TopicCreated}, order.Batch{}},
		{order.LetterFilter{OrderID: 103}, order.Batch{Matched: 1, Replayed: 1}},
	} {
		if b, err := d.ReplayAll(t.Context(), tc.filter, 9, true); err != nil || b != tc.want {
			t.Errorf("%+v: %+v, want %+v (%v)", tc.filter, b, tc.want, err)
		}
	}
	if depth(t, p.broker, order.TopicCreate) != 0 {
		t.Fatal("a dry run sends nothing")
	}
	b, err := d.ReplayAll(t.Context(), order.LetterFilter{Text: "violated (0)"}, 9, false)
	if err != nil || b.Replayed != 3 || depth(t, p.broker, order.TopicCreate) != 3 {
		t.Fatalf("%+v %v", b, err)
	}
	p.drain(t)
	p.turn(t, d)
	for state, want := range map[order.LetterState]int{order.LetterFixed: 3, order.LetterPending: 3} {
		if got, err := d.List(t.Context(), order.LetterFilter{State: state}, 0, 10); err != nil || len(got) != want {
			t.Errorf("%d %s (%v)", len(got), state, err)
		}
	}
	page, err := d.List(t.Context(), order.LetterFilter{}, 0, 4)
	if err != nil || len(page) != 4 {
		t.Fatal(len(page), err)
	}
	if rest, err := d.List(t.Context(), order.LetterFilter{}, page[3].ID, 4); err != nil || len(rest) != 2 || rest[0].ID >= page[3].ID {
		t.Fatal(len(rest), err)
	}
}

// A message of several reservations that the broker gave up on as a whole: one letter, fixed when all have rows; a
// reservation of it that dies again alone is another death of the same letter.
func TestLetterOfSeveralReservations(t *testing.T) { onBoth(t, testLetterOfSeveralReservations) }

func testLetterOfSeveralReservations(t *testing.T) {
	p := newPipeline(t, 5, 1)
	d := p.letters(t)
	var rs []order.Reservation
	for user := range id.ID(3) {
		r, _, err := p.gate.Find(t.Context(), p.grab(t, user+1, "key-0000000"+user.String()))
		if err != nil || r == nil {
			t.Fatal(err)
		}
		rs = append(rs, *r)
	}
	if _, err := p.db.Write.Exec(`DELETE FROM queue_message`); err != nil {
		t.Fatal(err)
	}
	body, err := order.Encode(rs)
	if err != nil {
		t.Fatal(err)
	}
	if err := order.KeepDeadLetter(t.Context(), p.db, order.TopicCreate, queue.Message{ID: "hand-over-1", Body: body}, errors.New("the server gave up: delivery_limit"), p.Now()); err != nil {
		t.Fatal(err)
	}
	mend := refuseOrdersOf(t, p.db, 2)
	p.turn(t, d)
	p.advance(2 * time.Minute)
	p.turn(t, d) // each alone
	p.exhaust(t)
	p.turn(t, d)
	l := only(t, d)
	if l.State != order.LetterPending || l.Attempts != 4 || l.MessageID != "hand-over-1" {
		t.Fatalf("%+v", l)
	}
	p.want(t, 2, 1, 3, 2)
	if dead, err := order.DeadLettered(t.Context(), p.db.Read, rs); err != nil || !dead[rs[1].OrderID] {
		t.Fatal("the sweeper leaves it to a person", dead, err)
	}
	mend()
	if _, err := d.Replay(t.Context(), l.ID, 9); err != nil || depth(t, p.broker, order.TopicCreate) != 1 {
		t.Fatal("only what has no row is sent", err)
	}
	p.drain(t)
	p.turn(t, d)
	if l := only(t, d); l.State != order.LetterFixed {
		t.Fatalf("%+v", l)
	}
	p.want(t, 2, 0, 2, 3)
}

// A notification's success leaves no row: the consumer's ack fixes the letter.
func TestReplayedNotificationIsFixedByItsAck(t *testing.T) {
	onBoth(t, testReplayedNotificationIsFixedByItsAck)
}

func testReplayedNotificationIsFixedByItsAck(t *testing.T) {
	p := newPipeline(t, 5, 1)
	d := p.letters(t)
	m := queue.Message{ID: "event-1", Body: []byte(`{"v":1,"orderIds":["77"]}`), Attempts: 7}
	if err := order.KeepDeadLetter(t.Context(), p.db, order.TopicCreated, m, errors.New("webhook answers 500"), p.Now()); err != nil {
		t.Fatal(err)
	}
	p.turn(t, d)
	verdicts := []queue.Verdict{queue.Retry(time.Second, errors.New("still broken"))}
	handle := d.Watched(order.TopicCreated, func(context.Context, []queue.Message) []queue.Verdict { return verdicts })
	handle(t.Context(), []queue.Message{m})
	if l := only(t, d); l.State != order.LetterPending {
		t.Fatalf("%+v", l)
	}
	verdicts[0] = queue.Ack()
	handle(t.Context(), []queue.Message{{ID: "another"}, m}[1:])
	if l := only(t, d); l.State != order.LetterFixed {
		t.Fatalf("%+v", l)
	}
}

// F81: a row as the version before wrote it, without the new columns.
func TestLetterOfAnOlderVersion(t *testing.T) { onBoth(t, testLetterOfAnOlderVersion) }

func testLetterOfAnOlderVersion(t *testing.T) {
	p := newPipeline(t, 5, 1)
	d := p.letters(t)
	body := []byte(`{"v":1,"reservations":[{"orderId":"55","saleId":"` + p.sale.String() + `","voucherId":"7","userId":"3","slot":0,"amount":4750,"requestId":"old-request","admittedAt":` +
		fmt.Sprint(p.Now().UnixMilli()) + `,"payBefore":` + fmt.Sprint(p.Now().Add(time.Hour).UnixMilli()) + `}]}`)
	if _, err := p.db.Write.Exec(`INSERT INTO dead_letter (topic, message_id, body, reason, attempts, created_at) VALUES (?, 'order-55', ?, 'old', 2, ?)`,
		order.TopicCreate, body, p.Now().UnixMilli()); err != nil {
		t.Fatal(err)
	}
	if l, err := d.Replay(t.Context(), only(t, d).ID, 9); err != nil || !l.Ours || l.Attempts != 3 {
		t.Fatalf("%+v %v", l, err)
	}
	p.drain(t)
	p.turn(t, d)
	if l := only(t, d); l.State != order.LetterFixed {
		t.Fatalf("%+v", l)
	}
	p.want(t, 4, 0, 4, 1)
}
