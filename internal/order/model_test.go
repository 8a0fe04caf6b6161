package order_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// Every actor does what he likes, in any order, twice and too late. After each step the rows are exactly what a small
// model says: status, history, code, stock, what the gate still has to take back; and the gate, once it has, agrees.
func TestLifeAgainstAModel(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		for _, table := range []string{"shop", "voucher"} { // newTown makes its own in each run
			must(t, store.Exec(t.Context(), db.Write, "DELETE FROM "+table))
		}
		runs := 0
		rapid.Check(t, func(rt *rapid.T) {
			if runs++; runs > 20 && strings.HasPrefix(db.Name, "MySQL") { // it is slower, and has the same code
				return
			}
			for _, table := range []string{"shop", "voucher", "sale", "orders", "order_move", "redeem_code", "gate_release", "pay_check", "outbox", "queue_message", "audit_log"} {
				must(t, store.Exec(t.Context(), db.Write, "DELETE FROM "+table))
			}
			l := &life{town: newTown(t, db, modelStock, 2), t: t, model: map[id.ID]*modelled{}}
			l.ends = l.number(t, `SELECT ends_at FROM sale`)
			l.forwarder = &order.Forwarder{DB: db, Broker: l.broker}
			for range 2 {
				rt.Repeat(map[string]func(*rapid.T){
					"buy":     func(rt *rapid.T) { l.grab(rt) },
					"sell":    l.sell,
					"pay":     l.payment,
					"give up": l.giveUp,
					"scan":    l.scanned,
					"check":   l.checked,
					"refund":  l.refund,
					"money":   l.moneyIsBack,
					"redeem":  l.redeem,
					"undo":    l.undo,
					"hurry":   l.hurry,
					"expire":  l.expire,
					"release": func(*rapid.T) { must(t, l.releaser.Turn(t.Context())); l.releases = nil },
					"time":    l.pass,
					"":        l.compare,
				})
			}
			must(t, l.releaser.Turn(t.Context()))
			l.releases = nil
			l.compare(rt)
			l.mustBalance(t, modelStock)
		})
	})
}

const (
	modelStock = 4
	modelUsers = 2
)

// modelled is what the model knows of an order.
type modelled struct {
	user                  id.ID
	status                order.Status
	steps                 []order.Status
	payBefore             int64
	validUntil, usedSince int64
}

type life struct {
	*town
	t         *testing.T
	forwarder *order.Forwarder
	ends      int64 // of the sale
	model     map[id.ID]*modelled
	releases  []id.ID
}

func (l *life) now() int64 { return l.ms.Load() }

// some draws one of the orders; nil if there is none.
func (l *life) some(rt *rapid.T) (id.ID, *modelled) {
	if len(l.model) == 0 {
		rt.Skip("no order yet")
	}
	var ids []id.ID
	for v := range l.model {
		ids = append(ids, v)
	}
	slices.Sort(ids)
	v := rapid.SampledFrom(ids).Draw(rt, "order")
	return v, l.model[v]
}

// to is a move of the model's.
func (l *life) to(v id.ID, s order.Status) {
	m := l.model[v]
	m.status = s
	m.steps = append(m.steps, s)
	if s == order.Closed || s == order.Refunded {
		l.releases = append(l.releases, v)
	}
}

func (l *life) check(rt *rapid.T, what string, got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		rt.Fatalf("%s: %v, the model says %v", what, got, want)
	}
}

// grab buys through the gate, which may know less room than the model: it hears of ended orders later.
func (l *life) grab(rt *rapid.T) id.ID {
	user := id.ID(rapid.IntRange(1, modelUsers).Draw(rt, "buyer"))
	v, err := l.sales.Grab(l.t.Context(), user, l.sale, fmt.Sprintf("key-%08d", len(l.model)))
	held, sold := 0, 0
	for v, m := range l.model {
		if m.status.Live() || slices.Contains(l.releases, v) {
			sold++
			if m.user == user {
				held++
			}
		}
	}
	if want := l.now() < l.ends && sold < modelStock && held < 2; (err == nil) != want {
		rt.Fatalf("buyer %d got %v; he holds %d, %d are sold", user, err, held, sold)
	}
	if err != nil {
		return 0
	}
	l.write(l.t)
	must(l.t, l.forwarder.Turn(l.t.Context()))
	l.model[v] = &modelled{user: user, payBefore: l.now() + payWindow.Milliseconds()}
	l.to(v, order.Unpaid)
	return v
}

