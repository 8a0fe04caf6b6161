package voucher

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
)

// FlashSale is the row of a flash sale: one voucher, limited stock, a window. Stock here is the truth; the gate of
// package flashsale only decides who may take it.
type FlashSale struct {
	bun.BaseModel `bun:"table:sale,alias:sale"`

	ID            id.ID `bun:",pk,autoincrement"`
	VoucherID     id.ID
	Stock         int64 // left
	StockReleased int64 // all that was ever put up: the first stock and every top-up
	BeginsAt      int64 // Unix ms, inclusive
	EndsAt        int64 // Unix ms, exclusive
	LimitPerUser  int   // live orders a buyer may hold, 1..63
	Paused        bool
	Epoch         int64 // raised by each rebuild of the gate
	Version       int64 // raised by each change of the terms or of what is released
	CreatedAt     int64
	UpdatedAt     int64
}

// Offer is a sale with what its orders need to know of the voucher.
type Offer struct {
	FlashSale `bun:",extend"`
	ShopID    id.ID
	Title     string
	SubTitle  string
	Rules     string
	PayValue  money.Fen
	FaceValue money.Fen
}

// Phase is what a sale is doing. The order of the checks is the order in which a buyer is refused.
type Phase string

const (
	Scheduled Phase = "scheduled"
	Ended     Phase = "ended"
	Paused    Phase = "paused"
	SoldOut   Phase = "soldOut"
	Live      Phase = "live"
)

// PhaseOf tells a sale's phase at an instant.
func PhaseOf(now, beginsAt, endsAt time.Time, paused bool, stockLeft int64) Phase {
	switch {
	case now.Before(beginsAt):
		return Scheduled
	case !now.Before(endsAt):
		return Ended
	case paused:
		return Paused
	case stockLeft <= 0:
		return SoldOut
	}
	return Live
}

// Phase tells the sale's phase by the row.
func (s *FlashSale) Phase(now time.Time) Phase {
	return PhaseOf(now, store.Time(s.BeginsAt), store.Time(s.EndsAt), s.Paused, s.Stock)
}

// ErrSaleNotFound answers an id that no sale has.
var ErrSaleNotFound = errs.Define("sale.not_found", errs.NotFound, "没有这个秒杀活动。", "No such sale.")

const (
	offerColumns = `sale.*, v.shop_id, v.title, v.sub_title, v.rules, v.pay_value, v.face_value`
	offerTables  = `sale JOIN voucher AS v ON v.id = sale.voucher_id`
)

