package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"tandian/test/history"
)

// insistence is how long a buyer goes on asking: longer than any lever is held.
const insistence = 2 * time.Minute

// pursue has a buyer come at his time and ask until he knows, each time at the next door.
func (c *cycle) pursue(ctx context.Context, w wish) error {
	if err := wait(ctx, time.Until(c.began.Add(w.at))); err != nil {
		return err
	}
	b := c.buyers[w.buyer]
	pause := 20 * time.Millisecond
	for try, begun := 0, time.Now(); ; try++ {
		at := c.watches[(w.door+try)%len(c.watches)]
		op := c.grab(ctx, at, b, w)
		if c.settled(op) || w.givesUp && op.Outcome == history.Info {
			return nil
		}
		if time.Since(begun) > insistence {
			return fmt.Errorf("%s of user %s has no final answer after %v: %s %s", w.key, b.id, insistence, op.Outcome, op.Code)
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, 300*time.Millisecond)
	}
}

// settled reports whether asking again with the same key is no use. A sale that hasn't begun begins soon, a paused one
// is resumed, and who is taken for a stranger after Redis was emptied signs in again.
func (c *cycle) settled(op history.Op) bool {
	switch op.Code {
	case "sale.not_started", "sale.paused", "auth.required":
		return false
	}
	return op.Final()
}

// grab sends one request. Its answer is on record.
func (c *cycle) grab(ctx context.Context, at *watch, b buyer, w wish) history.Op {
	op := history.Op{User: b.id, Sale: c.sale, RequestID: w.key, Start: time.Now()}
	asking, cancel := context.WithTimeout(ctx, w.patience)
	defer cancel()
	a, _ := c.ask(asking, at.instance, "POST", "/api/v1/sales/"+c.sale+"/orders", b.token, "", "Idempotency-Key", w.key)
	op.End = time.Now()
	op.Read(a.status, []byte(a.text))
	c.history.Add(op)
	at.answered(op, a)
	if op.Outcome == history.OK {
		if _, known := c.dealt.LoadOrStore(op.OrderID, true); !known {
			c.deals.Go(func() { c.fail(c.dealWith(ctx, b, w, op.OrderID)) })
		}
	}
	return op
}

// shownOrder is what the loop reads of an order as its owner is shown it.
type shownOrder struct {
	Status     string // "" = not found
	RedeemCode string
	PayBefore  time.Time
}

// shown asks for an order in the name of its owner. It isn't known if there was no such answer.
func (w *town) shown(ctx context.Context, a *instance, token, orderID string) (o shownOrder, known bool) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	got, err := w.ask(ctx, a, "GET", "/api/v1/orders/"+orderID, token, "")
	if err != nil {
		return o, false
	}
	if got.status == http.StatusNotFound {
		return o, true
	}
	known = got.status == http.StatusOK && json.Unmarshal([]byte(got.text), &o) == nil
	return o, known
}
