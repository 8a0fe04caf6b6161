package payment

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

// Options are what New needs; all fields are required, Providers may be empty.
type Options struct {
	DB        *store.DB
	Providers []Provider
	Orders    *order.Service // who may see an order, and its answer
	Now       func() time.Time
	Log       *slog.Logger
	Metrics   *Metrics
	Changed   func(orders []id.ID) // orders have moved: whoever watches them may look
	Ended     func()               // gate_release rows may be waiting
}

// Service moves money for orders. It is the order.Payments of the program.
type Service struct {
	Options
	providers map[string]Provider
	asked     chan struct{} // refunds may be due
}

var _ order.Payments = (*Service)(nil)

// New returns a service that offers the providers.
func New(o Options) *Service {
	s := &Service{Options: o, providers: map[string]Provider{}, asked: make(chan struct{}, 1)}
	for _, p := range o.Providers {
		s.providers[p.Name()] = p
	}
	return s
}

// providerTimeout bounds one call of a provider.
const providerTimeout = 5 * time.Second

// ask calls a provider. Its error means unknown, and is counted under the operation's name.
func ask[T any](ctx context.Context, s *Service, name, operation string, call func(context.Context, Provider) (T, error)) (answer T, err error) {
	p, ok := s.providers[name]
	if !ok {
		return answer, fmt.Errorf("payment provider %q is not configured", name)
	}
	ctx, cancel := context.WithTimeout(ctx, providerTimeout)
	defer cancel()
	if answer, err = call(ctx, p); err != nil {
		s.Metrics.unknown.WithLabelValues(operation).Inc()
		err = fmt.Errorf("%s at %s: %w", operation, name, err)
	}
	return answer, err
}

// Attempt is an attempt to pay and where the buyer goes to do so.
type Attempt struct {
	Payment
	PayURL    string
	PayBefore int64 // Unix ms
}

// Pay begins an attempt to pay an order of the user's, or goes on with one that is still open there. It returns
// order.ErrNotFound, order.ErrUnknown, ErrQueued, ErrNotPayable, ErrNoProvider or ErrUnavailable.
func (s *Service) Pay(ctx context.Context, userID, orderID id.ID, provider string) (*Attempt, error) {
	if _, ok := s.providers[provider]; !ok {
		return nil, ErrNoProvider
	}
	o, err := s.Orders.Find(ctx, userID, orderID)
	switch {
	case err != nil:
		return nil, err
	case o.Status == order.Queued:
		return nil, ErrQueued
	case o.Status != order.Unpaid || o.PayBefore <= store.Millis(s.Now()):
		return nil, ErrNotPayable
	}
	p, err := s.attempt(ctx, &o.Order, provider)
	if err != nil {
		return nil, err
	}
	url, err := ask(ctx, s, provider, "create", func(ctx context.Context, at Provider) (string, error) {
		return at.Create(ctx, Charge{PaymentID: p.ID, OrderID: orderID, Amount: p.Amount, Description: o.Voucher.Title, ExpiresAt: store.Time(o.PayBefore), ReturnTo: "/order/" + orderID.String()})
	})
	if err != nil {
		return nil, ErrUnavailable.With(err)
	}
	return &Attempt{Payment: *p, PayURL: url, PayBefore: o.PayBefore}, nil
}

// attempt finds the open attempt at a provider or makes one. Two at the same time may make two: the second money goes back.
func (s *Service) attempt(ctx context.Context, o *order.Order, provider string) (*Payment, error) {
	open, err := findOpen(ctx, s.DB, s.DB.Read, o.ID)
	if err != nil {
		return nil, err
	}
	for i := range open {
		p := &open[i]
		if p.Provider != provider || p.Amount != o.Amount {
			continue
		}
		// The provider may know more than we have been told: a failed trade is no use to the buyer, a paid one is no
		// reason to pay again.
		switch t, err := s.query(ctx, p); {
		case err != nil || t.State == TradeOpen || t.State == TradeAbsent:
			return p, nil
		case t.State == TradePaid:
			return nil, ErrNotPayable
		}
	}
	now := store.Millis(s.Now())
	p := &Payment{OrderID: o.ID, Provider: provider, Amount: o.Amount, Status: Open, CreatedAt: now, UpdatedAt: now}
	_, err = s.DB.Write.NewInsert().Model(p).Exec(ctx)
	return p, err
}

// query asks a provider about an attempt and applies the answer.
func (s *Service) query(ctx context.Context, p *Payment) (Trade, error) {
	t, err := ask(ctx, s, p.Provider, "query", func(ctx context.Context, at Provider) (Trade, error) { return at.Query(ctx, p.ID) })
	if err == nil {
		_, err = s.apply(ctx, p, t, nil)
	}
	return t, err
}

// WithOpen implements order.Payments.
func (s *Service) WithOpen(ctx context.Context, orders []id.ID) ([]id.ID, error) {
	return findWithOpen(ctx, s.DB.Read, orders)
}

// CloseOpen implements order.Payments.
func (s *Service) CloseOpen(ctx context.Context, orderID id.ID) (paid bool, err error) {
	open, err := findOpen(ctx, s.DB, s.DB.Read, orderID)
	if err != nil {
		return false, err
	}
	var unknown error
	for i := range open {
		out, err := s.close(ctx, &open[i])
		unknown = errors.Join(unknown, err)
		paid = paid || out == OutcomePaid
	}
	return paid, unknown
}

