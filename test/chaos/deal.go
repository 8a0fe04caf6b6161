package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tandian/test/history"
)

// anew marks the key with which a buyer buys again.
const anew = "-anew"

const (
	settlesWithin = 30 * time.Second // how long a buyer looks whether his order gets on
	glanceFor     = 4 * time.Second  // how long one looks who won't do anything with it
	actsWithin    = 75 * time.Second // a request about an order is answered: a lever is let go, and the bound of B5 is over
)

// dealing is a buyer at work on an order of his.
type dealing struct {
	*cycle
	deed
	ctx     context.Context
	buyer   buyer
	wish    wish
	orderID string
	order   shownOrder   // as he saw it last
	door    atomic.Int32 // where he turned to last

	mu       sync.Mutex
	payments []string // guarded by mu: for which the cashier has taken money
}

// dealWith looks after an order that was told until it has its row, and does with it what is planned. One observer an
// order, so that the sightings are in the order of the questions.
func (c *cycle) dealWith(ctx context.Context, b buyer, w wish, orderID string) error {
	planned, ok := c.deeds[w.key]
	d := &dealing{cycle: c, deed: planned, ctx: ctx, buyer: b, wish: w, orderID: orderID}
	d.door.Store(int32(w.door))
	if !ok {
		d.await(glanceFor, "unpaid", "failed")
		return nil
	}
	if d.await(settlesWithin, "unpaid", "failed"); d.order.Status != "unpaid" {
		return nil
	}
	at := time.Now().Add(d.pause)
	if d.atEnd {
		at = d.order.PayBefore.Add(d.pause)
	}
	if err := wait(ctx, time.Until(at)); err != nil {
		return err
	}
	if err := d.does.do(d); err != nil {
		return err
	}
	if d.does.brings && len(d.payments) > 0 {
		if err := d.follow(); err != nil {
			return err
		}
	}
	for _, payment := range d.payments { // the provider isn't sure that it has been heard, even now
		if err := d.callBack(payment); err != nil {
			return err
		}
	}
	return d.buyAgain()
}

// follow does what comes after a payment.
func (d *dealing) follow() error {
	if d.await(settlesWithin, "paid", "closed"); d.order.Status != "paid" {
		return nil
	}
	if err := wait(d.ctx, d.later); err != nil {
		return err
	}
	return d.then.do(d)
}

// buyAgain buys with another key once the order has ended and its slot is free.
func (d *dealing) buyAgain() error {
	if !d.anew || d.order.Status != "closed" && d.order.Status != "refunded" {
		return nil
	}
	w := d.wish
	w.key, w.door, w.givesUp = w.key+anew, w.door+1, false
	if err := wait(d.ctx, 300*time.Millisecond); err != nil { // the gate is about to hear of it
		return err
	}
	return d.pursue(d.ctx, w)
}

// await looks at the order at one door after the other until it stands as wanted, or the time is over.
func (d *dealing) await(within time.Duration, wanted ...string) {
	pause := 50 * time.Millisecond
	for i, begun := 0, time.Now(); time.Since(begun) < within; i++ {
		at := d.instances[i%len(d.instances)]
		if o, known := d.shown(d.ctx, at, d.buyer.token, d.orderID); known {
			d.history.See(history.Sighting{OrderID: d.orderID, Status: o.Status, By: at.name, At: time.Now()})
			d.order = o
			for _, status := range wanted {
				if o.Status == status {
					return
				}
			}
		}
		if wait(d.ctx, pause) != nil {
			return
		}
		pause = min(2*pause, time.Second)
	}
}

// ask is one request; at is the instance.
type ask func(ctx context.Context, at *instance) (answer, error)

// insist repeats a request, each time at the next door and with more patience, until it is answered for good. Every
// answer is on record.
func (d *dealing) insist(door int, act history.Act, ask ask) (history.Act, answer, error) {
	act.OrderID = d.orderID
	patience, pause := d.wish.patience, 50*time.Millisecond
	for try, begun := 0, time.Now(); ; try++ {
		at := d.watches[(door+try)%len(d.watches)]
		one := act
		asking, cancel := context.WithTimeout(d.ctx, patience)
		one.Start = time.Now()
		a, _ := ask(asking, at.instance)
		one.End = time.Now()
		cancel()
		one.Read(a.status, []byte(a.text))
		d.history.Did(one)
		at.told(string(act.Kind), a)
		if one.Final() {
			return one, a, nil
		}
		if time.Since(begun) > actsWithin {
			return one, a, fmt.Errorf("%s of order %s has no final answer after %v: %d %s", act.Kind, d.orderID, actsWithin, a.status, a.code)
		}
		if err := wait(d.ctx, pause); err != nil {
			return one, a, err
		}
		patience, pause = min(2*patience, 5*time.Second), min(2*pause, time.Second)
	}
}

