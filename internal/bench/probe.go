package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Users of the small sale. They come after the users of the main sale.
const (
	earlyUsers    = 8  // try before the begin
	conflictUsers = 10 // already own an order the gate does not know of
	edgeUsers     = 8  // try within milliseconds of the end
	lateUsers     = 8  // try after the end
	probeUsers    = earlyUsers + 1 + conflictUsers + edgeUsers + lateUsers
)

// clockMargin is how far the clocks of one server's parts, such as its gate and its page, may be apart.
const clockMargin = 50 * time.Millisecond

// probe runs a small sale of its own: attempts before its begin and after its end, and orders the writer must refuse so
// that their units go back.
func (g *grab) probe(ctx context.Context) error {
	g.meter.enter("window and conflicts", 0)
	if err := g.open(ctx, 2*probeUsers, 1, 600*time.Millisecond, 1500*time.Millisecond); err != nil {
		return err
	}
	user := g.opts.Users
	if err := g.try(ctx, user, earlyUsers, "scheduled", NotStarted); err != nil {
		return err
	}
	user += earlyUsers
	if err := g.awaitPhase(ctx, probeSale, "live"); err != nil {
		return err
	}
	if err := g.conflict(ctx, user); err != nil {
		return err
	}
	user += 1 + conflictUsers
	// The requests leave a little before the end; those admitted in time may be accepted, and their admittedAt must show it.
	v, err := g.api.sale(ctx, g.sales[probeSale].ID)
	if err != nil || sleep(ctx, v.EndsAt.Sub(v.ServerTime)-3*time.Millisecond) != nil {
		return err
	}
	if err := g.try(ctx, user, edgeUsers, "live", Unknown); err != nil {
		return err
	}
	user += edgeUsers
	if err := g.awaitPhase(ctx, probeSale, "ended"); err != nil {
		return err
	}
	return g.try(ctx, user, lateUsers, "ended", Ended)
}

// awaitPhase waits until the server says that a sale has reached the phase, and for clockMargin more.
func (g *grab) awaitPhase(ctx context.Context, sale int, phase string) error {
	for {
		v, err := g.api.sale(ctx, g.sales[sale].ID)
		if err != nil {
			return err
		}
		if v.Phase == phase {
			return sleep(ctx, clockMargin)
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// try lets n users from first on buy at the small sale during a phase that awaitPhase has seen begin. The outcome want
// is demanded of them only if the phase is certain to have lasted until all were answered.
func (g *grab) try(ctx context.Context, first, n int, phase string, want Outcome) error {
	from := len(g.history.Ops)
	g.clients.each(ctx, n, func(c *conn, i int) {
		g.attempt(ctx, c, Op{Sale: probeSale, User: first + i}, time.Time{}, "")
	})
	v, err := g.api.sale(ctx, g.sales[probeSale].ID)
	if err != nil {
		return err
	}
	next := map[string]time.Time{"scheduled": v.BeginsAt, "live": v.EndsAt}[phase] // none after the end
	if v.Phase == phase && (next.IsZero() || v.ServerTime.Add(clockMargin).Before(next)) {
		for i := range g.history.Ops[from:] {
			g.history.Ops[from+i].Want = want
		}
	}
	return nil
}

// conflict needs the database: it plants an order for each of some users and lets them buy. The gate admits them; the
// writer finds their place taken, the order fails and its unit must return exactly once.
func (g *grab) conflict(ctx context.Context, user int) error {
	if err := g.try(ctx, user, 1, "live", Accepted); err != nil {
		return err
	}
	template := g.history.Ops[len(g.history.Ops)-1]
	if g.db == nil || template.Outcome != Accepted {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for rows := int64(0); rows < 1; {
		rows, _ = g.rows(wait, probeSale) // a busy database is asked again
		if sleep(wait, 5*time.Millisecond) != nil {
			return ctx.Err() // an order that never gets its row is judged later
		}
	}
	var owners []int64
	for i := range conflictUsers {
		id, err := g.userID(ctx, user+1+i)
		if err != nil {
			return err
		}
		owners = append(owners, id)
	}
	planted, err := g.plant(ctx, template.ID, g.sales[probeSale].ID, owners)
	if err != nil {
		return err
	}
	for _, id := range planted {
		g.planted[id] = true
	}
	return g.try(ctx, user+1, conflictUsers, "live", Unknown)
}

// userID asks who a test user is.
func (g *grab) userID(ctx context.Context, user int) (int64, error) {
	own := *g.api
	own.token = g.tokens[user]
	var me struct{ ID string }
	if err := own.call(ctx, http.MethodGet, "/me", nil, &me); err != nil {
		return 0, fmt.Errorf("ask who a test user is: %w", err)
	}
	return strconv.ParseInt(me.ID, 10, 64)
}
