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

// probe runs a small sale of its own: attempts before its begin and after its
// end, and orders the writer must refuse so that their units go back.
func (g *grab) probe(ctx context.Context) error {
	g.meter.enter("window and conflicts", 0)
	begin := g.serverNow().Add(600 * time.Millisecond)
	s := sale{stock: 2 * probeUsers, limit: 1, begin: begin, end: begin.Add(2 * time.Second)}
	if err := g.open(ctx, "bench probe", s); err != nil {
		return err
	}
	next := g.opts.Users
	try := func(n int, want Outcome) {
		first := next
		next += n
		g.clients.each(ctx, n, func(c *conn, i int) {
			g.attempt(ctx, c, Op{Sale: probeSale, User: first + i, Want: want}, time.Time{})
		})
	}
	try(earlyUsers, NotStarted)
	if err := g.awaitServerTime(ctx, begin.Add(50*time.Millisecond)); err != nil {
		return err
	}
	if err := g.conflict(ctx, next, try); err != nil {
		return err
	}
	// The requests leave a little before the end; those admitted in time may be
	// accepted, and their admittedAt must show it.
	next = g.opts.Users + earlyUsers + 1 + conflictUsers
	if err := g.awaitServerTime(ctx, s.end.Add(-3*time.Millisecond)); err != nil {
		return err
	}
	try(edgeUsers, Unknown)
	if err := g.awaitServerTime(ctx, s.end.Add(100*time.Millisecond)); err != nil {
		return err
	}
	try(lateUsers, Ended)
	return ctx.Err()
}

// conflict needs the database: it plants an order for each of some users and
// lets them buy. The gate admits them; the writer finds their place taken, the
// order fails and its unit must return exactly once.
func (g *grab) conflict(ctx context.Context, user int, try func(int, Outcome)) error {
	s := g.sales[probeSale]
	try(1, Accepted)
	template := g.history.Ops[len(g.history.Ops)-1]
	if g.db == nil || template.Outcome != Accepted {
		return nil
	}
	ctxWait, cancel := context.WithDeadline(ctx, time.Now().Add(s.end.Sub(g.serverNow())/2))
	defer cancel()
	for rows := int64(0); rows < 1; {
		rows, _ = g.db.written(ctxWait, s.id) // a busy database is asked again
		if sleep(ctxWait, 5*time.Millisecond) != nil {
			return ctx.Err() // an order that never gets its row is judged later
		}
	}
	for i := range conflictUsers {
		id, err := g.userID(ctx, user+1+i)
		if err != nil {
			return err
		}
		planted, err := g.db.plant(ctx, template.ID, s.id, id)
		if err != nil {
			return err
		}
		g.planted[planted] = true
	}
	try(conflictUsers, Unknown)
	return nil
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
