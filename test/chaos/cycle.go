package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"tandian/test/history"
)

// cycle is one sale in which things are broken.
type cycle struct {
	*scene
	*plan
	history history.History
	began   time.Time
	lifted  time.Time // all levers are let go
	watches []*watch
	dealt   sync.Map       // orders that somebody deals with
	deals   sync.WaitGroup // who deals

	failed error // guarded by mu: what went wrong with the run itself
}

// fail notes an error of the run itself, if it is one.
func (c *cycle) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed = errors.Join(c.failed, err)
}

// verdict is what came of a cycle.
type verdict struct {
	*history.Report
	plan     *plan
	sale     string
	world    history.World
	troubles []string // what went wrong beside the promises to buyers: a process died, readiness lied
}

func (v *verdict) broken() bool { return len(v.Violations)+len(v.troubles) > 0 }

// String is the cycle's line of output, and what was broken on further ones.
func (v *verdict) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cycle %d %s: attempted %d ok %d fail %d info %d recovered %d lost %d ghost %d duplicated %d; acts %d paid %d used %d refunded %d closed %d; levers: %s; quiet after %.1f s",
		v.plan.cycle, v.plan.broker, v.Attempted, v.OK, v.Fail, v.Info, v.Recovered, v.Lost, v.Ghost, v.Duplicated,
		v.Acted, v.Ends["paid"], v.Ends["used"], v.Ends["refunded"], v.Ends["closed"], v.plan.levers(), v.world.Rest.Seconds())
	for _, one := range v.Violations {
		fmt.Fprintf(&b, "\n  %s: %s", one.Invariant, one.Text)
	}
	for _, one := range v.troubles {
		b.WriteString("\n  " + one)
	}
	return b.String()
}

// run sells one sale by the plan and judges it. An error is about the run itself, not about the product.
func (w *town) run(ctx context.Context, p *plan) (*verdict, *history.History, error) {
	c := &cycle{scene: &scene{town: w}, plan: p}
	if err := c.putUp(ctx); err != nil {
		return nil, nil, fmt.Errorf("put a sale up: %w", err)
	}
	looking, stop := context.WithCancel(ctx)
	defer stop()
	var lookers, rush, hands sync.WaitGroup
	lookers.Go(func() { c.sample(looking) })
	for _, a := range w.instances {
		at := &watch{town: w, instance: a}
		c.watches = append(c.watches, at)
		lookers.Go(func() { at.run(looking) })
	}
	for _, one := range p.wishes {
		rush.Go(func() { c.fail(c.pursue(ctx, one)) })
	}
	for _, one := range p.pulls {
		hands.Go(func() { c.fail(c.handle(ctx, c.began, one)) })
	}
	hands.Wait()
	c.lifted = time.Now()
	rush.Wait()
	c.deals.Wait()
	if ctx.Err() != nil {
		return nil, &c.history, ctx.Err()
	}
	err := c.failed
	for _, a := range w.instances {
		err = errors.Join(err, a.serves(ctx))
	}
	if err != nil {
		return nil, &c.history, err
	}
	v, err := c.judge(ctx)
	stop()
	lookers.Wait()
	if err != nil {
		return nil, &c.history, err
	}
	for _, at := range c.watches {
		v.troubles = append(v.troubles, at.troubles()...)
		v.troubles = append(v.troubles, at.instance.troubles()...)
	}
	return v, &c.history, nil
}

