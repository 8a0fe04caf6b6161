package payment

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/audit"
	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

// Refund implements order.Payments.
func (s *Service) Refund(ctx context.Context, orderID id.ID, reason string, by order.Actor) (bool, error) {
	return s.refund(ctx, orderID, reason, by, nil)
}

const maxWords = 200 // characters of a wish for a refund

// Wish refunds an order at the wish of its buyer or of an operator, and returns it as it stands then. Asking again while
// it is on its way changes nothing; a refund that the provider has refused is sent once more if an operator asks. It
// returns order.ErrNotFound, order.ErrUnknown or ErrNotRefundable.
func (s *Service) Wish(ctx context.Context, user *identity.User, orderID id.ID, words string) (*order.View, error) {
	find := func() (*order.View, error) { return s.Orders.Find(ctx, user.ID, orderID) }
	if user.Has(identity.Operator) {
		find = func() (*order.View, error) { return s.Orders.FindAny(ctx, orderID) }
	}
	v, err := find()
	if err != nil {
		return nil, err
	}
	reason := order.ReasonBuyer
	if v.UserID != user.ID {
		reason = order.ReasonOperator
	}
	act := audit.Entry{At: s.Now(), Actor: user.ID, Action: "order.refund", Subject: "order:" + orderID.String(), Detail: map[string]string{"reason": reason, "words": words}}
	moved, err := s.refund(ctx, orderID, reason, order.ByUser(user.ID), &act)
	if err == nil && !moved && user.Has(identity.Operator) {
		moved, err = s.sendAgain(ctx, orderID, act)
	}
	if errors.Is(err, store.ErrCommitUnknown) {
		err = order.ErrUnknown.With(err)
	}
	if err != nil {
		return nil, err
	}
	if v, err = find(); err == nil && !moved && v.Status != order.Refunding {
		return nil, ErrNotRefundable
	}
	return v, err
}

// refund moves a paid order to refunding and asks for its money back, in one transaction with the line in the audit log.
// false = the order isn't paid (any more), and nothing has changed.
func (s *Service) refund(ctx context.Context, orderID id.ID, reason string, by order.Actor, act *audit.Entry) (moved bool, err error) {
	now := store.Millis(s.Now())
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var err error
		if moved, err = order.MarkRefunding(ctx, tx, orderID, reason, by, now); err != nil || !moved {
			return err
		}
		kept, err := findKept(ctx, s.DB, tx, orderID)
		switch {
		case err != nil:
			return err
		case kept == nil:
			return errors.New("the order is paid, but no payment paid it")
		}
		if err := insertRefund(ctx, tx, orderID, kept.ID, kept.Amount, reason, now); err != nil || act == nil {
			return err
		}
		return audit.Write(ctx, tx, *act)
	})
	if err != nil {
		return false, fmt.Errorf("refund order %d: %w", orderID, err)
	}
	if moved {
		s.Metrics.refunds.WithLabelValues(reason).Inc()
		s.Changed([]id.ID{orderID})
		s.wakeRefunder()
	}
	return moved, nil
}

// sendAgain revives the refused refunds of an order, under their ids; false = there are none.
func (s *Service) sendAgain(ctx context.Context, orderID id.ID, act audit.Entry) (revived bool, err error) {
	act.Action = "order.refund_again"
	err = s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if revived, err = reviveRefused(ctx, tx, orderID, store.Millis(s.Now())); err != nil || !revived {
			return err
		}
		return audit.Write(ctx, tx, act)
	})
	if err != nil {
		return false, fmt.Errorf("refund order %d again: %w", orderID, err)
	}
	if revived {
		s.wakeRefunder()
	}
	return revived, nil
}

func (s *Service) wakeRefunder() {
	select {
	case s.asked <- struct{}{}:
	default:
	}
}

// RefundsAsked is signalled when refunds may be due.
func (s *Service) RefundsAsked() <-chan struct{} { return s.asked }

const (
	firstPause = time.Second // until a refund is asked about again; doubled each time
	longPause  = 5 * time.Minute
)

// pauseAfter is how long to wait after so many attempts.
func pauseAfter(attempts int64) time.Duration {
	return min(firstPause<<min(attempts, 20), longPause)
}

// sendAtOnce is how many refunds a turn waits for at the same time.
const sendAtOnce = 8

