package bench

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// facts collects what exists once the sales are at rest.
func (g *grab) facts(ctx context.Context) (Facts, error) {
	g.meter.enter("rest", 0)
	f := Facts{
		Lookups: map[string]Order{}, Unverified: map[string]bool{}, Missed: g.missed, Rows: map[string]Order{}, Complete: g.db != nil,
		Planted: g.planted, Stuck: int(g.stuck), Excused: map[string]bool{},
	}
	for i := range g.sales {
		s, err := g.saleFacts(ctx, i)
		if err != nil {
			return f, err
		}
		f.Sales = append(f.Sales, s)
	}
	g.lookups(ctx, &f)
	for i, s := range g.sales {
		if g.db == nil {
			break
		}
		if err := g.db.readOrders(ctx, s.ID, i, f.Rows); err != nil {
			return f, err
		}
	}
	return f, g.excuse(ctx, &f)
}

// saleFacts takes a sale's figures at rest, from SQL where it can be read.
func (g *grab) saleFacts(ctx context.Context, i int) (SaleFacts, error) {
	timeout := g.opts.RestTimeout
	if g.stalled {
		timeout = 2 * time.Second // it has had its time
	}
	sale := g.sales[i]
	state, ok := g.rest(ctx, i, timeout)
	f := SaleFacts{
		Limit: sale.LimitPerUser, BeginsAt: sale.BeginsAt, EndsAt: sale.EndsAt,
		Released: state.Released, Stock: state.DB.Stock, Live: state.DB.Live, Failed: state.DB.Failed,
		PeakLive: g.peaks[i], OverLimit: state.DB.OverLimit, AtRest: ok, QueueEmpty: state.queueEmpty(),
	}
	if state.Gate.Loaded {
		f.Gate = &state.Gate.Stock
	}
	if g.db == nil {
		return f, ctx.Err()
	}
	return f, g.db.figures(ctx, sale.ID, &f)
}

// excuse names the owners who never got an answer to some attempt.
func (g *grab) excuse(ctx context.Context, f *Facts) error {
	for _, op := range g.history.Ops {
		if op.Outcome != Unknown {
			continue
		}
		owner := listOwner(op.User)
		if g.db != nil {
			id, err := g.userID(ctx, op.User)
			if err != nil {
				return err
			}
			owner = strconv.FormatInt(id, 10)
		}
		f.Excused[owner] = true
	}
	return ctx.Err()
}

// answer is what became of a lookup.
type answer uint8

const (
	silent answer = iota // no definite answer in time
	absent               // 404
	present
)

// orderBody is an order in the API's words.
type orderBody struct {
	ID, SaleID, Status, Reason string
	AdmittedAt                 time.Time
}

// lookup fetches one order as its owner.
func (g *grab) lookup(ctx context.Context, c *conn, user int, id string) (o orderBody, a answer) {
	const retries = 10
	for range retries {
		resp, err := c.send(http.MethodGet, "/api/v1/orders/"+id, g.tokens[user], "")
		switch {
		case err != nil:
		case resp.status == http.StatusNotFound:
			return o, absent
		case resp.status == http.StatusOK && json.Unmarshal(resp.body, &o) == nil && o.ID == id:
			return o, present
		case resp.status == http.StatusUnauthorized: // a restart has ended the session; asking again is no use
			return o, silent
		}
		if sleep(ctx, 200*time.Millisecond) != nil { // "order.unknown", or the server is restarting
			break
		}
	}
	return o, silent
}

// lookups fetches every accepted id singly.
func (g *grab) lookups(ctx context.Context, f *Facts) {
	var accepted []Op
	seen := map[string]bool{}
	for _, op := range g.history.Ops {
		if op.Outcome == Accepted && !seen[op.ID] {
			seen[op.ID] = true
			accepted = append(accepted, op)
		}
	}
	g.meter.enter("GET orders/{id}", len(accepted))
	var mu sync.Mutex
	g.clients.each(ctx, len(accepted), func(c *conn, i int) {
		op := accepted[i]
		o, a := g.lookup(ctx, c, op.User, op.ID)
		g.meter.done.Add(1)
		mu.Lock()
		defer mu.Unlock()
		switch a {
		case silent:
			f.Unverified[op.ID] = true
		case present:
			f.Lookups[op.ID] = Order{Sale: op.Sale, Owner: listOwner(op.User), Status: o.Status, Reason: o.Reason, AdmittedAt: o.AdmittedAt}
		case absent: // absent from the map
		}
	})
}

func listOwner(user int) string { return "#" + strconv.Itoa(user) }
