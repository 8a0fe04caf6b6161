package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/payment"
)

// Options are what New needs; all fields are required.
type Options struct {
	DB        *store.DB
	Secret    []byte // signs callbacks and addresses of the cashier; the same after a restart and on all instances
	NotifyURL string // where it calls back
	Now       func() time.Time
	NewID     func() string // numbers of trades and nonces, which can't be guessed
	Log       *slog.Logger
}

// Sandbox is the provider and its cashier: an http.Handler for the paths below Path.
type Sandbox struct {
	Options
	client *http.Client
	site   *http.ServeMux
	due    chan struct{} // callbacks may be due
}

var _ payment.Provider = (*Sandbox)(nil)

// Name is what the provider is called in paths and rows.
const Name = "sandbox"

// New returns a provider on its books.
func New(o Options) *Sandbox {
	direct := &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute} // it calls a server of ours: through no proxy
	s := &Sandbox{Options: o, client: &http.Client{Timeout: callTimeout, Transport: direct}, due: make(chan struct{}, 1)}
	s.routes()
	return s
}

// Name implements payment.Provider.
func (s *Sandbox) Name() string { return Name }

// Create implements payment.Provider.
func (s *Sandbox) Create(ctx context.Context, c payment.Charge) (string, error) {
	now := store.Millis(s.Now())
	t := &trade{TradeNo: s.NewID(), PaymentID: c.PaymentID, Amount: c.Amount, Status: open, ExpiresAt: store.Millis(c.ExpiresAt),
		About: c.Description, ReturnTo: c.ReturnTo, CreatedAt: now, UpdatedAt: now}
	if err := insertTrade(ctx, s.DB, t); err != nil {
		return "", err
	}
	return s.address(c.PaymentID), nil
}

// Query implements payment.Provider.
func (s *Sandbox) Query(ctx context.Context, paymentID id.ID) (payment.Trade, error) {
	t, err := findTrade(ctx, s.DB, paymentID)
	if err != nil || t == nil {
		return payment.Trade{State: payment.TradeAbsent}, err
	}
	return t.told(store.Millis(s.Now())), nil
}

// Close implements payment.Provider. A trade whose money is on its way is closed like any other, and the money arrives
// all the same.
func (s *Sandbox) Close(ctx context.Context, paymentID id.ID) (payment.Trade, error) {
	if _, err := endTrade(ctx, s.DB, paymentID, closed, store.Millis(s.Now())); err != nil {
		return payment.Trade{}, err
	}
	return s.Query(ctx, paymentID)
}

// errSilent is how a lost answer looks from outside.
var errSilent = errors.New("sandbox: no answer")

const (
	slowAsks   = 2 // a slow refund is under way that often
	silentAsks = 3 // and the answers of an unknown one are lost that often
)

// Refund implements payment.Provider.
func (s *Sandbox) Refund(ctx context.Context, r payment.RefundRequest) (payment.RefundState, error) {
	now := store.Millis(s.Now())
	t, err := findTrade(ctx, s.DB, r.PaymentID)
	switch {
	case err != nil:
		return "", err
	case t == nil || t.told(now).State != payment.TradePaid || r.Amount != t.Amount:
		return payment.RefundRefused, nil
	}
	to := refundDone
	switch t.Refunds {
	case refundsSlow:
		to = refundUnderWay
	case refundsRefused:
		to = refundRefused
	}
	if err := insertRefund(ctx, s.DB, &refund{RefundID: r.RefundID, TradeNo: t.TradeNo, Amount: r.Amount, Status: to, CreatedAt: now, UpdatedAt: now}); err != nil {
		return "", err
	}
	return s.QueryRefund(ctx, r.RefundID)
}

// QueryRefund implements payment.Provider.
func (s *Sandbox) QueryRefund(ctx context.Context, refundID id.ID) (payment.RefundState, error) {
	r, err := countAsk(ctx, s.DB, refundID, store.Millis(s.Now()))
	switch {
	case err != nil:
		return "", err
	case r == nil:
		return payment.RefundAbsent, nil
	}
	t, err := findTradeByNo(ctx, s.DB, r.TradeNo)
	switch {
	case err != nil:
		return "", err
	case t.Refunds == refundsUnknown && r.Asked <= silentAsks:
		return "", errSilent
	case t.Refunds == refundsSlow && r.Status == refundUnderWay && r.Asked > slowAsks:
		if err := finishRefund(ctx, s.DB, refundID, store.Millis(s.Now())); err != nil {
			return "", err
		}
		return payment.RefundDone, nil
	}
	state, ok := map[refundStatus]payment.RefundState{refundUnderWay: payment.RefundUnderWay, refundDone: payment.RefundDone, refundRefused: payment.RefundRefused}[r.Status]
	if !ok {
		return "", fmt.Errorf("sandbox refund %d has status %d", refundID, r.Status)
	}
	return state, nil
}