// putUp makes the sale and marks the beginning of the cycle.
func (c *cycle) putUp(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := c.tryPutUp(ctx)
		if err == nil {
			return nil
		}
		if wait(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
}

func (c *cycle) tryPutUp(ctx context.Context) error {
	door := c.instances[0]
	var made struct{ ID string }
	if err := c.create(ctx, door, "POST", "/api/v1/shops/"+shopID+"/vouchers", `{"title":"测试券","payValue":4750,"faceValue":10000}`, &made); err != nil {
		return err
	}
	c.began = time.Now()
	body := fmt.Sprintf(`{"stock":%d,"beginsAt":%q,"endsAt":%q,"limitPerUser":%d}`, c.stock, c.began.Add(c.begins).Format(time.RFC3339Nano),
		c.began.Add(c.ends).Format(time.RFC3339Nano), c.limit)
	if err := c.create(ctx, door, "POST", "/api/v1/vouchers/"+made.ID+"/sale", body, &made); err != nil {
		return err
	}
	c.sale = made.ID
	return nil
}

// create asks in the operator's name for something that must succeed.
func (c *cycle) create(ctx context.Context, at *instance, method, path, body string, into any) error {
	a, err := c.operate(ctx, at, method, path, body)
	if err != nil {
		return err
	}
	if a.status/100 != 2 {
		return fmt.Errorf("%s %s: %d %s", method, path, a.status, a.text)
	}
	return json.Unmarshal([]byte(a.text), into)
}

// judge waits until all is quiet, asks every instance in the name of the owners for all orders that were told, and
// judges.
func (c *cycle) judge(ctx context.Context) (*verdict, error) {
	v := &verdict{plan: c.plan, sale: c.sale}
	w := history.World{Bound: c.bound(), Troubles: c.troubles}
	cause, err := c.lastCause(ctx)
	if err != nil {
		return nil, err
	}
	last, err := c.rest(ctx, cause.Add(w.Bound))
	if err != nil {
		return nil, err
	}
	w.Rest = max(0, last.since.Sub(cause))
	if err := w.ReadSale(ctx, c.db, c.sale); err != nil {
		return nil, err
	}
	sale := w.Sales[c.sale]
	sale.Gate, sale.Held, sale.AtRest = last.Gate.Stock, last.Gate.Orders, last.AtRest
	w.Sales[c.sale] = sale
	c.show(ctx, &w)
	v.Report, v.world = history.Check(&c.history, w), w
	for _, a := range c.instances {
		differences, err := c.reconcile(ctx, a)
		if err != nil {
			return nil, err
		}
		for _, text := range differences {
			v.Violations = append(v.Violations, history.Violation{Invariant: "I5", Text: text})
		}
	}
	var dead int
	if err := c.db.Read.NewRaw(`SELECT COUNT(*) FROM dead_letter`).Scan(ctx, &dead); err != nil {
		return nil, err
	}
	if dead > 0 {
		v.troubles = append(v.troubles, fmt.Sprintf("%d dead letters, though no message was at fault", dead))
	}
	return v, nil
}

// show asks for every told order at every instance. The first answer that isn't the row's state is kept.
func (c *cycle) show(ctx context.Context, w *history.World) {
	tokens := map[string]string{}
	for _, b := range c.buyers {
		tokens[b.id] = b.token
	}
	for _, op := range c.history.Told() {
		for _, a := range c.instances {
			o, known := c.shown(ctx, a, tokens[op.User], op.OrderID)
			status := o.Status
			if !known {
				status = "no answer"
			}
			if earlier, ok := w.Shown[op.OrderID]; !ok || earlier == w.Rows[op.OrderID].Status {
				w.Shown[op.OrderID] = status
			}
		}
	}
}

// inspection is the operator's view of a sale.
type inspection struct {
	Released int64
	AtRest   bool
	Gate     struct {
		Loaded                 bool
		Stock, Pending, Orders int64
	}
	DB struct{ Stock, Live, Failed int64 }

	moneyUnderWay int64 // see there
}

// standing is what the instances see of a sale, and since when they have seen the same.
type standing struct {
	inspection
	same  bool // they agree
	since time.Time
}

// next is the standing after another look. A look at which they don't agree is like no other.
func (s standing) next(seen inspection, same bool, now time.Time) standing {
	if !same || !s.same || seen != s.inspection {
		return standing{seen, same, now}
	}
	return s
}

// rests reports whether the sale has been at rest for long enough.
func (s standing) rests(now time.Time) bool {
	return s.same && s.AtRest && s.moneyUnderWay == 0 && now.Sub(s.since) >= quiet
}

// quiet is how long the instances must see the same before it counts as rest.
const quiet = time.Second

// rest returns the sale when it has come to rest, or as it stands at the deadline.
func (c *cycle) rest(ctx context.Context, deadline time.Time) (last standing, err error) {
	for {
		seen, same := c.look(ctx)
		now := time.Now()
		last = last.next(seen, same, now)
		if rests := last.rests(now); rests || now.After(deadline) {
			last.AtRest = rests
			return last, nil
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return last, err
		}
	}
}

// look asks all instances, and the database about money. They agree if all of them answer, have the gate and see the same.
func (c *cycle) look(ctx context.Context) (seen inspection, same bool) {
	for i, a := range c.instances {
		var one inspection
		err := c.create(ctx, a, "GET", "/api/v1/console/sales/"+c.sale, "", &one)
		if err != nil || !one.Gate.Loaded || i > 0 && one != seen {
			return one, false
		}
		seen = one
	}
	underWay, err := c.moneyUnderWay(ctx)
	seen.moneyUnderWay = underWay
	return seen, err == nil
}

// sample looks into the database all the time: nothing may be sold twice at any moment. A look that fails, because
// the database is away, is none.
func (c *cycle) sample(ctx context.Context) {
	for wait(ctx, 50*time.Millisecond) == nil {
		s := history.Sample{Sale: c.sale, At: time.Now()}
		err := c.db.Read.NewRaw(`SELECT stock_released, stock, (SELECT COUNT(*) FROM orders WHERE sale_id = sale.id AND slot IS NOT NULL) FROM sale WHERE id = ?`, c.sale).
			Scan(ctx, &s.Released, &s.Stock, &s.Live)
		if err == nil {
			err = c.db.Read.NewRaw(`SELECT order_id FROM gate_release WHERE sale_id = ?`, c.sale).Scan(ctx, &s.Releases)
		}
		if err == nil {
			c.history.Look(s)
		}
	}
}