// FindOffer returns ErrSaleNotFound if there is no such sale.
func FindOffer(ctx context.Context, db *store.DB, q store.Querier, saleID id.ID) (*Offer, error) {
	o := &Offer{}
	err := db.Get(ctx, q, o, `SELECT `+offerColumns+` FROM `+offerTables+` WHERE sale.id = ?`, int64(saleID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrSaleNotFound
	}
	return o, err
}

// FindOpenSales lists the ids of sales that end after the instant: running and coming ones.
func FindOpenSales(ctx context.Context, q store.Querier, now time.Time) ([]id.ID, error) {
	var ids []id.ID
	err := q.NewSelect().Model((*FlashSale)(nil)).Column("id").Where("ends_at > ?", store.Millis(now)).Order("begins_at").Scan(ctx, &ids)
	return ids, err
}

// FindSalesOf returns the sales of the given vouchers by voucher.
func FindSalesOf(ctx context.Context, q store.Querier, vouchers []id.ID) (map[id.ID]*FlashSale, error) {
	found := map[id.ID]*FlashSale{}
	if len(vouchers) == 0 {
		return found, nil
	}
	var rows []*FlashSale
	if err := q.NewSelect().Model(&rows).Where("voucher_id IN (?)", bun.List(vouchers)).Scan(ctx); err != nil {
		return nil, err
	}
	for _, r := range rows {
		found[r.VoucherID] = r
	}
	return found, nil
}

// ErrHasSale answers a second sale for one voucher.
var ErrHasSale = errs.Define("voucher.has_sale", errs.Conflict, "这张券已经有秒杀活动。", "This voucher already has a sale.")

// InsertSale writes a new sale and fills in its id. It returns ErrHasSale if the voucher has one.
func InsertSale(ctx context.Context, db *store.DB, q store.Querier, s *FlashSale) error {
	s.StockReleased, s.Version = s.Stock, 1
	_, err := q.NewInsert().Model(s).Exec(ctx)
	if db.IsDuplicate(err) {
		return ErrHasSale
	}
	return err
}

// TakeStock lowers the stock by n unless that would leave it below zero; false = not enough left.
func TakeStock(ctx context.Context, q store.Querier, saleID id.ID, n, now int64) (bool, error) {
	got, err := store.Affected(ctx, q, `UPDATE sale SET stock = stock - ?, updated_at = ? WHERE id = ? AND stock >= ?`, n, now, int64(saleID), n)
	return got == 1, err
}

// ReturnStock raises the stock by n units that were taken and are not wanted any more.
func ReturnStock(ctx context.Context, q store.Querier, saleID id.ID, n, now int64) error {
	return store.Exec(ctx, q, `UPDATE sale SET stock = stock + ?, updated_at = ? WHERE id = ?`, n, now, int64(saleID))
}

// ReleaseStock raises (or, with a negative delta, lowers) both what is left and what was ever released; false = the
// stock left does not cover the reduction.
func ReleaseStock(ctx context.Context, q store.Querier, saleID id.ID, delta, now int64) (bool, error) {
	got, err := store.Affected(ctx, q, `UPDATE sale SET stock = stock + ?, stock_released = stock_released + ?, updated_at = ? WHERE id = ? AND stock + ? >= 0`,
		delta, delta, now, int64(saleID), delta)
	return got == 1, err
}

// LockSale begins a change of a sale's terms or stock: it raises the version, which also keeps others out until the
// transaction ends. It returns ErrSaleNotFound if there is no such sale.
func LockSale(ctx context.Context, q store.Querier, saleID id.ID, now int64) error {
	got, err := store.Affected(ctx, q, `UPDATE sale SET version = version + 1, updated_at = ? WHERE id = ?`, now, int64(saleID))
	if err == nil && got == 0 {
		return ErrSaleNotFound
	}
	return err
}

// RaiseEpoch starts a new life of the sale's gate and returns its number.
func RaiseEpoch(ctx context.Context, q store.Querier, saleID id.ID) (epoch int64, err error) {
	got, err := store.Affected(ctx, q, `UPDATE sale SET epoch = epoch + 1 WHERE id = ?`, int64(saleID))
	if err == nil && got == 0 {
		return 0, ErrSaleNotFound
	}
	if err == nil {
		err = q.NewRaw(`SELECT epoch FROM sale WHERE id = ?`, saleID).Scan(ctx, &epoch)
	}
	return epoch, err
}

// Title is what an order shows of its voucher.
type Title struct {
	ID        id.ID
	Title     string
	ShopID    id.ID
	FaceValue money.Fen
	ValidDays int // how long it can be used after it was bought
}

// FindTitle returns ErrNotFound if there is no such voucher.
func FindTitle(ctx context.Context, db *store.DB, q store.Querier, voucherID id.ID) (t Title, err error) {
	err = db.Get(ctx, q, &t, `SELECT id, title, shop_id, face_value, valid_days FROM voucher WHERE id = ?`, int64(voucherID))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return t, err
}

// FindTitles returns the titles of those ids that exist, in any order.
func FindTitles(ctx context.Context, q store.Querier, ids []id.ID) ([]Title, error) {
	var found []Title
	if len(ids) == 0 {
		return nil, nil
	}
	err := q.NewSelect().Table("voucher").Column("id", "title", "shop_id", "face_value", "valid_days").Where("id IN (?)", bun.List(ids)).Scan(ctx, &found)
	return found, err
}

// FindOffers lists up to limit offers that satisfy the condition, sorted by the column and the id, after the given
// place (afterID 0 = from the beginning). condition and column are constants of the caller's, never input.
func FindOffers(ctx context.Context, q store.Querier, condition string, args []any, column string, descending bool, afterAt int64, afterID id.ID, limit int) ([]*Offer, error) {
	direction, beyond := "ASC", ">"
	if descending {
		direction, beyond = "DESC", "<"
	}
	var offers []*Offer
	query := q.NewSelect().Model(&offers).ColumnExpr(offerColumns).Join("JOIN voucher AS v ON v.id = sale.voucher_id").
		Where(condition, args...).OrderExpr("sale." + column + " " + direction + ", sale.id " + direction).Limit(int64(limit))
	if afterID > 0 {
		query = query.Where("(sale."+column+" "+beyond+" ? OR (sale."+column+" = ? AND sale.id "+beyond+" ?))", afterAt, afterAt, afterID)
	}
	return offers, query.Scan(ctx)
}
