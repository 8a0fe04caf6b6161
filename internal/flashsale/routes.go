package flashsale

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

type saleJSON struct {
	ID           id.ID         `json:"id"`
	Voucher      offerJSON     `json:"voucher"`
	Shop         ShopCard      `json:"shop"`
	Phase        voucher.Phase `json:"phase" enum:"scheduled,live,soldOut,paused,ended"`
	StockTotal   int64         `json:"stockTotal"`
	StockLeft    int64         `json:"stockLeft"`
	BeginsAt     time.Time     `json:"beginsAt"`
	EndsAt       time.Time     `json:"endsAt"`
	LimitPerUser int           `json:"limitPerUser"`
	ServerTime   time.Time     `json:"serverTime"`
	Mine         []mineJSON    `json:"mine,omitzero" doc:"The caller's orders of this sale, newest first; absent when not signed in"`
}

type offerJSON struct {
	ID        id.ID     `json:"id"`
	Title     string    `json:"title"`
	SubTitle  string    `json:"subTitle"`
	Rules     string    `json:"rules"`
	PayValue  money.Fen `json:"payValue"`
	FaceValue money.Fen `json:"faceValue"`
}

type mineJSON struct {
	OrderID id.ID  `json:"orderId"`
	Status  string `json:"status" enum:"queued,unpaid,paid,used,closed,refunding,refunded"`
}

func wire(s *Sale) saleJSON {
	j := saleJSON{ID: s.ID, Voucher: offerJSON{s.VoucherID, s.Title, s.SubTitle, s.Rules, s.PayValue, s.FaceValue}, Shop: s.Shop, Phase: s.Phase,
		StockTotal: s.StockReleased, StockLeft: s.StockLeft, BeginsAt: api.Wire(store.Time(s.BeginsAt)), EndsAt: api.Wire(store.Time(s.EndsAt)),
		LimitPerUser: s.LimitPerUser, ServerTime: api.Wire(s.At)}
	if s.Mine != nil {
		j.Mine = []mineJSON{}
	}
	for _, o := range s.Mine {
		j.Mine = append(j.Mine, mineJSON{o.ID, o.Status.String()})
	}
	return j
}

type saleOutput struct{ Body saleJSON }

// answer fits a Sale and its error to a handler's return.
func answer(s *Sale, err error) (*saleOutput, error) {
	if err != nil {
		return nil, err
	}
	return &saleOutput{wire(s)}, nil
}

type idInput struct {
	ID id.Param `path:"id"`
}

var (
	grabLimit  = limit.Rule{IP: limit.Rate{N: 50, Per: time.Second, Burst: 200}, User: limit.Rate{N: 5, Per: time.Second, Burst: 10}}
	writeLimit = limit.Rule{User: limit.PerSecond(10)}
	writeErrs  = []*errs.Error{voucher.ErrSaleNotFound, identity.ErrForbidden}
)

