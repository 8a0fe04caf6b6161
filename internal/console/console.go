package console

import (
	"context"
	"net/http"
	"time"

	"tandian/internal/flashsale"
	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/store"
	"tandian/internal/order"
	"tandian/internal/payment"
	"tandian/internal/voucher"
)

// Service is what the console's operations work on.
type Service struct {
	Letters    *order.DeadLetters
	Reconciler *flashsale.Reconciler
	Money      *payment.Service
}

var (
	lookLimit = limit.Rule{User: limit.Rate{N: 20, Per: time.Second, Burst: 40}}
	actLimit  = limit.Rule{User: limit.Rate{N: 10, Per: time.Second, Burst: 100}}
	runLimit  = limit.Rule{User: limit.PerMinute(30)} // each reads a good part of the database
)

// Routes registers the console's operations.
func (s *Service) Routes(a *api.API) {
	look := func(path, opID, summary string, errors ...*errs.Error) api.Route {
		return api.Route{Method: http.MethodGet, Path: "/console" + path, ID: opID, Tag: "console", Summary: summary, Private: true, Limit: lookLimit,
			Errors: append(errors, identity.ErrForbidden)}
	}
	act := func(path, opID, summary string, rule limit.Rule, errors ...*errs.Error) api.Route {
		return api.Route{Method: http.MethodPost, Path: "/console" + path, ID: opID, Tag: "console", Summary: summary, Private: true, Limit: rule,
			Errors: append(errors, identity.ErrForbidden)}
	}
	ended := []*errs.Error{order.ErrNoLetter, order.ErrLetterEnded}
	api.Handle(a, look("/dead-letters", "list-dead-letters", "Dead letters, the newest first", api.ErrCursor), s.listLetters)
	api.Handle(a, look("/dead-letters/{id}", "get-dead-letter", "One dead letter with its message", order.ErrNoLetter), s.getLetter)
	api.Handle(a, act("/dead-letters/{id}/replay", "replay-dead-letter", "Send a dead letter's message again", actLimit, append(ended, order.ErrLetterForeign)...), s.replayLetter)
	api.Handle(a, act("/dead-letters/{id}/ignore", "ignore-dead-letter", "Give a dead letter up; a reservation's unit goes back", actLimit, ended...), s.ignoreLetter)
	api.Handle(a, act("/dead-letters/replay", "replay-dead-letters", "Send all pending dead letters again that a filter finds, or count them", runLimit), s.replayLetters)

	api.Handle(a, look("/reconciliations", "list-reconciliations", "Comparisons of gate and database, the newest first", api.ErrCursor), s.listRuns)
	api.Handle(a, look("/reconciliations/{id}", "get-reconciliation", "One comparison with what it found and the plan to mend it", flashsale.ErrNoReconciliation), s.getRun)
	api.Handle(a, look("/reconciliations/money", "reconcile-money", "Money against orders, as of now: sums and each difference"), s.money)
	api.Handle(a, act("/reconciliations", "reconcile", "Compare one sale, or all", runLimit, voucher.ErrSaleNotFound), s.run)
	api.Handle(a, act("/reconciliations/{id}/apply", "apply-reconciliation", "Carry out the plan of a comparison", runLimit,
		flashsale.ErrNoReconciliation, flashsale.ErrPlanUsed), s.applyRun)
}

type idInput struct {
	ID id.Param `path:"id"`
}

// mayLook returns ErrForbidden to anybody but operators, read-only ones included.
func mayLook(ctx context.Context) error {
	_, err := identity.RequireRole(ctx, identity.Operator, identity.ReadOnly)
	return err
}

// actor is the operator who acts.
func actor(ctx context.Context) (id.ID, error) {
	u, err := identity.RequireRole(ctx, identity.Operator)
	if err != nil {
		return 0, err
	}
	return u.ID, nil
}

// moment is a time on the wire; nil = never.
func moment(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := api.Wire(store.Time(ms))
	return &t
}