// close closes an open attempt at its provider and applies how it stands there.
func (s *Service) close(ctx context.Context, p *Payment) (Outcome, error) {
	t, err := ask(ctx, s, p.Provider, "close", func(ctx context.Context, at Provider) (Trade, error) { return at.Close(ctx, p.ID) })
	switch {
	case err != nil:
		return "", err
	case t.State == TradeOpen:
		return "", fmt.Errorf("payment %d is still open at %s after closing it", p.ID, p.Provider)
	case t.State == TradeAbsent:
		t.State = TradeClosed // nobody can pay what isn't there
	}
	return s.apply(ctx, p, t, nil)
}

// AskOpen implements order.Payments.
func (s *Service) AskOpen(ctx context.Context, orderID id.ID) error {
	open, err := findOpen(ctx, s.DB, s.DB.Read, orderID)
	if err != nil {
		return err
	}
	var unknown error
	for i := range open {
		_, err := s.query(ctx, &open[i])
		unknown = errors.Join(unknown, err)
	}
	return unknown
}

const (
	forgottenAfter = time.Minute // between two looks at an open attempt whose order doesn't wait any more
	atOnce         = 100         // rows a turn of a worker takes
)

// CloseForgotten is a worker's turn: it closes attempts that stayed open though their order is paid by another one or
// has ended, as when the provider didn't answer at the deadline.
func (s *Service) CloseForgotten(ctx context.Context) error {
	open, err := findForgotten(ctx, s.DB, s.DB.Read, store.Millis(s.Now().Add(-forgottenAfter)), atOnce)
	if err != nil {
		return err
	}
	var failed error
	for i := range open {
		if _, err := s.close(ctx, &open[i]); err != nil {
			failed = errors.Join(failed, err, touch(ctx, s.DB.Write, open[i].ID, store.Millis(s.Now())))
		}
	}
	return failed
}

// askEndedAfter is how long after an attempt has ended without money its provider is asked whether money came all the
// same: nobody may have been able to tell us.
var askEndedAfter = [...]time.Duration{10 * time.Minute, 24 * time.Hour}

// AskEnded is a worker's turn: it asks about attempts that ended without money, twice in their life.
func (s *Service) AskEnded(ctx context.Context) error {
	ended, err := findEnded(ctx, s.DB, s.DB.Read, store.Millis(s.Now()), atOnce)
	if err != nil {
		return err
	}
	var failed error
	for i := range ended {
		p := &ended[i]
		t, err := s.query(ctx, p)
		var next *int64
		switch last := p.UpdatedAt + askEndedAfter[1].Milliseconds(); {
		case err != nil:
			at := store.Millis(s.Now().Add(askEndedAfter[0]))
			next = &at
		case t.State != TradePaid && store.Millis(s.Now()) < last:
			next = &last
		}
		failed = errors.Join(failed, err, askAgain(ctx, s.DB.Write, p, next))
	}
	return failed
}

// Of implements order.Payments.
func (s *Service) Of(ctx context.Context, orderID id.ID) ([]order.Attempt, *order.Refund, error) {
	payments, err := findOfOrder(ctx, s.DB, s.DB.Read, orderID)
	if err != nil || len(payments) == 0 {
		return nil, nil, err
	}
	attempts := make([]order.Attempt, len(payments))
	for i, p := range payments {
		attempts[i] = order.Attempt{ID: p.ID, Provider: p.Provider, Status: p.Status.String(), CreatedAt: p.CreatedAt}
	}
	refunds, err := findRefunds(ctx, s.DB, s.DB.Read, orderID)
	var shown *order.Refund
	for i := range refunds {
		// The order's own refund comes before those of money that paid nothing.
		if shown == nil || refunds[i].ofOrder() {
			shown = &order.Refund{Status: refunds[i].Status.String(), Reason: refunds[i].Reason, Amount: refunds[i].Amount}
		}
	}
	return attempts, shown, err
}

// apply brings the books up to what a provider says of a payment, in one transaction, to which also may add. It returns
// errNoOrder, and has changed nothing, while the order has no row.
func (s *Service) apply(ctx context.Context, p *Payment, t Trade, also func(ctx context.Context, tx bun.Tx, out Outcome) error) (out Outcome, err error) {
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var err error
		if out, err = applyTrade(ctx, s.DB, tx, p, t, store.Millis(s.Now())); err != nil || also == nil {
			return err
		}
		return also(ctx, tx, out)
	})
	if err != nil {
		return "", fmt.Errorf("apply %s of payment %d: %w", t.State, p.ID, err)
	}
	s.tell(p, out)
	return out, nil
}

// tell follows up on what has been committed.
func (s *Service) tell(p *Payment, out Outcome) {
	switch out {
	case OutcomeRepeat, OutcomeNothing:
		return
	case OutcomeLate, OutcomeDuplicate, OutcomeMismatch:
		s.Metrics.refunds.WithLabelValues(string(out)).Inc()
		s.Log.Warn("money that can't be kept goes back", "order", p.OrderID, "payment", p.ID, "reason", out)
		s.wakeRefunder()
	}
	s.Metrics.outcomes.WithLabelValues(string(out)).Inc()
	s.Changed([]id.ID{p.OrderID})
}
