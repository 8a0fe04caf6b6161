package shop

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/api"
	"tandian/internal/kit/audit"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
)

// Limits of what a merchant may write; those of text are in characters.
const (
	MaxName      = 60
	MaxArea      = 60
	MaxAddress   = 120
	MaxOpenHours = 60
	MaxPictures  = 9
	MaxPicture   = 200                   // length of one path
	MaxPrice     = money.Fen(10_000_000) // ¥100,000
)

// NewShop is what a merchant says of a new shop.
type NewShop struct {
	Name       string    `json:"name" doc:"1 to 60 characters"`
	CategoryID id.ID     `json:"categoryId"`
	Location   Location  `json:"location"`
	Address    string    `json:"address" minLength:"1" doc:"Up to 120 characters"`
	Pictures   []string  `json:"pictures,omitempty" nullable:"false" maxItems:"9" doc:"Paths on this server"`
	Area       string    `json:"area,omitempty" doc:"Up to 60 characters"`
	AvgPrice   money.Fen `json:"avgPrice,omitempty" minimum:"0" maximum:"10000000" doc:"In fen"`
	OpenHours  string    `json:"openHours,omitempty" doc:"Up to 60 characters"`
}

// Create opens a shop. A merchant becomes its owner; one opened by an operator who is no merchant has no owner.
// Anyone else gets identity.ErrForbidden.
func (s *Service) Create(ctx context.Context, n NewShop) (*Shop, error) {
	user, err := identity.RequireRole(ctx, identity.Merchant, identity.Operator)
	if err != nil {
		return nil, err
	}
	now := s.now()
	row := &Shop{CategoryID: n.CategoryID, Name: n.Name, Pictures: n.Pictures, Area: n.Area, Address: n.Address, Location: n.Location,
		AvgPrice: n.AvgPrice, OpenHours: n.OpenHours, CreatedAt: store.Millis(now), UpdatedAt: store.Millis(now)}
	if user.Has(identity.Merchant) {
		row.OwnerID = user.ID
	}
	if err := row.tidy(); err != nil {
		return nil, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := checkCategory(ctx, tx, row.CategoryID); err != nil {
			return err
		}
		if err := InsertShops(ctx, tx, row); err != nil {
			return err
		}
		return audit.Write(ctx, tx, entry(user, now, "shop.create", row.ID, row))
	})
	if err != nil {
		return nil, err
	}
	s.follow(context.WithoutCancel(ctx), row.ID)
	return row, nil
}

// ShopPatch says what is to change; nil fields stay.
type ShopPatch struct {
	Name       *string    `json:"name,omitempty" doc:"1 to 60 characters"`
	CategoryID *id.ID     `json:"categoryId,omitempty"`
	Location   *Location  `json:"location,omitempty"`
	Address    *string    `json:"address,omitempty" minLength:"1" doc:"Up to 120 characters"`
	Pictures   *[]string  `json:"pictures,omitempty" nullable:"false" maxItems:"9" doc:"Paths on this server; replaces all"`
	Area       *string    `json:"area,omitempty" doc:"Up to 60 characters"`
	AvgPrice   *money.Fen `json:"avgPrice,omitempty" minimum:"0" maximum:"10000000" doc:"In fen"`
	OpenHours  *string    `json:"openHours,omitempty" doc:"Up to 60 characters"`
}

// apply writes the given fields into the row.
func (p ShopPatch) apply(s *Shop) {
	set(&s.Name, p.Name)
	set(&s.CategoryID, p.CategoryID)
	set(&s.Location, p.Location)
	set(&s.Address, p.Address)
	set(&s.Pictures, p.Pictures)
	set(&s.Area, p.Area)
	set(&s.AvgPrice, p.AvgPrice)
	set(&s.OpenHours, p.OpenHours)
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Update changes a shop for those who may write it (MayWrite's errors).
func (s *Service) Update(ctx context.Context, shopID id.ID, p ShopPatch) (row *Shop, err error) {
	if err := s.MayWrite(ctx, shopID); err != nil {
		return nil, err
	}
	if p == (ShopPatch{}) {
		return s.Find(ctx, shopID)
	}
	now := s.now()
	err = s.db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		// The update comes first: it takes the row's lock, so that two patches don't undo each other.
		if _, err := tx.ExecContext(ctx, `UPDATE shop SET updated_at = ? WHERE id = ?`, store.Millis(now), shopID); err != nil {
			return err
		}
		if row, err = FindShop(ctx, tx, shopID); err != nil {
			return err
		}
		p.apply(row)
		row.UpdatedAt = store.Millis(now)
		if err := row.tidy(); err != nil {
			return err
		}
		if err := checkCategory(ctx, tx, row.CategoryID); err != nil {
			return err
		}
		if err := updateShop(ctx, tx, row); err != nil {
			return err
		}
		return audit.Write(ctx, tx, entry(identity.From(ctx).User, now, "shop.update", shopID, p))
	})
	if err != nil {
		return nil, err
	}
	s.follow(context.WithoutCancel(ctx), shopID)
	return row, nil
}

func entry(by *identity.User, at time.Time, action string, shopID id.ID, detail any) audit.Entry {
	return audit.Entry{At: at, Actor: by.ID, Action: action, Subject: "shop:" + shopID.String(), Detail: detail}
}

func checkCategory(ctx context.Context, q store.Querier, categoryID id.ID) error {
	ok, err := categoryExists(ctx, q, categoryID)
	if err == nil && !ok {
		return api.Faults(api.Invalid{Location: "body.categoryId", Message: "no such category"})
	}
	return err
}

// picturePath is a path on this server: no scheme, no host, no way up.
var picturePath = regexp.MustCompile(`^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$`)

// tidy trims the texts and checks everything that people will see (W22, W23). It returns api.ErrInvalid.
func (s *Shop) tidy() error {
	for _, f := range []struct {
		name     string
		text     *string
		min, max int
	}{
		{"name", &s.Name, 1, MaxName}, {"address", &s.Address, 0, MaxAddress}, {"area", &s.Area, 0, MaxArea}, {"openHours", &s.OpenHours, 0, MaxOpenHours},
	} {
		*f.text = strings.TrimSpace(*f.text)
		if err := api.CleanText("body."+f.name, *f.text, f.min, f.max); err != nil {
			return err
		}
		if strings.ContainsAny(*f.text, "\r\n\t") {
			return api.Faults(api.Invalid{Location: "body." + f.name, Message: "must be one line"})
		}
	}
	if len(s.Pictures) > MaxPictures {
		return api.Faults(api.Invalid{Location: "body.pictures", Message: fmt.Sprintf("at most %d", MaxPictures)})
	}
	for i, path := range s.Pictures {
		if len(path) > MaxPicture || !picturePath.MatchString(path) {
			return api.Faults(api.Invalid{Location: fmt.Sprintf("body.pictures[%d]", i), Message: "must be a path on this server"})
		}
	}
	if s.AvgPrice < 0 || s.AvgPrice > MaxPrice {
		return api.Faults(api.Invalid{Location: "body.avgPrice", Message: fmt.Sprintf("0 to %d fen", MaxPrice)})
	}
	return nil
}
