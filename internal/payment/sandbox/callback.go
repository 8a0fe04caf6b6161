package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"tandian/internal/kit/store"
)

const (
	callTimeout = 5 * time.Second
	firstPause  = time.Second // between two deliveries; doubled each time
	mostCalls   = 10
	callsAtOnce = 50
)

// CallsDue is signalled when callbacks may be due.
func (s *Sandbox) CallsDue() <-chan struct{} { return s.due }

func (s *Sandbox) wake() {
	select {
	case s.due <- struct{}{}:
	default:
	}
}

// Call is a worker's turn: it delivers the callbacks that are due. One that isn't answered is delivered again later.
func (s *Sandbox) Call(ctx context.Context) error {
	now := store.Millis(s.Now())
	due, err := findCalls(ctx, s.DB, now, callsAtOnce)
	if err != nil {
		return fmt.Errorf("read sandbox_trade: %w", err)
	}
	var failed error
	for i := range due {
		t := &due[i]
		var next *int64
		if t.Calls+1 < mostCalls {
			at := now + (firstPause << t.Calls).Milliseconds()
			next = &at
		}
		mine, err := claimCall(ctx, s.DB, t, next)
		if err == nil && mine {
			err = s.deliver(ctx, t, now)
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("callback of payment %d: %w", t.PaymentID, err))
		}
	}
	return failed
}

// deliver calls back once.
func (s *Sandbox) deliver(ctx context.Context, t *trade, now int64) error {
	body, err := s.notification(t, now)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.NotifyURL, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header = s.sign(body)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("answered %s", res.Status)
	}
	return endCalls(ctx, s.DB, t.TradeNo)
}

// notification is the body about how a trade stands: the same bytes for each delivery.
func (s *Sandbox) notification(t *trade, now int64) ([]byte, error) {
	n := notification{NoticeID: t.TradeNo, MerchantID: Merchant, PaymentID: t.PaymentID, TradeNo: t.TradeNo, State: stateNames[t.stands(now)], Amount: t.Amount, Currency: currency}
	if t.PaidAt != nil {
		n.PaidAt = *t.PaidAt
	}
	return json.Marshal(n)
}
