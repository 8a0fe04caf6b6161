package order

import (
	"context"
	"crypto/rand"
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

// Code is a row of redeem_code.
type Code struct {
	bun.BaseModel `bun:"table:redeem_code"`

	OrderID    id.ID `bun:",pk"`
	Code       string
	ShopID     id.ID
	ValidUntil int64  // Unix ms, exclusive
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
		err = store.Exec(ctx, tx, `INSERT INTO redeem_code (order_id, code, shop_id, valid_until) VALUES (?, ?, ?, ?)`, int64(o.ID), code, int64(v.ShopID), validUntil)
		if !db.IsDuplicate(err) {
			return err
		}
	}
	return errors.New("every redeem code drawn is taken")
}
