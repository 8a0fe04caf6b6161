package flashsale

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/singleflight"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

// Errors of a grab. Each says whether an order can exist.
var (
	ErrSoldOut    = errs.Define("sale.sold_out", errs.Conflict, "已抢光。", "Sold out.")
	ErrLimit      = errs.Define("sale.limit_reached", errs.Conflict, "您已经抢过了，见 orderIds。", "You already hold all you may; see orderIds.")
	ErrNotStarted = errs.Define("sale.not_started", errs.Conflict, "秒杀尚未开始。", "The sale has not started.")
	ErrEnded      = errs.Define("sale.ended", errs.Conflict, "秒杀已经结束。", "The sale has ended.")
	ErrPaused     = errs.Define("sale.paused", errs.Conflict, "活动暂停中。", "The sale is paused.")
	ErrBusy       = errs.Define("sale.busy", errs.Unavailable, "没有下单，请再试一次。", "No order was made; try again.").After(time.Second)
	ErrUnknown    = errs.Define("sale.unknown", errs.Unknown, "结果未知，请用同一个 Idempotency-Key 再问一次。", "The outcome is not known; ask again with the same Idempotency-Key.").After(500 * time.Millisecond)
)

// Options are what New needs.
type Options struct {
	DB       *store.DB
	Gate     Gate
	Broker   queue.Broker
	Handover *Handover // nil: the gate puts whom it admits into the queue itself, so that admitted is accepted
	Tomb     Tombstones
	Owners   Owners
	Shops    Shops
	IDs      *id.Sequence
	NewKey   func() string // idempotency keys of requests without one
	Now      func() time.Time
	Log      *slog.Logger
	Metrics  *Metrics

	PayWindow      time.Duration // from admission to an order's deadline
	ConfirmTimeout time.Duration // how long an answer waits for the queue
	SweepAfter     time.Duration // how old a pending reservation is when it is sent again
	// AcceptUnknown says that a reservation survives this process, so that a buyer may be told his order id although
	// the queue has not confirmed. False for the memory gate: there "accepted" is a committed queue row.
	AcceptUnknown bool
	// Backlog lists what is in the queue, as seen by the transaction that loads a gate; nil where it can't be listed.
	Backlog func(ctx context.Context, q store.Querier) ([]order.Reservation, error)
}

// Tombstones is the half of order.Writer that ends an id without an order.
type Tombstones interface {
	Tombstone(ctx context.Context, r order.Reservation, reason string) (*order.Order, error)
}

// Service sells. It is the order.Seats of the program.
type Service struct {
	Options
	loads   singleflight.Group
	pauses  pauses
	repeats repeats
}

var _ order.Seats = (*Service)(nil)

// New returns a service whose gates are still closed; WarmUp opens them.
func New(o Options) *Service { return &Service{Options: o} }

// Grab asks for one unit of a sale. The same key of the same user gives the same order id for ever, except after a
// refusal. The error is one of this package's, or voucher.ErrSaleNotFound.
func (s *Service) Grab(ctx context.Context, userID, saleID id.ID, key string) (id.ID, error) {
	began := s.Now()
	orderID, err := s.grab(ctx, userID, saleID, key)
	s.Metrics.grabbed(err, s.Now().Sub(began))
	return orderID, err
}

func (s *Service) grab(ctx context.Context, userID, saleID id.ID, key string) (id.ID, error) {
	asked := attempt{saleID, userID, key}
	if orderID := s.repeats.get(asked, s.Now()); orderID != 0 {
		return orderID, nil
	}
	if v, ok := s.Gate.Peek(saleID, userID); ok {
		return 0, s.turnAway(ctx, v)
	}
	if !s.Broker.Up() { // rather than a tombstone for every click
		return s.notAsked(ctx, userID, saleID, key, queue.ErrRefused)
	}
	orderID, err := s.IDs.Next(ctx)
	if err != nil {
		return s.notAsked(ctx, userID, saleID, key, err)
	}
	v, err := s.admit(ctx, saleID, Request{OrderID: orderID, UserID: userID, RequestID: key})
	if err != nil {
		return 0, err
	}
	switch {
	case v.Result == Repeat && v.OrderID != orderID:
		return s.repeated(ctx, v, false)
	case v.Result == Repeat:
		_, err = s.repeated(ctx, v, true)
	case v.Result == Admitted:
		failpoint.Pass(failpoint.AfterAdmit)
		_, err = s.handOver(ctx, v.Reservation, true)
	default:
		return 0, s.turnAway(ctx, v)
	}
	if err != nil {
		return 0, err
	}
	s.repeats.put(asked, orderID, s.Now())
	return orderID, nil
}

// notAsked answers a request that can't be admitted now, because of cause: "certainly no order" would be wrong if its
// key had been admitted before and only the answer was lost.
func (s *Service) notAsked(ctx context.Context, userID, saleID id.ID, key string, cause error) (id.ID, error) {
	var earlier id.ID
	err := s.whenLoaded(ctx, saleID, func() (err error) {
		earlier, err = s.Gate.Answer(ctx, saleID, userID, key)
		return err
	})
	switch {
	case err != nil:
		return 0, ErrUnknown.With(errors.Join(cause, err))
	case earlier == 0:
		return 0, ErrBusy.With(cause)
	}
	return s.repeated(ctx, Verdict{OrderID: earlier}, false)
}

