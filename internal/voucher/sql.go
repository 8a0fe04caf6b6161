package voucher

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

// maxListed bounds the list of one shop's vouchers.
const maxListed = 100

// FindVoucher returns ErrNotFound if there is no such voucher.
func FindVoucher(ctx context.Context, q store.Querier, voucherID id.ID) (*Voucher, error) {
	v := &Voucher{}
	err := q.NewSelect().Model(v).Where("id = ?", voucherID).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return v, err
}

// findVouchersOf lists a shop's vouchers, the newest first, at most maxListed.
func findVouchersOf(ctx context.Context, q store.Querier, shopID id.ID, offShelfToo bool) ([]*Voucher, error) {
	list := []*Voucher{}
	sel := q.NewSelect().Model(&list).Where("shop_id = ?", shopID).Order("id DESC").Limit(maxListed)
	if !offShelfToo {
		sel.Where("status = ?", OnSale)
	}
	return list, sel.Scan(ctx)
}

// FindSpare returns the oldest voucher of that shop and title which never had a sale, or ErrNotFound.
func FindSpare(ctx context.Context, q store.Querier, shopID id.ID, title string) (*Voucher, error) {
	v := &Voucher{}
	err := q.NewSelect().Model(v).Join("LEFT JOIN sale AS s ON s.voucher_id = voucher.id").
		Where("voucher.shop_id = ? AND voucher.title = ? AND s.id IS NULL", shopID, title).Order("voucher.id").Limit(1).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	return v, err
}

// FindOldestTitled returns the oldest voucher of each title that has one.
func FindOldestTitled(ctx context.Context, q store.Querier, titles []string) ([]*Voucher, error) {
	var list []*Voucher
	err := q.NewSelect().Model(&list).Where("id IN (SELECT MIN(id) FROM voucher WHERE title IN (?) GROUP BY title)", bun.List(titles)).Scan(ctx)
	return list, err
}

// InsertVouchers writes vouchers: those with an id under it, the others get one.
func InsertVouchers(ctx context.Context, q store.Querier, list ...*Voucher) error {
	_, err := q.NewInsert().Model(&list).Exec(ctx)
	return err
}

// ShelveEnded takes vouchers of those titles off the shelf whose sale ended at the instant or before.
func ShelveEnded(ctx context.Context, q store.Querier, titles []string, ended, now time.Time) error {
	_, err := q.NewUpdate().Model((*Voucher)(nil)).Set("status = ?, updated_at = ?", OffShelf, store.Millis(now)).
		Where("status = ? AND title IN (?)", OnSale, bun.List(titles)).
		Where("id IN (SELECT voucher_id FROM sale WHERE ends_at <= ?)", store.Millis(ended)).Exec(ctx)
	return err
}

func updateVoucher(ctx context.Context, q store.Querier, v *Voucher) error {
	_, err := q.NewUpdate().Model(v).WherePK().
		Column("title", "sub_title", "rules", "pay_value", "face_value", "valid_days", "status", "updated_at").Exec(ctx)
	return err
}
