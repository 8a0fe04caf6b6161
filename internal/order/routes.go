package order

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
)

// orderJSON is an order on the wire.
type orderJSON struct {
	ID         id.ID         `json:"id"`
	SaleID     id.ID         `json:"saleId"`
	Voucher    boughtJSON    `json:"voucher"`
	Status     string        `json:"status" enum:"queued,unpaid,paid,used,closed,refunding,refunded,failed"`
	Reason     string        `json:"reason,omitempty" enum:"sold_out,limit,repeat,no_sale,refused,dropped" doc:"Why a failed order failed"`
	Amount     money.Fen     `json:"amount"`
	AdmittedAt time.Time     `json:"admittedAt"`
	PayBefore  time.Time     `json:"payBefore"`
	QueueAgeMS int64         `json:"queueAgeMs,omitempty" doc:"How long a queued order has waited"`
	Shop       orderShopJSON `json:"shop"`
	History    []moveJSON    `json:"history" nullable:"false" doc:"Empty in lists"`
	RedeemCode string        `json:"redeemCode,omitempty" doc:"12 digits, while the order is paid; absent in lists"`
	ValidUntil *time.Time    `json:"validUntil,omitempty" doc:"Of a paid or used order; absent in lists"`
	RedeemedAt *time.Time    `json:"redeemedAt,omitempty" doc:"Of a used order; absent in lists"`
	UndoBefore *time.Time    `json:"undoBefore,omitempty" doc:"Until when the shop may take the redemption back; absent in lists"`
	Payments   []tryJSON     `json:"payments,omitempty" doc:"Attempts to pay it, oldest first; absent in lists"`
	Refund     *backJSON     `json:"refund,omitempty" doc:"Money on its way back, or gone back; absent in lists"`
}

// JSON is how an order is answered, for packages whose operations answer with one.
type JSON = orderJSON

type tryJSON struct {
	PaymentID id.ID     `json:"paymentId"`
	Provider  string    `json:"provider"`
	Status    string    `json:"status" enum:"open,captured,closed,failed"`
	CreatedAt time.Time `json:"createdAt"`
}

type backJSON struct {
	Status string    `json:"status" enum:"asked,done,refused" doc:"Refused by the payment provider: an operator pays it back by hand"`
	Reason string    `json:"reason" enum:"buyer,operator,expired,late,duplicate,mismatch" doc:"The last three: money that came too late, twice, or in another amount"`
	Amount money.Fen `json:"amount"`
}

type boughtJSON struct {
	ID     id.ID  `json:"id"`
	Title  string `json:"title"`
	ShopID id.ID  `json:"shopId"`
}

type moveJSON struct {
	From   string    `json:"from,omitempty"`
	To     string    `json:"to"`
	Reason string    `json:"reason,omitempty"`
	At     time.Time `json:"at"`
}

func wire(v *View) orderJSON {
	j := orderJSON{ID: v.ID, SaleID: v.SaleID, Voucher: boughtJSON{v.Voucher.ID, v.Voucher.Title, v.Voucher.ShopID}, Status: v.Status.String(), Reason: v.Reason, Amount: v.Amount,
		AdmittedAt: api.Wire(store.Time(v.AdmittedAt)), PayBefore: api.Wire(store.Time(v.PayBefore)), QueueAgeMS: v.Age.Milliseconds(),
		Shop: orderShopJSON{v.Voucher.ShopID, v.ShopName}, History: []moveJSON{}}
	for _, m := range v.History {
		from := ""
		if m.FromStatus != Queued {
			from = m.FromStatus.String()
		}
		j.History = append(j.History, moveJSON{From: from, To: m.ToStatus.String(), Reason: m.Reason, At: api.Wire(store.Time(m.At))})
	}
	if c := v.Code; c != nil {
		j.ValidUntil = wireTime(c.ValidUntil)
		if v.Status == Paid {
			j.RedeemCode = c.Code
		} else if c.RedeemedAt != nil {
			j.RedeemedAt, j.UndoBefore = wireTime(*c.RedeemedAt), wireTime(c.UndoBefore())
		}
	}
	for _, a := range v.Attempts {
		j.Payments = append(j.Payments, tryJSON{PaymentID: a.ID, Provider: a.Provider, Status: a.Status, CreatedAt: api.Wire(store.Time(a.CreatedAt))})
	}
	if v.Refund != nil {
		j.Refund = &backJSON{Status: v.Refund.Status, Reason: v.Refund.Reason, Amount: v.Refund.Amount}
	}
	return j
}

// Wire makes the answer of a view.
func Wire(v *View) JSON { return wire(v) }

var readLimit = limit.Rule{User: limit.Rate{N: 20, Per: time.Second, Burst: 60}}