// Routes registers sales and the grab itself.
func (s *Service) Routes(a *api.API) {
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/sales", ID: "list-sales", Tag: "sales", Summary: "Flash sales by state"}, s.list)
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/sales/{id}", ID: "get-sale", Tag: "sales", Summary: "One flash sale, with my orders of it",
		Errors: []*errs.Error{voucher.ErrSaleNotFound}},
		func(ctx context.Context, in *idInput) (*saleOutput, error) { return answer(s.Sale(ctx, in.ID.ID)) })
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/sales/{id}/orders", ID: "grab", Tag: "sales", Summary: "Grab one unit", Status: http.StatusAccepted,
		Private: true, Limit: grabLimit, MaxBody: 1 << 10,
		Errors: []*errs.Error{ErrSoldOut, ErrLimit, ErrNotStarted, ErrEnded, ErrPaused, voucher.ErrSaleNotFound, ErrBusy, ErrUnknown}}, s.postOrder)
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/vouchers/{id}/sale", ID: "create-sale", Tag: "sales", Summary: "Put a voucher into a flash sale",
		Status: http.StatusCreated, Private: true, Limit: writeLimit, Errors: []*errs.Error{voucher.ErrNotFound, voucher.ErrHasSale, identity.ErrForbidden}}, s.postSale)
	api.Handle(a, api.Route{Method: http.MethodPatch, Path: "/sales/{id}", ID: "edit-sale", Tag: "sales", Summary: "Change window or limit", Private: true, Limit: writeLimit, Errors: writeErrs},
		func(ctx context.Context, in *editInput) (*saleOutput, error) {
			return answer(s.Edit(ctx, in.ID.ID, Draft{BeginsAt: in.Body.BeginsAt, EndsAt: in.Body.EndsAt, Limit: in.Body.LimitPerUser}))
		})
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/sales/{id}/stock", ID: "add-stock", Tag: "sales", Summary: "Put more units up, or take some away",
		Private: true, Limit: writeLimit, Errors: append(writeErrs, ErrStockShort)},
		func(ctx context.Context, in *stockInput) (*saleOutput, error) {
			if err := api.CleanText("body.reason", in.Body.Reason, 1, 200); err != nil {
				return nil, err
			}
			return answer(s.AddStock(ctx, in.ID.ID, in.Body.Delta, in.Body.Reason))
		})
	for path, paused := range map[string]bool{"pause": true, "resume": false} {
		api.Handle(a, api.Route{Method: http.MethodPost, Path: "/sales/{id}/" + path, ID: path + "-sale", Tag: "sales", Summary: path + " a sale", Private: true, Limit: writeLimit, Errors: writeErrs},
			func(ctx context.Context, in *idInput) (*saleOutput, error) {
				return answer(s.SetPaused(ctx, in.ID.ID, paused))
			})
	}
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/console/sales/{id}", ID: "inspect-sale", Tag: "console",
		Summary: "Gate, queue and SQL of a sale side by side", Private: true, Errors: []*errs.Error{voucher.ErrSaleNotFound, identity.ErrForbidden}}, s.inspect)
}

type listInput struct {
	api.Page
	State string `query:"state" enum:"live,upcoming,ended"`
}

func (s *Service) list(ctx context.Context, in *listInput) (*struct{ Body api.List[saleJSON] }, error) {
	var after *saleCursor
	if err := api.DecodeCursor(in.Cursor, &after); err != nil {
		return nil, err
	}
	sales, err := s.List(ctx, State(in.State), after, in.Limit+1)
	if err != nil {
		return nil, err
	}
	page := api.Cut(sales, in.Limit, cursorOf(State(in.State)))
	out := api.List[saleJSON]{Items: make([]saleJSON, len(page.Items)), NextCursor: page.NextCursor}
	for i, sale := range page.Items {
		out.Items[i] = wire(sale)
	}
	return &struct{ Body api.List[saleJSON] }{out}, nil
}

type grabInput struct {
	ID  id.Param `path:"id"`
	Key string   `header:"Idempotency-Key" minLength:"8" maxLength:"64" pattern:"^[A-Za-z0-9_-]+$" doc:"The same key gives the same answer; absent = a new attempt"`
	// Body is optional and empty: what is bought, and for how much, is the sale's business.
	Body *struct{} `required:"false"`
}

type grabOutput struct {
	Key  string `header:"Idempotency-Key" doc:"The key of this attempt, also when the server drew it"`
	Body struct {
		OrderID id.ID  `json:"orderId"`
		Status  string `json:"status" enum:"queued"`
	}
}

func (s *Service) postOrder(ctx context.Context, in *grabInput) (*grabOutput, error) {
	user, err := identity.Require(ctx)
	if err != nil {
		return nil, err
	}
	if in.Key == "" {
		in.Key = s.NewKey()
	}
	orderID, err := s.Grab(ctx, user.ID, in.ID.ID, in.Key)
	if errors.Is(err, ErrUnknown) {
		return nil, errs.From(err).Set(api.ExtraKey, in.Key)
	}
	if err != nil {
		return nil, err
	}
	out := &grabOutput{Key: in.Key}
	out.Body.OrderID, out.Body.Status = orderID, order.Queued.String()
	return out, nil
}

