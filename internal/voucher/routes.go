package voucher

import (
	"context"
	"net/http"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
)

// Routes registers the vouchers' operations.
func (s *Service) Routes(a *api.API) {
	reading := limit.Rule{IP: limit.PerSecond(50)}
	writing := limit.Rule{User: limit.PerMinute(60)} // by hand
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/shops/{id}/vouchers", ID: "list-vouchers", Tag: "Vouchers", Summary: "A shop's vouchers, the newest first; those off the shelf only for its owner and operators",
		Limit: reading}, s.getVouchers)
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/shops/{id}/vouchers", ID: "create-voucher", Tag: "Vouchers", Summary: "Put a voucher on sale (the shop's owner and operators)",
		Status: http.StatusCreated, Private: true, Limit: writing, Errors: []*errs.Error{identity.ErrForbidden, api.ErrInvalid}}, s.postVoucher)
	api.Handle(a, api.Route{Method: http.MethodPatch, Path: "/vouchers/{id}", ID: "update-voucher", Tag: "Vouchers", Summary: "Change a voucher (the shop's owner and operators)",
		Private: true, Limit: writing, Errors: []*errs.Error{identity.ErrForbidden, ErrNotFound, ErrSaleOpen, api.ErrInvalid}}, s.patchVoucher)
}

type (
	vouchersOut struct{ Body api.List[*Voucher] }
	voucherOut  struct{ Body *Voucher }
)

func (s *Service) getVouchers(ctx context.Context, in *struct {
	ID id.Param `path:"id"`
}) (*vouchersOut, error) {
	list, err := s.ListOf(ctx, in.ID.ID)
	return &vouchersOut{api.List[*Voucher]{Items: list}}, err
}

func (s *Service) postVoucher(ctx context.Context, in *struct {
	ID   id.Param `path:"id"`
	Body NewVoucher
}) (*voucherOut, error) {
	v, err := s.Create(ctx, in.ID.ID, in.Body)
	return &voucherOut{v}, err
}

func (s *Service) patchVoucher(ctx context.Context, in *struct {
	ID   id.Param `path:"id"`
	Body VoucherPatch
}) (*voucherOut, error) {
	v, err := s.Update(ctx, in.ID.ID, in.Body)
	return &voucherOut{v}, err
}
