package shop

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

// FindCategories lists all categories in their order.
func FindCategories(ctx context.Context, q store.Querier) ([]*Category, error) {
	list := []*Category{}
	err := q.NewSelect().Model(&list).Order("sort", "id").Scan(ctx)
	return list, err
}

// InsertCategories writes categories with the ids they carry.
func InsertCategories(ctx context.Context, q store.Querier, list []*Category) error {
	_, err := q.NewInsert().Model(&list).Exec(ctx)
	return err
}

// FindShop returns ErrNotFound if there is no such shop.
func FindShop(ctx context.Context, q store.Querier, shopID id.ID) (*Shop, error) {
	s := &Shop{}
	err := q.NewSelect().Model(s).Where("id = ?", shopID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return s, err
}

func findShops(ctx context.Context, q store.Querier, ids []id.ID) (map[id.ID]*Shop, error) {
	found := make(map[id.ID]*Shop, len(ids))
	if len(ids) == 0 {
		return found, nil
	}
	var rows []*Shop
	if err := q.NewSelect().Model(&rows).Where("id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, err
	}
	for _, r := range rows {
		found[r.ID] = r
	}
	return found, nil
}

// InsertShops writes shops: those with an id under it, the others get one.
func InsertShops(ctx context.Context, q store.Querier, list ...*Shop) error {
	for _, s := range list {
		if s.Pictures == nil {
			s.Pictures = []string{} // JSON must never say null
		}
	}
	_, err := q.NewInsert().Model(&list).Exec(ctx)
	return err
}

// InsertStaff binds a user to a shop as one who works there.
func InsertStaff(ctx context.Context, q store.Querier, shopID, userID id.ID, now int64) error {
	_, err := q.ExecContext(ctx, `INSERT INTO shop_staff (shop_id, user_id, created_at) VALUES (?, ?, ?)`, shopID, userID, now)
	return err
}

func updateShop(ctx context.Context, q store.Querier, s *Shop) error {
	_, err := q.NewUpdate().Model(s).WherePK().
		Column("category_id", "name", "pictures", "area", "address", "lng", "lat", "avg_price", "open_hours", "updated_at").Exec(ctx)
	return err
}

func findPlaces(ctx context.Context, q store.Querier) ([]place, error) {
	var rows []*Shop
	if err := q.NewSelect().Model(&rows).Column("id", "category_id", "name", "lng", "lat").Scan(ctx); err != nil {
		return nil, err
	}
	places := make([]place, len(rows))
	for i, r := range rows {
		places[i] = placeOf(r)
	}
	return places, nil
}

func findShopsOf(ctx context.Context, q store.Querier, userID id.ID) ([]id.ID, error) {
	ids := []id.ID{}
	err := q.NewRaw(`SELECT id FROM shop WHERE owner_id = ? UNION SELECT shop_id FROM shop_staff WHERE user_id = ? ORDER BY 1`, userID, userID).Scan(ctx, &ids)
	return ids, err
}

// findShopsOwnedBy lists the shops of an owner.
func findShopsOwnedBy(ctx context.Context, q store.Querier, userID id.ID) ([]id.ID, error) {
	ids := []id.ID{}
	err := q.NewSelect().Model((*Shop)(nil)).Column("id").Where("owner_id = ?", userID).Order("id").Scan(ctx, &ids)
	return ids, err
}

func categoryExists(ctx context.Context, q store.Querier, categoryID id.ID) (bool, error) {
	return q.NewSelect().Model((*Category)(nil)).Where("id = ?", categoryID).Exists(ctx)
}
