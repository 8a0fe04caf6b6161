package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/uptrace/bun"

	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/store"
)

// maxNoticeID is the longest name of a notification, in bytes.
const maxNoticeID = 64

// Notify takes a provider's notification: verified, stored, applied. It may come any number of times and each is
// answered alike. nil means that it is stored and need not come again, though its order may have no row yet. The error
// is ErrNoProvider, ErrUnsigned or ErrMismatch, after which nothing has changed, or one that may pass by itself.
func (s *Service) Notify(ctx context.Context, provider string, header http.Header, body []byte) error {
	at, ok := s.providers[provider]
	if !ok {
		return ErrNoProvider
	}
	n, err := at.Verify(header, body)
	if err != nil {
		return s.refuse(ctx, ErrUnsigned, provider, err)
	}
	if n.ID == "" || len(n.ID) > maxNoticeID || n.PaymentID <= 0 {
		return s.refuse(ctx, ErrUnsigned, provider, &RefusedNoticeError{NoticeBody})
	}
	p, err := findPayment(ctx, s.DB, s.DB.Read, n.PaymentID)
	if err != nil {
		return err
	}
	if p != nil {
		if err := matches(p, provider, &n); err != nil {
			return s.refuse(ctx, ErrMismatch, provider, err)
		}
	}
	if err := s.keep(ctx, provider, &n, p); err != nil {
		return err
	}
	if p == nil {
		s.Log.WarnContext(ctx, "notification about a payment that isn't known (yet)", "provider", provider, "payment", n.PaymentID)
		s.Metrics.notices.WithLabelValues("waiting").Inc()
		return nil
	}
	failpoint.Pass(failpoint.BeforeCapture)
	if err := s.applyNotice(ctx, provider, &n, p); err != nil {
		s.Log.WarnContext(ctx, "notification stored, to be applied later", "payment", p.ID, "err", err)
	}
	return nil
}

// refuse counts and logs a notification that is not believed.
func (s *Service) refuse(ctx context.Context, answer error, provider string, cause error) error {
	reason := NoticeBody
	if r := (*RefusedNoticeError)(nil); errors.As(cause, &r) {
		reason = r.Reason
	}
	s.Metrics.refused.WithLabelValues(reason).Inc()
	s.Log.WarnContext(ctx, "payment notification refused", "provider", provider, "reason", reason)
	return answer
}

// matches compares a notification with our books.
func matches(p *Payment, provider string, n *Notice) error {
	switch {
	case p.Provider != provider:
		return &RefusedNoticeError{NoticeProvider}
	case n.Trade.State == TradePaid && n.Trade.Amount != p.Amount:
		return &RefusedNoticeError{NoticeAmount}
	case n.Trade.State == TradePaid && n.Trade.PaidAt <= 0:
		return &RefusedNoticeError{NoticeBody}
	}
	return nil
}

// keep stores a notification unless it is stored.
func (s *Service) keep(ctx context.Context, provider string, n *Notice, p *Payment) error {
	known, err := findNotice(ctx, s.DB, s.DB.Read, provider, n.ID)
	if err != nil || known != nil {
		return err
	}
	body, err := json.Marshal(n)
	if err != nil {
		return err
	}
	row := &storedNotice{Provider: provider, NoticeID: n.ID, PaymentID: n.PaymentID, Body: body, ReceivedAt: store.Millis(s.Now())}
	if p != nil {
		row.OrderID = p.OrderID
	}
	if _, err := s.DB.Write.NewInsert().Model(row).Exec(ctx); !s.DB.IsDuplicate(err) {
		return err
	}
	return nil
}

// applyNotice applies a stored notification.
func (s *Service) applyNotice(ctx context.Context, provider string, n *Notice, p *Payment) error {
	out, err := s.apply(ctx, p, n.Trade, func(ctx context.Context, tx bun.Tx, out Outcome) error {
		return markApplied(ctx, tx, provider, n.ID, p.OrderID, out, store.Millis(s.Now()))
	})
	switch {
	case err != nil:
		s.Metrics.notices.WithLabelValues("waiting").Inc()
	case out == OutcomeRepeat:
		s.Metrics.notices.WithLabelValues("repeat").Inc()
	default:
		s.Metrics.notices.WithLabelValues("applied").Inc()
	}
	return err
}

// ApplyWaiting is a worker's turn: it applies stored notifications whose payment and order have got their rows.
func (s *Service) ApplyWaiting(ctx context.Context) error {
	var failed error
	for at, after := int64(0), ""; ; {
		rows, err := findWaitingNotices(ctx, s.DB, s.DB.Read, at, after, atOnce)
		if err != nil {
			return errors.Join(failed, fmt.Errorf("read payment_notice: %w", err))
		}
		for i := range rows {
			at, after = rows[i].ReceivedAt, rows[i].NoticeID
			if err := s.applyStored(ctx, &rows[i]); err != nil && !errors.Is(err, errNoOrder) {
				failed = errors.Join(failed, err)
			}
		}
		if len(rows) < atOnce || ctx.Err() != nil {
			return failed
		}
	}
}

func (s *Service) applyStored(ctx context.Context, row *storedNotice) error {
	p, err := findPayment(ctx, s.DB, s.DB.Read, row.PaymentID)
	if err != nil || p == nil {
		return err
	}
	var n Notice
	if err := json.Unmarshal(row.Body, &n); err != nil {
		return fmt.Errorf("notice %s of %s: %w", row.NoticeID, row.Provider, err)
	}
	if err := matches(p, row.Provider, &n); err != nil {
		// It came before its payment was known, and could not be compared then.
		_ = s.refuse(ctx, ErrMismatch, row.Provider, err) // nobody is there to be answered
		return markApplied(ctx, s.DB.Write, row.Provider, row.NoticeID, p.OrderID, OutcomeMismatch, store.Millis(s.Now()))
	}
	return s.applyNotice(ctx, row.Provider, &n, p)
}