// sell is a purchase that is paid at once.
func (l *life) sell(rt *rapid.T) {
	if v := l.grab(rt); v != 0 {
		l.check(rt, "paid", l.pay(l.t, v), true)
		l.isPaid(v)
	}
}

func (l *life) isPaid(v id.ID) {
	l.model[v].validUntil = l.now() + (validDays * 24 * time.Hour).Milliseconds()
	l.to(v, order.Paid)
}

// payment is money, in time or not, now told of or late.
func (l *life) payment(rt *rapid.T) {
	v, m := l.some(rt)
	paidAt := m.payBefore + int64(rapid.IntRange(-2, 1).Draw(rt, "ms after the deadline"))
	want := m.status == order.Unpaid && paidAt < m.payBefore
	l.check(rt, "paid", l.payAt(l.t, v, paidAt), want)
	if want {
		l.isPaid(v)
	}
}

func (l *life) giveUp(rt *rapid.T) {
	v, m := l.some(rt)
	stranger := rapid.Bool().Draw(rt, "by a stranger")
	user := m.user
	if stranger {
		user++
	}
	_, err := l.orders.Close(l.t.Context(), user, v)
	switch {
	case stranger:
		l.check(rt, "a stranger's close", errors.Is(err, order.ErrNotFound), true)
	case m.status == order.Unpaid:
		l.check(rt, "close", err, nil)
		l.to(v, order.Closed)
	default:
		l.check(rt, "close", errors.Is(err, order.ErrNotClosable), m.status != order.Closed)
	}
}

// overdue closes in the model what a scan or a check would.
func (l *life) overdue() {
	for v, m := range l.model {
		if m.status == order.Unpaid && m.payBefore <= l.now() {
			l.to(v, order.Closed)
		}
	}
}

func (l *life) scanned(*rapid.T) {
	l.scan(l.t)
	l.overdue()
}

// checked delivers all check messages, due or not, twice.
func (l *life) checked(*rapid.T) {
	var rows []struct{ Body []byte }
	must(l.t, l.db.Read.NewSelect().Table("queue_message").Column("body").Where("topic = ?", order.TopicCheck).Order("id").Scan(l.t.Context(), &rows))
	var batch []queue.Message
	for _, r := range slices.Concat(rows, rows) {
		batch = append(batch, queue.Message{ID: "again", Body: r.Body})
	}
	must(l.t, store.Exec(l.t.Context(), l.db.Write, `DELETE FROM queue_message WHERE topic = ?`, order.TopicCheck))
	for i, v := range l.checker.Handle(l.t.Context(), batch) {
		if v != queue.Ack() {
			l.t.Fatalf("check %d: %+v", i, v)
		}
	}
	l.overdueOf(rows)
}

// overdueOf is overdue for the orders that the messages name.
func (l *life) overdueOf(rows []struct{ Body []byte }) {
	for v, m := range l.model {
		named := slices.ContainsFunc(rows, func(r struct{ Body []byte }) bool { return bytes.Contains(r.Body, []byte(`"`+v.String()+`"`)) })
		if named && m.status == order.Unpaid && m.payBefore <= l.now() {
			l.to(v, order.Closed)
		}
	}
}

func (l *life) refund(rt *rapid.T) {
	v, m := l.some(rt)
	l.check(rt, "refunding", l.refunding(l.t, v), m.status == order.Paid)
	if m.status == order.Paid {
		l.to(v, order.Refunding)
	}
}

func (l *life) moneyIsBack(rt *rapid.T) {
	v, m := l.some(rt)
	l.check(rt, "refunded", l.refunded(l.t, v), m.status == order.Refunding)
	if m.status == order.Refunding {
		l.to(v, order.Refunded)
	}
}

// atCounter is the clerk, or one of another shop.
func (l *life) atCounter(rt *rapid.T) (context.Context, bool) {
	if rapid.IntRange(0, 4).Draw(rt, "counter") == 0 {
		return as(l.t.Context(), otherClerk, identity.Clerk), false
	}
	return as(l.t.Context(), clerk, identity.Clerk), true
}

