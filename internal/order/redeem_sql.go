package order

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/voucher"
)

const (
	codeDigits = 12
	codeTries  = 5 // with a million codes out, one in a million draws is taken
)

// Code is a row of redeem_code. Times are Unix milliseconds.
type Code struct {
	bun.BaseModel `bun:"table:redeem_code"`

	OrderID    id.ID `bun:",pk"`
	Code       string
	ShopID     id.ID
	ValidUntil int64  // exclusive
	OpenUntil  *int64 // valid_until while the order is paid, nil otherwise: the expiry worker's list
	RedeemedAt *int64 // nil unless it is used
	RedeemedBy *id.ID
}

// newCode draws a code that can't be guessed.
func newCode() (string, error) {
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000_000_000))
	if err != nil {
		return "", fmt.Errorf("draw a redeem code: %w", err)
	}
	return fmt.Sprintf("%0*d", codeDigits, n), nil
}

// makeCode gives an order its code, in the transaction that pays it.
func makeCode(ctx context.Context, db *store.DB, tx bun.Tx, o *Order, now int64) error {
	v, err := voucher.FindTitle(ctx, db, tx, o.VoucherID)
	if err != nil {
		return err
	}
	validUntil := now + (time.Duration(v.ValidDays) * 24 * time.Hour).Milliseconds()
	for range codeTries {
		code, err := newCode()
		if err != nil {
			return err
		}
		err = store.Exec(ctx, tx, `INSERT INTO redeem_code (order_id, code, shop_id, valid_until, open_until) VALUES (?, ?, ?, ?, ?)`,
			int64(o.ID), code, int64(v.ShopID), validUntil, validUntil)
		if !db.IsDuplicate(err) {
			return err
		}
	}
	return errors.New("every redeem code drawn is taken")
}

// voidCode takes a code off the expiry worker's list, in the transaction that begins the refund.
func voidCode(ctx context.Context, tx bun.Tx, orderID id.ID) error {
	return store.Exec(ctx, tx, `UPDATE redeem_code SET open_until = NULL WHERE order_id = ?`, int64(orderID))
}

// findCode returns ErrNoCode if there is no such code.
func findCode(ctx context.Context, db *store.DB, q store.Querier, code string) (*Code, error) {
	return oneCode(ctx, db, q, `SELECT * FROM redeem_code WHERE code = ?`, code)
}

// findCodeOf returns ErrNoCode if the order has none.
func findCodeOf(ctx context.Context, db *store.DB, q store.Querier, orderID id.ID) (*Code, error) {
	return oneCode(ctx, db, q, `SELECT * FROM redeem_code WHERE order_id = ?`, int64(orderID))
}

func oneCode(ctx context.Context, db *store.DB, q store.Querier, query string, arg any) (*Code, error) {
	c := &Code{}
	err := db.Get(ctx, q, c, query, arg)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNoCode
	}
	return c, err
}

// Place is where a page of redemptions begins; the zero Place is the beginning.
type Place struct {
	At int64 `json:"at"`
	ID id.ID `json:"id"`
}

// redeemedCode is a used code with what its order knows.
type redeemedCode struct {
	Code      `bun:",extend"`
	VoucherID id.ID
	UserID    id.ID
}

func findRedeemed(ctx context.Context, q store.Querier, shops []id.ID, since int64, before Place, limit int) ([]redeemedCode, error) {
	var rows []redeemedCode
	sel := q.NewSelect().Model(&rows).ModelTableExpr("redeem_code AS c").ColumnExpr("c.*, o.voucher_id, o.user_id").Join("JOIN orders AS o ON o.id = c.order_id").
		Where("c.shop_id IN (?) AND c.redeemed_at >= ?", bun.List(shops), since).Order("c.redeemed_at DESC", "c.order_id DESC").Limit(int64(limit))
	if before.ID > 0 {
		sel = sel.Where("(c.redeemed_at < ? OR (c.redeemed_at = ? AND c.order_id < ?))", before.At, before.At, before.ID)
	}
	return rows, sel.Scan(ctx)
}

// titlesOf returns the titles of the vouchers by id.
func titlesOf(ctx context.Context, q store.Querier, vouchers []id.ID) (map[id.ID]voucher.Title, error) {
	rows, err := voucher.FindTitles(ctx, q, vouchers)
	found := make(map[id.ID]voucher.Title, len(rows))
	for _, r := range rows {
		found[r.ID] = r
	}
	return found, err
}
