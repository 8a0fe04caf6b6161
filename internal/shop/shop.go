package shop

import (
	"github.com/uptrace/bun"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
)

// Category groups shops. Icon is a path on this server.
type Category struct {
	bun.BaseModel `bun:"table:category,alias:category"`

	ID   id.ID  `bun:",pk" json:"id"`
	Name string `json:"name"`
	Icon string `json:"icon" example:"/pictures/category-1.svg"`
	Sort int    `json:"sort" doc:"Position, ascending"`
}

// Location is a point on the earth in degrees (WGS 84).
type Location struct {
	Lng float64 `json:"lng" minimum:"-180" maximum:"180"`
	Lat float64 `json:"lat" minimum:"-90" maximum:"90"`
}

// Shop is a row and what travels of it.
type Shop struct {
	bun.BaseModel `bun:"table:shop,alias:shop"`

	ID         id.ID     `bun:",pk,autoincrement" json:"id"`
	CategoryID id.ID     `json:"categoryId"`
	OwnerID    id.ID     `bun:",nullzero" json:"-"` // 0 = nobody: operators only
	Name       string    `json:"name"`
	Pictures   []string  `json:"pictures" nullable:"false" doc:"Paths on this server, the first is the cover"`
	Area       string    `json:"area" doc:"Business district"`
	Address    string    `json:"address"`
	Location   Location  `bun:"embed:" json:"location"`
	AvgPrice   money.Fen `json:"avgPrice" doc:"What one person spends, in fen"`
	Sold       int64     `json:"sold"`
	Comments   int64     `json:"comments"`
	Score      int       `json:"score" doc:"Tenths of a star: 10 to 50, 0 = not rated yet"`
	OpenHours  string    `json:"openHours" example:"10:00-22:00"`
	CreatedAt  int64     `json:"-"`
	UpdatedAt  int64     `json:"-"`

	Distance *int64 `bun:"-" json:"distance,omitempty" doc:"Metres, when the query says near"`
}

// Card is what other features show of a shop. Picture is empty without one.
type Card struct {
	ID                           id.ID
	Name, Area, Address, Picture string
}

func (s *Shop) card() Card {
	c := Card{ID: s.ID, Name: s.Name, Area: s.Area, Address: s.Address}
	if len(s.Pictures) > 0 {
		c.Picture = s.Pictures[0]
	}
	return c
}

// ErrNotFound answers an id that no shop has.
var ErrNotFound = errs.Define("shop.not_found", errs.NotFound, "店铺不存在。", "No such shop.")