// Routes registers what a buyer may ask about his orders.
func (s *Service) Routes(a *api.API) {
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/orders", ID: "list-orders", Tag: "orders", Summary: "My orders, queued ones first, then newest first",
		Private: true, Limit: readLimit, Errors: []*errs.Error{api.ErrCursor, ErrUnknown}}, s.list)
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/orders/{id}", ID: "get-order", Tag: "orders", Summary: "One order of mine",
		Private: true, Limit: readLimit, Errors: []*errs.Error{ErrNotFound, ErrUnknown}}, s.get)
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/orders/{id}/close", ID: "close-order", Tag: "orders", Summary: "Give an unpaid order of mine up",
		Private: true, Limit: limit.Rule{User: limit.PerMinute(60)}, Errors: []*errs.Error{ErrNotFound, ErrUnknown, ErrNotClosable}}, s.close)
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/orders/{id}/events", ID: "watch-order", Tag: "orders",
		Summary: "The same object as server-sent events: at once, then after each change", Private: true, Limit: readLimit, Errors: []*errs.Error{ErrNotFound, ErrUnknown, ErrStreams}}, s.events)
}

type listInput struct {
	api.Page
	State string `query:"state" enum:"queued,unpaid,paid,used,closed,refunding,refunded,failed"`
}

func (s *Service) list(ctx context.Context, in *listInput) (*struct{ Body api.List[orderJSON] }, error) {
	user, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	var before id.ID
	if err := api.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	}
	var status *Status
	if st, ok := ParseStatus(in.State); ok {
		status = &st
	}
	views, err := s.List(ctx, user.ID, status, before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	items := make([]orderJSON, len(views))
	for i, v := range views {
		items[i] = wire(v)
	}
	return &struct{ Body api.List[orderJSON] }{cut(items, in.Limit)}, nil
}

// cut pages by written orders only: queued ones ride on top of the first page and don't count.
func cut(items []orderJSON, most int) api.List[orderJSON] {
	queued := 0
	for queued < len(items) && items[queued].Status == Queued.String() {
		queued++
	}
	return api.Cut(items, most+queued, func(last orderJSON) any { return last.ID })
}

type idInput struct {
	ID id.Param `path:"id"`
}

func (s *Service) get(ctx context.Context, in *idInput) (*struct{ Body orderJSON }, error) {
	user, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	v, err := s.Find(ctx, user.ID, in.ID.ID)
	if err != nil {
		return nil, err
	}
	return &struct{ Body orderJSON }{wire(v)}, nil
}

func (s *Service) close(ctx context.Context, in *idInput) (*struct{ Body orderJSON }, error) {
	user, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	v, err := s.Close(ctx, user.ID, in.ID.ID)
	if err != nil {
		return nil, err
	}
	return &struct{ Body orderJSON }{wire(v)}, nil
}

const heartbeat = 15 * time.Second

// events streams the order. The first answer is an ordinary one, so that an unknown id is an ordinary 404.
func (s *Service) events(ctx context.Context, in *idInput) (*huma.StreamResponse, error) {
	user, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	changed, stop, err := s.Watch.On(in.ID.ID, user.ID)
	if err != nil {
		return nil, err
	}
	first, err := s.Find(ctx, user.ID, in.ID.ID)
	if err != nil {
		stop()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer stop()
		hc.SetHeader("Content-Type", "text/event-stream")
		hc.SetHeader("X-Accel-Buffering", "no")
		s.stream(hc.Context(), hc.BodyWriter(), user.ID, first, changed)
	}}, nil
}

// stream writes events until the order can't change any more, the client leaves, his session ends (looked at with
// each heartbeat) or the server stops.
func (s *Service) stream(ctx context.Context, w io.Writer, userID id.ID, v *View, changed <-chan struct{}) {
	flush := func() bool { return flush(w) == nil }
	fmt.Fprint(w, "retry: 2000\n\n")
	var last []byte
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		b, err := json.Marshal(wire(v))
		if err != nil {
			s.Log.ErrorContext(ctx, "encode order event", "err", err)
			return
		}
		if !bytes.Equal(b, last) {
			fmt.Fprintf(w, "event: order\nid: %d-%d\ndata: %s\n\n", v.Status, v.UpdatedAt, b)
			last = b
		}
		if !flush() || v.Status.Final() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-s.Closing.Done():
			return
		case <-beat.C:
			if caller := api.RequestOf(ctx).Again(); caller.User == nil && !caller.Unknown {
				return
			}
			fmt.Fprint(w, ": still here\n\n")
		case <-changed:
			if v, err = s.Find(ctx, userID, v.ID); err != nil {
				return // the client comes back and gets an ordinary answer
			}
		}
	}
}

func flush(w io.Writer) error {
	rw, ok := w.(http.ResponseWriter)
	if !ok {
		return nil
	}
	c := http.NewResponseController(rw)
	// Each event gets its own time to be taken: a stream outlives the server's write timeout.
	if err := c.SetWriteDeadline(time.Now().Add(2 * heartbeat)); err != nil {
		return err
	}
	return c.Flush()
}