type createInput struct {
	ID   id.Param `path:"id"`
	Body struct {
		Stock        int64     `json:"stock" minimum:"1" maximum:"10000000"`
		BeginsAt     time.Time `json:"beginsAt"`
		EndsAt       time.Time `json:"endsAt"`
		LimitPerUser int       `json:"limitPerUser,omitempty" minimum:"1" maximum:"63" default:"1"`
	}
}

func (s *Service) postSale(ctx context.Context, in *createInput) (*saleOutput, error) {
	return answer(s.Create(ctx, in.ID.ID, in.Body.Stock, in.Body.BeginsAt, in.Body.EndsAt, in.Body.LimitPerUser))
}

type editInput struct {
	ID   id.Param `path:"id"`
	Body struct {
		BeginsAt     *time.Time `json:"beginsAt,omitempty"`
		EndsAt       *time.Time `json:"endsAt,omitempty"`
		LimitPerUser *int       `json:"limitPerUser,omitempty" minimum:"1" maximum:"63"`
	}
}

type stockInput struct {
	ID   id.Param `path:"id"`
	Body struct {
		Delta  int64  `json:"delta" minimum:"-10000000" maximum:"10000000" doc:"Units to add; negative takes away"`
		Reason string `json:"reason" minLength:"1" maxLength:"200"`
	}
}

type inspectionJSON struct {
	SaleID       id.ID `json:"saleId"`
	LimitPerUser int   `json:"limitPerUser"`
	Released     int64 `json:"released" doc:"All units ever put up"`
	Gate         struct {
		Loaded  bool  `json:"loaded"`
		Stock   int64 `json:"stock"`
		Pending int64 `json:"pending"`
		Orders  int64 `json:"orders"`
	} `json:"gate"`
	DB struct {
		Stock     int64 `json:"stock"`
		Live      int64 `json:"live"`
		Failed    int64 `json:"failed"`
		OverLimit int64 `json:"overLimit" doc:"Buyers with more live orders than the limit"`
	} `json:"db"`
	Queue struct {
		Ready    int64 `json:"ready"`
		Unacked  int64 `json:"unacked"`
		OldestMS int64 `json:"oldestMs"`
	} `json:"queue"`
	Releases int64 `json:"releases" doc:"Units on their way back to the gate"`
	AtRest   bool  `json:"atRest" doc:"Nothing is pending, queued or on its way back"`
}

func (s *Service) inspect(ctx context.Context, in *idInput) (*struct{ Body inspectionJSON }, error) {
	if _, err := identity.RequireRole(ctx, identity.Operator, identity.ReadOnly); err != nil {
		return nil, err
	}
	offer, err := voucher.FindOffer(ctx, s.DB, s.DB.Read, in.ID.ID)
	if err != nil {
		return nil, err
	}
	tally, err := order.Count(ctx, s.DB.Read, offer.ID, offer.LimitPerUser)
	if err != nil {
		return nil, err
	}
	standing, err := s.Gate.Standing(ctx, offer.ID)
	if err != nil {
		return nil, err
	}
	depth, err := s.Broker.Depth(ctx, order.TopicCreate)
	if err != nil {
		return nil, err
	}
	out := &struct{ Body inspectionJSON }{}
	b := &out.Body
	b.SaleID, b.LimitPerUser, b.Released = offer.ID, offer.LimitPerUser, offer.StockReleased
	b.Gate.Loaded, b.Gate.Stock, b.Gate.Pending, b.Gate.Orders = standing.Loaded, standing.Stock, standing.Pending, standing.Orders
	b.DB.Stock, b.DB.Live, b.DB.Failed, b.DB.OverLimit = offer.Stock, tally.Live, tally.Failed, tally.OverLimit
	b.Queue.Ready, b.Queue.Unacked, b.Queue.OldestMS = depth.Ready, depth.Unacked, depth.Oldest.Milliseconds()
	b.Releases = tally.Releases
	b.AtRest = standing.Pending == 0 && depth.Ready+depth.Unacked == 0 && tally.Releases == 0
	return out, nil
}
