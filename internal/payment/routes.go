package payment

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
	"tandian/internal/order"
)

var (
	payLimit    = limit.Rule{User: limit.Rate{N: 2, Per: time.Second, Burst: 20}}
	notifyLimit = limit.Rule{IP: limit.Rate{N: 500, Per: time.Second, Burst: 2000}} // providers call from few addresses
)

// Routes registers how orders are paid and refunded.
func (s *Service) Routes(a *api.API) {
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/orders/{id}/payments", ID: "pay-order", Tag: "orders", Summary: "Begin to pay an order, or go on",
		Status: http.StatusCreated, Private: true, Limit: payLimit,
		Errors: []*errs.Error{order.ErrNotFound, order.ErrUnknown, ErrQueued, ErrNotPayable, ErrNoProvider, ErrUnavailable}}, s.pay)
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/orders/{id}/refund", ID: "refund-order", Tag: "orders",
		Summary: "Give a paid order's money back, at the buyer's or an operator's wish", Status: http.StatusAccepted, Private: true, Limit: payLimit,
		Errors: []*errs.Error{order.ErrNotFound, order.ErrUnknown, ErrNotRefundable}}, s.refundWish)
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/payments/{provider}/notify", ID: "notify-payment", Tag: "payments",
		Summary: "A payment provider's callback, signed in its own way", Limit: notifyLimit, Errors: []*errs.Error{ErrUnsigned, ErrMismatch, ErrNoProvider}}, s.notify)
}

type payInput struct {
	ID   id.Param `path:"id"`
	Body struct {
		Provider string `json:"provider" maxLength:"32" example:"sandbox" doc:"Who takes the money"`
	}
}

type payOutput struct {
	Body struct {
		PaymentID id.ID     `json:"paymentId"`
		PayURL    string    `json:"payUrl" doc:"Where the buyer pays: an absolute address, or a path of this server"`
		Amount    money.Fen `json:"amount" doc:"The order's price; nobody else decides it"`
		PayBefore time.Time `json:"payBefore"`
	}
}

func (s *Service) pay(ctx context.Context, in *payInput) (*payOutput, error) {
	user, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.Pay(ctx, user.ID, in.ID.ID, in.Body.Provider)
	if err != nil {
		return nil, err
	}
	out := &payOutput{}
	out.Body.PaymentID, out.Body.PayURL, out.Body.Amount, out.Body.PayBefore = p.ID, p.PayURL, p.Amount, api.Wire(store.Time(p.PayBefore))
	return out, nil
}

type refundInput struct {
	ID   id.Param `path:"id"`
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"200" doc:"In words, for whoever looks later"`
	}
}

func (s *Service) refundWish(ctx context.Context, in *refundInput) (*struct{ Body order.JSON }, error) {
	user, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	words := ""
	if in.Body != nil {
		words = in.Body.Reason
	}
	if err := api.CleanText("body.reason", words, 0, maxWords); err != nil {
		return nil, err
	}
	v, err := s.Wish(ctx, user, in.ID.ID, words)
	if err != nil {
		return nil, err
	}
	return &struct{ Body order.JSON }{order.Wire(v)}, nil
}

// notifyInput takes the body as it came: its bytes are what is signed.
type notifyInput struct {
	Provider string `path:"provider" maxLength:"32"`
	RawBody  []byte
	header   http.Header
}

// Resolve implements huma.Resolver: which headers sign is the provider's affair.
func (in *notifyInput) Resolve(ctx huma.Context) []error {
	in.header = http.Header{}
	ctx.EachHeader(in.header.Add)
	return nil
}

type notifyOutput struct {
	Body struct {
		OK bool `json:"ok"`
	}
}

func (s *Service) notify(ctx context.Context, in *notifyInput) (*notifyOutput, error) {
	err := s.Notify(ctx, in.Provider, in.header, in.RawBody)
	if err != nil && !errors.As(err, new(*errs.Error)) {
		return nil, ErrUnavailable.With(err)
	}
	if err != nil {
		return nil, err
	}
	out := &notifyOutput{}
	out.Body.OK = true
	return out, nil
}
