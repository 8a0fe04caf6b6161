package shop

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
)

// Routes registers the shops' operations.
func (s *Service) Routes(a *api.API) {
	reading := limit.Rule{IP: limit.PerSecond(50)}
	writing := limit.Rule{User: limit.PerMinute(60)} // by hand
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/categories", ID: "list-categories", Tag: "Shops", Summary: "All categories in their order",
		Limit: reading}, s.getCategories)
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/shops", ID: "list-shops", Tag: "Shops", Summary: "Find shops by word, category and distance",
		Limit: reading, Errors: []*errs.Error{api.ErrInvalid, api.ErrCursor}}, s.getShops)
	api.Handle(a, api.Route{Method: http.MethodGet, Path: "/shops/{id}", ID: "get-shop", Tag: "Shops", Summary: "One shop",
		Limit: reading, Errors: []*errs.Error{ErrNotFound}}, s.getShop)
	api.Handle(a, api.Route{Method: http.MethodPost, Path: "/shops", ID: "create-shop", Tag: "Shops", Summary: "Open a shop (merchants and operators)",
		Status: http.StatusCreated, Private: true, Limit: writing, Errors: []*errs.Error{identity.ErrForbidden, api.ErrInvalid}}, s.postShop)
	api.Handle(a, api.Route{Method: http.MethodPatch, Path: "/shops/{id}", ID: "update-shop", Tag: "Shops", Summary: "Change a shop (its owner and operators)",
		Private: true, Limit: writing, Errors: []*errs.Error{identity.ErrForbidden, ErrNotFound, api.ErrInvalid}}, s.patchShop)
}

type (
	categoriesOut struct{ Body api.List[*Category] }
	shopsOut      struct{ Body api.List[*Shop] }
	shopOut       struct{ Body *Shop }
	shopIn        struct {
		ID id.Param `path:"id"`
	}
)

func (s *Service) getCategories(ctx context.Context, _ *struct{}) (*categoriesOut, error) {
	list, err := s.Categories(ctx)
	return &categoriesOut{api.List[*Category]{Items: list}}, err
}

type shopsIn struct {
	Category id.Param `query:"category" doc:"Only shops of this category"`
	Word     string   `query:"q" maxLength:"50" doc:"A piece of the name, taken literally, in either case"`
	Near     string   `query:"near" maxLength:"48" pattern:"^-?[0-9]{1,3}(\\.[0-9]+)?,-?[0-9]{1,2}(\\.[0-9]+)?$" patternDescription:"lng,lat in degrees" example:"120.15,30.28" doc:"Only shops within the radius of this point; each tells its distance"`
	Radius   int      `query:"radius" minimum:"1" maximum:"50000" default:"5000" doc:"Metres around near"`
	Sort     Sort     `query:"sort" enum:"distance,sold,rating,price" doc:"distance needs near and is its default; sold is the default without"`
	api.Page
}

func (s *Service) getShops(ctx context.Context, in *shopsIn) (*shopsOut, error) {
	if err := api.CleanText("query.q", in.Word, 0, 50); err != nil {
		return nil, err
	}
	near, err := parseNear(in.Near)
	if err != nil {
		return nil, err
	}
	page, err := s.List(ctx, Query{Category: in.Category.ID, Word: strings.TrimSpace(in.Word), Near: near, Radius: float64(in.Radius),
		Sort: in.Sort, Cursor: in.Cursor, Limit: in.Limit})
	return &shopsOut{page}, err
}

// parseNear reads "lng,lat"; the form has been checked, the range has not. It returns nil for "".
func parseNear(s string) (*Location, error) {
	if s == "" {
		return nil, nil
	}
	first, second, _ := strings.Cut(s, ",")
	lng, err1 := strconv.ParseFloat(first, 64)
	lat, err2 := strconv.ParseFloat(second, 64)
	if err1 != nil || err2 != nil || lng < -180 || lng > 180 || lat < -90 || lat > 90 {
		return nil, api.Faults(api.Invalid{Location: "query.near", Message: "want lng,lat with lng -180 to 180 and lat -90 to 90"})
	}
	return &Location{Lng: lng, Lat: lat}, nil
}

func (s *Service) getShop(ctx context.Context, in *shopIn) (*shopOut, error) {
	row, err := s.Find(ctx, in.ID.ID)
	return &shopOut{row}, err
}

func (s *Service) postShop(ctx context.Context, in *struct{ Body NewShop }) (*shopOut, error) {
	row, err := s.Create(ctx, in.Body)
	return &shopOut{row}, err
}

func (s *Service) patchShop(ctx context.Context, in *struct {
	ID   id.Param `path:"id"`
	Body ShopPatch
}) (*shopOut, error) {
	row, err := s.Update(ctx, in.ID.ID, in.Body)
	return &shopOut{row}, err
}