// SendRefunds is a worker's turn: it asks the providers for the refunds that are due, each with its own id, until they
// have answered. One that isn't answered holds up no other.
func (s *Service) SendRefunds(ctx context.Context) error {
	var failed error
	for {
		due, err := findDueRefunds(ctx, s.DB, s.DB.Read, store.Millis(s.Now()), atOnce)
		if err != nil {
			return errors.Join(failed, fmt.Errorf("read refund: %w", err))
		}
		claimed, err := s.sendAll(ctx, due)
		failed = errors.Join(failed, err)
		// What nobody could claim is still due: another look would find the same, at once and for ever.
		if len(due) < atOnce || claimed == 0 || ctx.Err() != nil {
			return failed
		}
	}
}

// sendAll claims refunds and asks for those, some at a time.
func (s *Service) sendAll(ctx context.Context, due []Refund) (claimed int, failed error) {
	var mu sync.Mutex // guards claimed and failed
	var sending sync.WaitGroup
	room := make(chan struct{}, sendAtOnce)
	for i := range due {
		room <- struct{}{}
		sending.Go(func() {
			defer func() { <-room }()
			mine, err := s.claim(ctx, &due[i])
			if err == nil && mine {
				err = s.send(ctx, &due[i])
			}
			mu.Lock()
			defer mu.Unlock()
			if mine {
				claimed++
			}
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("refund %d: %w", due[i].ID, err))
			}
		})
	}
	sending.Wait()
	return claimed, failed
}

// claim takes a refund for one attempt; false = another instance was first.
func (s *Service) claim(ctx context.Context, r *Refund) (bool, error) {
	now := s.Now()
	return claimRefund(ctx, s.DB.Write, r, store.Millis(now.Add(pauseAfter(r.Attempts))), store.Millis(now))
}

// send asks for one refund and applies the answer.
func (s *Service) send(ctx context.Context, r *Refund) error {
	p, err := findPayment(ctx, s.DB, s.DB.Read, r.PaymentID)
	switch {
	case err != nil:
		return err
	case p == nil:
		return fmt.Errorf("no payment %d", r.PaymentID)
	}
	state := RefundAbsent
	if r.Attempts > 0 { // the answer may be known there by now
		state, err = ask(ctx, s, p.Provider, "query refund", func(ctx context.Context, at Provider) (RefundState, error) { return at.QueryRefund(ctx, r.ID) })
	}
	if err == nil && state == RefundAbsent {
		state, err = ask(ctx, s, p.Provider, "refund", func(ctx context.Context, at Provider) (RefundState, error) {
			return at.Refund(ctx, RefundRequest{RefundID: r.ID, PaymentID: p.ID, TradeNo: p.TradeNo, Amount: r.Amount, Reason: r.Reason})
		})
	}
	if err != nil {
		return err
	}
	switch state {
	case RefundDone:
		if failpoint.On(failpoint.RefundTwice) {
			_, err = s.providers[p.Provider].Refund(ctx, RefundRequest{RefundID: r.ID + 1<<40, PaymentID: p.ID, TradeNo: p.TradeNo, Amount: r.Amount, Reason: r.Reason})
		}
		return errors.Join(err, s.refundDone(ctx, r))
	case RefundRefused:
		return s.refundRefused(ctx, r)
	}
	return nil
}

// refundDone notes that the money has gone back; the order that it was for goes with it.
func (s *Service) refundDone(ctx context.Context, r *Refund) error {
	var ended, moved bool
	now := store.Millis(s.Now())
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		var err error
		if ended, err = markRefund(ctx, tx, r.ID, Done, now); err != nil || !ended || !r.ofOrder() {
			return err
		}
		moved, err = order.MarkRefunded(ctx, s.DB, tx, r.OrderID, r.Reason, order.System, now)
		return err
	})
	if err != nil || !ended {
		return err
	}
	s.Metrics.refunds.WithLabelValues("done").Inc()
	s.Changed([]id.ID{r.OrderID})
	if moved {
		s.Ended()
	}
	return nil
}

// refundRefused notes that the provider will never pay back: the order stays refunding, and it is for a person.
func (s *Service) refundRefused(ctx context.Context, r *Refund) error {
	var ended bool
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		ended, err = markRefund(ctx, tx, r.ID, Refused, store.Millis(s.Now()))
		return err
	})
	if err != nil || !ended {
		return err
	}
	s.Metrics.refunds.WithLabelValues("refused").Inc()
	s.Log.ErrorContext(ctx, "the provider refuses a refund; somebody must pay the buyer back by hand", "refund", r.ID, "order", r.OrderID, "payment", r.PaymentID, "amount", r.Amount)
	s.Changed([]id.ID{r.OrderID})
	return nil
}