// next is another door than the last.
func (d *dealing) next() int {
	return int(d.door.Add(1))
}

// together does all at once, each at a door of its own.
func (d *dealing) together(deeds ...func(door int) error) error {
	failed := make([]error, len(deeds))
	var all sync.WaitGroup
	for i, do := range deeds {
		door := d.next()
		all.Go(func() { failed[i] = do(door) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// close gives the order up.
func (d *dealing) close(door int) error {
	_, _, err := d.insist(door, history.Act{Kind: history.Close}, func(ctx context.Context, at *instance) (answer, error) {
		return d.ask(ctx, at, "POST", "/api/v1/orders/"+d.orderID+"/close", d.buyer.token, "")
	})
	return err
}

func (d *dealing) refund(door int) error {
	_, _, err := d.insist(door, history.Act{Kind: history.Refund}, func(ctx context.Context, at *instance) (answer, error) {
		return d.ask(ctx, at, "POST", "/api/v1/orders/"+d.orderID+"/refund", d.buyer.token, `{"reason":"chaos"}`)
	})
	return err
}

// redeem has somebody at the shop's counter use the code up.
func (d *dealing) redeem(door int) (done bool, err error) {
	act, _, err := d.insist(door, history.Act{Kind: history.Redeem}, func(ctx context.Context, at *instance) (answer, error) {
		return d.as(ctx, counterPhones[door%len(counterPhones)], at, "POST", "/api/v1/redemptions", fmt.Sprintf(`{"code":%q}`, d.order.RedeemCode))
	})
	return act.Outcome == history.OK || act.Code == "redeem.used", err
}

func (d *dealing) undo(door int) error {
	_, _, err := d.insist(door, history.Act{Kind: history.Undo}, func(ctx context.Context, at *instance) (answer, error) {
		return d.as(ctx, counterPhones[door%len(counterPhones)], at, "POST", "/api/v1/redemptions/"+d.orderID+"/undo", "")
	})
	return err
}

func leave(d *dealing) error {
	d.await(settlesWithin, "closed")
	return nil
}

func giveUp(d *dealing) error {
	if err := d.close(d.next()); err != nil {
		return err
	}
	d.await(settlesWithin, "closed")
	return nil
}

func payNow(d *dealing) error     { return d.pay(d.next(), "pay") }
func payUnheard(d *dealing) error { return d.pay(d.next(), "silent") }

// payLate has the money come after the deadline. The order is closed all the same.
func payLate(d *dealing) error {
	if err := d.pay(d.next(), "late"); err != nil {
		return err
	}
	d.await(settlesWithin, "closed")
	return nil
}

func payInVain(d *dealing) error {
	if err := d.pay(d.next(), "fail"); err != nil {
		return err
	}
	d.await(settlesWithin, "closed")
	return nil
}

func payAtTheSecondTry(d *dealing) error {
	if err := d.pay(d.next(), "fail"); err != nil {
		return err
	}
	return d.pay(d.next(), "pay")
}

// payTwice begins in two tabs, and in both the buyer pays.
func payTwice(d *dealing) error {
	pay := func(door int) error { return d.pay(door, "pay") }
	return d.together(pay, pay)
}

func payAndGiveUp(d *dealing) error {
	return d.together(func(door int) error { return d.pay(door, "pay") }, d.close)
}

func refundIt(d *dealing) error {
	if err := d.refund(d.next()); err != nil {
		return err
	}
	d.await(settlesWithin, "refunded")
	return nil
}

func refundTwice(d *dealing) error {
	if err := d.together(d.refund, d.refund); err != nil {
		return err
	}
	d.await(settlesWithin, "refunded")
	return nil
}

func redeemIt(d *dealing) error {
	_, err := d.redeem(d.next())
	return err
}

// redeemTwice has two clerks take the same code at the same moment, and one of them once more.
func redeemTwice(d *dealing) error {
	redeem := func(door int) error { _, err := d.redeem(door); return err }
	if err := d.together(redeem, redeem); err != nil {
		return err
	}
	return redeem(d.next())
}

func redeemAndUndo(d *dealing) error {
	done, err := d.redeem(d.next())
	if err != nil || !done {
		return err
	}
	return d.undo(d.next())
}

func redeemUndoRefund(d *dealing) error {
	if err := redeemAndUndo(d); err != nil {
		return err
	}
	return refundIt(d)
}

func redeemAgainstRefund(d *dealing) error {
	err := d.together(d.refund, func(door int) error { _, err := d.redeem(door); return err })
	if err != nil {
		return err
	}
	d.await(settlesWithin, "refunded", "used")
	return nil
}
