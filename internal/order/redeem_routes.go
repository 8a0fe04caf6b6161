package order

import (
	"context"
	"net/http"
	"strings"
	"time"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
)

// redemptionJSON is a code on the wire, as a clerk sees it.
type redemptionJSON struct {
	RedemptionID id.ID           `json:"redemptionId,omitempty" doc:"What an undo names; absent for another shop's code"`
	OrderID      id.ID           `json:"orderId,omitempty" doc:"Absent for another shop's code"`
	Status       string          `json:"status,omitempty" enum:"paid,used,refunding,refunded" doc:"Absent for another shop's code"`
	Redeemable   bool            `json:"redeemable"`
	Refusal      string          `json:"refusal,omitempty" enum:"used,expired,refunded,other_shop" doc:"Why it can't be redeemed"`
	Voucher      redeemedVoucher `json:"voucher"`
	Shop         orderShopJSON   `json:"shop"`
	Buyer        string          `json:"buyer,omitempty" example:"尾号 0001" doc:"The last digits of the buyer's phone, in the language of Accept-Language"`
	ValidUntil   *time.Time      `json:"validUntil,omitempty"`
	RedeemedAt   *time.Time      `json:"redeemedAt,omitempty"`
	UndoBefore   *time.Time      `json:"undoBefore,omitempty" doc:"Until when a redemption can be undone"`
}

type redeemedVoucher struct {
	Title     string    `json:"title"`
	FaceValue money.Fen `json:"faceValue"`
}

// orderShopJSON is the little of a shop that an order shows.
type orderShopJSON struct {
	ID   id.ID  `json:"id"`
	Name string `json:"name"`
}

func (r *Redeemer) wire(ctx context.Context, v *Redemption) redemptionJSON {
	j := redemptionJSON{Redeemable: v.Refusal == nil && v.Status == Paid, Voucher: redeemedVoucher{v.Voucher.Title, v.Voucher.FaceValue}, Shop: orderShopJSON{v.ShopID, v.ShopName}}
	if v.Refusal != nil {
		_, j.Refusal, _ = strings.Cut(v.Refusal.Code, ".")
	}
	if v.OrderID == 0 {
		return j
	}
	j.RedemptionID, j.OrderID, j.Status = v.OrderID, v.OrderID, v.Status.String()
	j.ValidUntil = wireTime(v.ValidUntil)
	if v.Status == Used && v.RedeemedAt != nil {
		j.RedeemedAt = wireTime(*v.RedeemedAt)
		if until := v.UndoBefore(); until > store.Millis(r.Now()) {
			j.UndoBefore = wireTime(until)
		}
	}
	if v.Buyer != "" {
		j.Buyer = "尾号 " + v.Buyer
		if api.RequestOf(ctx).Language() == "en" {
			j.Buyer = "ending in " + v.Buyer
		}
	}
	return j
}

func wireTime(ms int64) *time.Time {
	t := api.Wire(store.Time(ms))
	return &t
}

// Routes registers what is done at a shop's counter. The limits keep codes from being guessed.
func (r *Redeemer) Routes(a *api.API) {
	reading, writing := limit.Rule{User: limit.PerMinute(120)}, limit.Rule{User: limit.PerMinute(60)}
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/redemptions/{code}", ID: "look-up-code", Tag: "redemptions", Summary: "What a redeem code stands for (the shop's clerks and owner, operators)",
		Private: true, Limit: reading, Errors: []*errs.Error{identity.ErrForbidden, ErrNoCode}}, r.look)
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/redemptions", ID: "redeem", Tag: "redemptions", Summary: "Redeem a code (the shop's clerks and owner, operators)",
		Status: http.StatusCreated, Private: true, Limit: writing, Errors: []*errs.Error{identity.ErrForbidden, ErrNoCode, ErrOtherShop, ErrRedeemed, ErrCodeExpired, ErrCodeRefunded, ErrUnknown}}, r.redeem)
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/redemptions/{id}/undo", ID: "undo-redemption", Tag: "redemptions", Summary: "Take a redemption back within 60 seconds",
		Private: true, Limit: writing, Errors: []*errs.Error{identity.ErrForbidden, ErrNoCode, ErrOtherShop, ErrUndoLate, ErrUnknown}}, r.undo)
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/redemptions", ID: "list-redemptions", Tag: "redemptions", Summary: "What was redeemed today for my own shops, the newest first",
		Private: true, Limit: reading, Errors: []*errs.Error{identity.ErrForbidden, api.ErrCursor}}, r.list)
}

type redemptionOut struct{ Body redemptionJSON }

func (r *Redeemer) answer(ctx context.Context, v *Redemption, err error) (*redemptionOut, error) {
	if err != nil {
		return nil, err
	}
	return &redemptionOut{r.wire(ctx, v)}, nil
}

func (r *Redeemer) look(ctx context.Context, in *struct {
	Code string `path:"code" maxLength:"32" doc:"12 digits; blanks and dashes between them don't count"`
}) (*redemptionOut, error) {
	v, err := r.Look(ctx, in.Code)
	return r.answer(ctx, v, err)
}

func (r *Redeemer) redeem(ctx context.Context, in *struct {
	Body struct {
		Code string `json:"code" maxLength:"32" doc:"12 digits; blanks and dashes between them don't count"`
	}
}) (*redemptionOut, error) {
	v, err := r.Redeem(ctx, in.Body.Code)
	if v != nil {
		v.Refusal = nil // that it is used now is what was wanted
	}
	return r.answer(ctx, v, err)
}

func (r *Redeemer) undo(ctx context.Context, in *idInput) (*redemptionOut, error) {
	v, err := r.Undo(ctx, in.ID.ID)
	return r.answer(ctx, v, err)
}

func (r *Redeemer) list(ctx context.Context, in *struct {
	api.Page
	Date string `query:"date" enum:"today" default:"today"`
}) (*struct{ Body api.List[redemptionJSON] }, error) {
	var before Place
	if err := api.DecodeCursor(in.Cursor, &before); err != nil {
		return nil, err
	}
	y, m, d := r.Now().In(api.Zone).Date()
	rows, err := r.Since(ctx, time.Date(y, m, d, 0, 0, 0, 0, api.Zone), before, in.Limit+1)
	if err != nil {
		return nil, err
	}
	page := api.Cut(rows, in.Limit, func(last *Redemption) any { return Place{*last.RedeemedAt, last.OrderID} })
	out := api.List[redemptionJSON]{Items: []redemptionJSON{}, NextCursor: page.NextCursor}
	for _, v := range page.Items {
		out.Items = append(out.Items, r.wire(ctx, v))
	}
	return &struct{ Body api.List[redemptionJSON] }{out}, nil
}
