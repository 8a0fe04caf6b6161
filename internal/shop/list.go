package shop

import (
	"context"
	"math"
	"strings"

	"github.com/uptrace/bun"

	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

// Sort is the order of a list.
type Sort string

const (
	ByDistance Sort = "distance" // nearest first; needs Near
	BySold     Sort = "sold"     // most sold first
	ByRating   Sort = "rating"   // best first
	ByPrice    Sort = "price"    // cheapest first
)

// Query says which shops to list. The zero values of Category, Word and Near do not filter.
type Query struct {
	Category id.ID
	Word     string    // a piece of the name, taken literally, in either case
	Near     *Location // with it only shops within Radius, and each tells its distance
	Radius   float64   // metres
	Sort     Sort      // "" = ByDistance with Near, BySold without
	Cursor   string
	Limit    int
}

// position is what a cursor holds: the last row's place in the order. Key is metres for ByDistance.
type position struct {
	Sort Sort    `json:"s"`
	Key  float64 `json:"k"`
	ID   id.ID   `json:"i"`
}

// List returns a page. It returns api.ErrCursor for a cursor of another order and api.ErrInvalid for ByDistance
// without Near.
func (s *Service) List(ctx context.Context, q Query) (api.List[*Shop], error) {
	if q.Sort == "" {
		q.Sort = BySold
		if q.Near != nil {
			q.Sort = ByDistance
		}
	}
	if q.Sort == ByDistance && q.Near == nil {
		return api.List[*Shop]{}, api.Faults(api.Invalid{Location: "query.near", Message: "required to sort by distance"})
	}
	after := position{Sort: q.Sort}
	if err := api.DecodeCursor(q.Cursor, &after); err != nil {
		return api.List[*Shop]{}, err
	}
	if after.Sort != q.Sort {
		return api.List[*Shop]{}, api.ErrCursor
	}
	if q.Sort == ByDistance {
		return s.listByDistance(ctx, q, after)
	}
	return s.listByColumn(ctx, q, after)
}

func (s *Service) listByDistance(ctx context.Context, q Query, after position) (page api.List[*Shop], err error) {
	if !s.nearby.loaded() {
		if err := s.RefreshNearby(ctx); err != nil {
			return page, err
		}
	}
	word := strings.ToLower(q.Word)
	if q.Cursor == "" {
		after.Key = -1 // before the shop on the very spot
	}
	hits := s.nearby.nearest(*q.Near, q.Radius, hit{after.ID, after.Key}, q.Limit+1, func(p place) bool {
		return (q.Category == 0 || p.category == q.Category) && strings.Contains(p.name, word)
	})
	cut := api.Cut(hits, q.Limit, func(h hit) any { return position{ByDistance, h.metres, h.id} })
	ids := make([]id.ID, len(cut.Items))
	for i, h := range cut.Items {
		ids[i] = h.id
	}
	rows, err := findShops(ctx, s.db.Read, ids)
	if err != nil {
		return page, err
	}
	page = api.List[*Shop]{Items: make([]*Shop, 0, len(ids)), NextCursor: cut.NextCursor}
	for _, h := range cut.Items {
		if row := rows[h.id]; row != nil {
			row.Distance = rounded(h.metres)
			page.Items = append(page.Items, row)
		}
	}
	return page, nil
}

// listByColumn fetches until a page is full: within a radius SQL knows the square only, the circle is cut out here.
func (s *Service) listByColumn(ctx context.Context, q Query, after position) (page api.List[*Shop], err error) {
	rows, first := []*Shop{}, q.Cursor == ""
	for len(rows) <= q.Limit {
		batch, err := findPage(ctx, s.db.Read, q, after, first)
		if err != nil {
			return page, err
		}
		for _, row := range batch {
			if q.within(row) {
				rows = append(rows, row)
			}
		}
		if len(batch) <= q.Limit {
			break
		}
		after, first = q.positionOf(batch[len(batch)-1]), false
	}
	return api.Cut(rows, q.Limit, func(last *Shop) any { return q.positionOf(last) }), nil
}

func (q Query) positionOf(s *Shop) position {
	key := float64(s.Sold)
	switch q.Sort {
	case ByRating:
		key = float64(s.Score)
	case ByPrice:
		key = float64(s.AvgPrice)
	}
	return position{q.Sort, key, s.ID}
}

// within reports whether the row lies in the circle, and notes its distance.
func (q Query) within(s *Shop) bool {
	if q.Near == nil {
		return true
	}
	metres := Metres(*q.Near, s.Location)
	s.Distance = rounded(metres)
	return metres <= q.Radius
}

func rounded(metres float64) *int64 {
	n := int64(math.Round(metres))
	return &n
}

// findPage returns up to Limit+1 rows behind the position, or from the beginning.
func findPage(ctx context.Context, db store.Querier, q Query, after position, first bool) ([]*Shop, error) {
	column, direction, behind := "sold", "DESC", "<"
	switch q.Sort {
	case ByRating:
		column = "score"
	case ByPrice:
		column, direction, behind = "avg_price", "ASC", ">"
	}
	var rows []*Shop
	sel := db.NewSelect().Model(&rows).OrderExpr("? "+direction+", id", bun.Ident(column)).Limit(int64(q.Limit) + 1)
	if !first {
		sel.Where("(? "+behind+" ? OR (? = ? AND id > ?))", bun.Ident(column), int64(after.Key), bun.Ident(column), int64(after.Key), after.ID)
	}
	if q.Category != 0 {
		sel.Where("category_id = ?", q.Category)
	}
	if q.Word != "" {
		sel.Where("LOWER(name) LIKE ? ESCAPE '!'", "%"+literal(strings.ToLower(q.Word))+"%")
	}
	if q.Near != nil {
		lng, lat := span(*q.Near, q.Radius)
		sel.Where("lat BETWEEN ? AND ?", q.Near.Lat-lat, q.Near.Lat+lat)
		if west, east := q.Near.Lng-lng, q.Near.Lng+lng; west >= -180 && east <= 180 {
			sel.Where("lng BETWEEN ? AND ?", west, east)
		}
	}
	return rows, sel.Scan(ctx)
}

// literal takes their meaning from the wildcards of LIKE (W34).
func literal(s string) string {
	return strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(s)
}

// span is half the size, in degrees, of the box that holds the circle. Around a pole every longitude is in it.
func span(at Location, metres float64) (lng, lat float64) {
	const slack = 1.000001
	lat = metres / earthRadius * 180 / math.Pi * slack
	if math.Abs(at.Lat)+lat >= 90 {
		return 360, lat
	}
	return math.Asin(math.Sin(radians(lat))/math.Cos(radians(at.Lat))) * 180 / math.Pi * slack, lat
}