func (l *life) redeem(rt *rapid.T) {
	v, m := l.some(rt)
	if m.validUntil == 0 {
		rt.Skip("no code yet")
	}
	ctx, mine := l.atCounter(rt)
	_, err := l.redeemer.Redeem(ctx, l.code(l.t, v))
	var want error
	switch {
	case !mine:
		want = order.ErrOtherShop
	case m.status == order.Used:
		want = order.ErrRedeemed
	case m.status != order.Paid:
		want = order.ErrCodeRefunded
	case m.validUntil <= l.now():
		want = order.ErrCodeExpired
	}
	if !errors.Is(err, want) {
		rt.Fatalf("redeem: %v, the model says %v", err, want)
	}
	if want == nil {
		m.usedSince = l.now()
		l.to(v, order.Used)
	}
}

func (l *life) undo(rt *rapid.T) {
	v, m := l.some(rt)
	ctx, mine := l.atCounter(rt)
	_, err := l.redeemer.Undo(ctx, v)
	var want error
	switch {
	case m.validUntil == 0:
		want = order.ErrNoCode
	case !mine:
		want = order.ErrOtherShop
	case m.status == order.Paid:
	case m.status != order.Used || l.now() >= m.usedSince+60_000:
		want = order.ErrUndoLate
	}
	if !errors.Is(err, want) {
		rt.Fatalf("undo: %v, the model says %v", err, want)
	}
	if want == nil && m.status == order.Used {
		l.to(v, order.Paid)
	}
}

// hurry takes an order to the very end of its time, whichever that is, or to a millisecond before it.
func (l *life) hurry(rt *rapid.T) {
	_, m := l.some(rt)
	end := map[order.Status]int64{order.Unpaid: m.payBefore, order.Paid: m.validUntil, order.Used: m.usedSince + 60_000}[m.status]
	if end -= int64(rapid.IntRange(0, 1).Draw(rt, "ms before")); end > l.now() {
		l.ms.Store(end)
	}
}

func (l *life) expire(*rapid.T) {
	must(l.t, l.expirer.Turn(l.t.Context()))
	for v, m := range l.model {
		if m.status == order.Paid && m.validUntil <= l.now() {
			l.to(v, order.Refunding)
		}
	}
}

func (l *life) pass(rt *rapid.T) {
	l.advance(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, time.Minute, payWindow}).Draw(rt, "pause"))
}

// compare reads all rows.
func (l *life) compare(rt *rapid.T) {
	var orders []order.Order
	must(l.t, l.db.Read.NewSelect().Model(&orders).Scan(l.t.Context()))
	l.check(rt, "orders", len(orders), len(l.model))
	live := 0
	for _, o := range orders {
		m := l.model[o.ID]
		if o.Status != m.status || (o.Slot != nil) != m.status.Live() {
			rt.Fatalf("order %d is %v with slot %v, the model says %v", o.ID, o.Status, o.Slot, m.status)
		}
		if o.Status.Live() {
			live++
		}
		var moves []order.Move
		must(l.t, l.db.Read.NewSelect().Model(&moves).Where("order_id = ?", o.ID).Order("id").Scan(l.t.Context()))
		steps := []order.Status{order.Unpaid}
		for _, s := range moves {
			l.check(rt, "the beginning of a move", s.FromStatus, steps[len(steps)-1])
			steps = append(steps, s.ToStatus)
		}
		l.check(rt, "history", steps, m.steps)
		if m.validUntil != 0 {
			l.check(rt, "used", l.number(l.t, `SELECT COALESCE(MAX(redeemed_at), 0) FROM redeem_code WHERE order_id = ?`, o.ID) != 0, m.status == order.Used)
		}
	}
	l.check(rt, "stock", l.stock(l.t), modelStock-live)
	var waiting []id.ID
	must(l.t, l.db.Read.NewRaw(`SELECT order_id FROM gate_release ORDER BY order_id`).Scan(l.t.Context(), &waiting))
	slices.Sort(l.releases)
	l.check(rt, "releases", waiting, l.releases)
}