// repeated answers a request that was admitted before; just = by this very call, whose first answer was lost. Only a
// gate that outlives its process may vouch for a reservation that the queue has not confirmed yet.
func (s *Service) repeated(ctx context.Context, v Verdict, just bool) (id.ID, error) {
	if s.AcceptUnknown && !just {
		return v.OrderID, nil
	}
	r, pending, err := s.Gate.Find(ctx, v.OrderID)
	switch {
	case err != nil && s.AcceptUnknown: // the sweeper will hand it over
		return v.OrderID, nil
	case err != nil || !pending:
		return v.OrderID, err
	}
	// The first attempt may still be on its way, or its outcome was unknown: sending again makes it certain.
	return s.handOver(ctx, *r, just)
}

// turnAway answers who isn't admitted. It names only orders that will be there: see repeated.
func (s *Service) turnAway(ctx context.Context, v Verdict) error {
	for _, orderID := range v.Orders {
		if _, err := s.repeated(ctx, Verdict{OrderID: orderID}, false); err != nil {
			return err
		}
	}
	return v.refusal()
}

const (
	asksAtOnce  = 2 // when no answer comes: the second finds out what became of the first
	loadsAtOnce = 2 // when the gate is lost again at once
)

// admit asks the gate, loads it if need be, and asks once more with the same ids when the answer was lost.
func (s *Service) admit(ctx context.Context, saleID id.ID, r Request) (Verdict, error) {
	unknown := false // whether an earlier call may have admitted the buyer
	for asks, loads := 1, 0; ; {
		v, err := s.Gate.Admit(ctx, saleID, r)
		switch {
		case err == nil && v.Result != NotLoaded:
			return v, nil
		case err == nil && loads < loadsAtOnce:
			loads++
			err = s.load(ctx, saleID)
			if err == nil {
				continue
			}
		case err == nil:
			err = ErrBusy.With(ErrNotLoaded)
		case asks < asksAtOnce:
			asks++
			unknown = unknown || !errors.Is(err, ErrNotDone)
			continue
		case errors.Is(err, ErrNotDone):
			err = ErrBusy.With(err)
		default:
			unknown = true
		}
		if unknown {
			return v, ErrUnknown.With(err)
		}
		return v, err
	}
}

// handOver gives the reservation to the queue and turns the outcome into the buyer's answer. first = nobody has tried
// before: only then does a refusal mean that the queue hasn't got it.
func (s *Service) handOver(ctx context.Context, r order.Reservation, first bool) (id.ID, error) {
	if s.Handover == nil {
		return r.OrderID, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.ConfirmTimeout)
	defer cancel()
	err := s.Handover.Send(ctx, r)
	switch {
	case err == nil:
		return r.OrderID, nil
	case first && errors.Is(err, queue.ErrRefused):
		return s.refused(ctx, r, err)
	}
	s.Metrics.unknown.Inc()
	if failpoint.On(failpoint.RollbackUnknown) {
		return 0, ErrBusy.With(errors.Join(err, s.Release(context.WithoutCancel(ctx), r.SaleID, r.OrderID, true)))
	}
	if s.AcceptUnknown {
		return r.OrderID, nil
	}
	return 0, ErrUnknown.With(err)
}

// refused ends a reservation that is certainly not in the queue: first the row that says so, then the unit. If the
// id has an order after all (an earlier attempt of the same message got through), it is accepted.
func (s *Service) refused(ctx context.Context, r order.Reservation, cause error) (id.ID, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refuseTimeout)
	defer cancel()
	row, err := s.Tomb.Tombstone(ctx, r, order.ReasonRefused)
	switch {
	case err != nil: // SQL can't say: unknown, the sweeper goes on
		if s.AcceptUnknown {
			return r.OrderID, nil
		}
		return 0, ErrUnknown.With(errors.Join(cause, err))
	case row.Status != order.Failed:
		return r.OrderID, nil
	}
	if err := s.Release(ctx, r.SaleID, r.OrderID, true); err != nil {
		s.Log.WarnContext(ctx, "unit not given back yet, its gate_release row stays", "order", r.OrderID, "err", err)
	}
	return 0, ErrBusy.With(cause)
}

// refuseTimeout is how long SQL may take to write a tombstone before the outcome is unknown.
const refuseTimeout = 5 * time.Second

// refusal is the error of a verdict that admits nobody.
func (v Verdict) refusal() error {
	switch v.Result {
	case SoldOut:
		return ErrSoldOut
	case LimitReached:
		return ErrLimit.Set(api.ExtraOrderIDs, v.Orders)
	case NotStarted:
		return ErrNotStarted
	case Ended:
		return ErrEnded
	case Paused:
		return ErrPaused
	}
	return ErrBusy.With(ErrNotLoaded)
}

// Settle implements order.Seats.
func (s *Service) Settle(ctx context.Context, rs []order.Reservation) error {
	bySale := map[id.ID][]order.Reservation{}
	for _, r := range rs {
		bySale[r.SaleID] = append(bySale[r.SaleID], r)
	}
	var failed error
	for saleID, rs := range bySale {
		failed = errors.Join(failed, s.whenLoaded(ctx, saleID, func() error { return s.Gate.Settle(ctx, saleID, rs) }))
	}
	return failed
}

// Release implements order.Seats.
func (s *Service) Release(ctx context.Context, saleID, orderID id.ID, forget bool) error {
	return s.whenLoaded(ctx, saleID, func() error { return s.Gate.Release(ctx, saleID, orderID, forget) })
}

// Find implements order.Seats. It returns an error for an id that no gate holds while a gate may have forgotten it.
func (s *Service) Find(ctx context.Context, orderID id.ID) (*order.Reservation, error) {
	r, _, err := s.Gate.Find(ctx, orderID)
	if r != nil || err != nil {
		return r, err
	}
	return nil, s.complete(ctx)
}

// Waiting implements order.Seats.
func (s *Service) Waiting(ctx context.Context, userID id.ID) ([]order.Reservation, error) {
	return s.Gate.Waiting(ctx, userID)
}
