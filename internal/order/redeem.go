package order

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/api"
	"tandian/internal/kit/audit"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
	"tandian/internal/voucher"
)

// undoWithin is how long a redemption can be undone.
const undoWithin = time.Minute

var (
	// ErrNoCode answers a code, or an order, that has nothing to redeem.
	ErrNoCode = errs.Define("redeem.not_found", errs.NotFound, "没有这个券码，请核对。", "No such code; check the digits.")
	// ErrOtherShop answers a code of a shop that the caller doesn't redeem for.
	ErrOtherShop = errs.Define("redeem.other_shop", errs.Forbidden, "这张券是其他门店的。", "This voucher belongs to another shop.")
	// ErrRedeemed answers a code that has been used; the problem carries when.
	ErrRedeemed = errs.Define("redeem.used", errs.Conflict, "这张券已经用过，见 redeemedAt。", "This voucher has been used; see redeemedAt.")
	// ErrCodeExpired answers a code whose time is over.
	ErrCodeExpired = errs.Define("redeem.expired", errs.Conflict, "这张券已过有效期。", "This voucher has expired.")
	// ErrCodeRefunded answers a code whose order is being, or has been, refunded.
	ErrCodeRefunded = errs.Define("redeem.refunded", errs.Conflict, "这张券已退款。", "This voucher has been refunded.")
	// ErrUndoLate answers an undo that comes too late.
	ErrUndoLate = errs.Define("redeem.too_late", errs.Conflict, "核销超过 60 秒，不能撤销。", "A redemption can be undone within 60 seconds only.")
)

// Shops is what orders need to know of shops. It is package shop's, which this package may not import.
type Shops interface {
	// RedeemsFor lists the shops for which a user may redeem: those he owns and, for a clerk, those he is bound to.
	RedeemsFor(ctx context.Context, user *identity.User) ([]id.ID, error)
	// Names returns the names of those of the shops that exist.
	Names(ctx context.Context, shops []id.ID) (map[id.ID]string, error)
}

// Buyers is what a clerk may know of buyers. It is package account's, which this package may not import.
type Buyers interface {
	// PhoneTails returns the last four digits of the users' phones.
	PhoneTails(ctx context.Context, users []id.ID) (map[id.ID]string, error)
}

// Redeemer lets those who work for a shop redeem its vouchers (P7).
type Redeemer struct {
	DB      *store.DB
	Shops   Shops
	Buyers  Buyers
	Now     func() time.Time
	Changed func(ids []id.ID) // told of orders that have moved; not nil
}

// Redemption is a code with what its redeemer may see. Of another shop's he sees whose it is, and nothing more.
type Redemption struct {
	Code
	Status   Status
	Refusal  *errs.Error // why it can't be redeemed; nil = it can
	Voucher  voucher.Title
	ShopName string
	Buyer    string // last four digits of his phone
}

// UndoBefore is until when the redemption can be undone, in Unix milliseconds; 0 = it isn't redeemed.
func (c *Code) UndoBefore() int64 {
	if c.RedeemedAt == nil {
		return 0
	}
	return *c.RedeemedAt + undoWithin.Milliseconds()
}

// counter is who stands at a shop's counter.
type counter struct {
	user  *identity.User
	shops []id.ID
}

func (c counter) serves(shop id.ID) bool {
	return c.user.Has(identity.Operator) || slices.Contains(c.shops, shop)
}

// who returns the caller if he may redeem at all, else identity.ErrRequired, ErrUnknown or ErrForbidden.
func (r *Redeemer) who(ctx context.Context) (c counter, err error) {
	if c.user, err = identity.Require(ctx); err != nil {
		return c, err
	}
	if c.shops, err = r.Shops.RedeemsFor(ctx, c.user); err != nil {
		return c, err
	}
	if len(c.shops) == 0 && !c.user.Has(identity.Operator) {
		return c, identity.ErrForbidden
	}
	return c, nil
}

// plainCode is a code without the blanks and dashes that make it readable; "" if it can't be one.
func plainCode(text string) string {
	text = strings.NewReplacer(" ", "", "-", "", "\u3000", "").Replace(text)
	if len(text) != codeDigits || strings.Trim(text, "0123456789") != "" {
		return ""
	}
	return text
}

// Look shows what a code stands for, before it is redeemed. It returns ErrNoCode if it stands for nothing.
func (r *Redeemer) Look(ctx context.Context, code string) (*Redemption, error) {
	who, err := r.who(ctx)
	if err != nil {
		return nil, err
	}
	c, err := findCode(ctx, r.DB, r.DB.Read, plainCode(code))
	if err != nil {
		return nil, err
	}
	return r.show(ctx, who, c)
}

// show looks the order up anew.
func (r *Redeemer) show(ctx context.Context, who counter, c *Code) (*Redemption, error) {
	o, err := findByID(ctx, r.DB, r.DB.Read, c.OrderID)
	if err == nil && o == nil {
		err = ErrNoCode
	}
	if err != nil {
		return nil, err
	}
	shown := &Redemption{Code: *c, Status: o.Status, Refusal: refusal(c, o.Status, store.Millis(r.Now()))}
	if shown.Voucher, err = voucher.FindTitle(ctx, r.DB, r.DB.Read, o.VoucherID); err != nil {
		return nil, err
	}
	names, err := r.Shops.Names(ctx, []id.ID{c.ShopID})
	if err != nil {
		return nil, err
	}
	shown.ShopName = names[c.ShopID]
	if !who.serves(c.ShopID) {
		return &Redemption{Code: Code{ShopID: c.ShopID}, Refusal: ErrOtherShop, Voucher: shown.Voucher, ShopName: shown.ShopName}, nil
	}
	tails, err := r.Buyers.PhoneTails(ctx, []id.ID{o.UserID})
	shown.Buyer = tails[o.UserID]
	return shown, err
}

// refusal tells why a code can't be redeemed, nil if it can.
func refusal(c *Code, status Status, now int64) *errs.Error {
	switch {
	case status == Used && c.RedeemedAt != nil:
		return ErrRedeemed.Set(api.ExtraRedeemedAt, api.Wire(store.Time(*c.RedeemedAt)))
	case status == Used:
		return ErrRedeemed
	case status != Paid:
		return ErrCodeRefunded
	case c.ValidUntil <= now:
		return ErrCodeExpired
	}
	return nil
}

// errLost rolls a transaction back whose move somebody else has forestalled.
var errLost = errors.New("order: somebody else was first")

// Redeem uses a code up. It returns ErrNoCode, ErrOtherShop, ErrRedeemed, ErrCodeExpired or ErrCodeRefunded if it can't
// be used (any more).
func (r *Redeemer) Redeem(ctx context.Context, code string) (*Redemption, error) {
	who, err := r.who(ctx)
	if err != nil {
		return nil, err
	}
	c, err := findCode(ctx, r.DB, r.DB.Read, plainCode(code))
	if err != nil {
		return nil, err
	}
	if !who.serves(c.ShopID) {
		return nil, ErrOtherShop
	}
	now := store.Millis(r.Now())
	err = r.move(ctx, who, c, "order.redeem", Move{FromStatus: Paid, ToStatus: Used, At: now},
		`UPDATE redeem_code SET redeemed_at = ?, redeemed_by = ?, open_until = NULL WHERE order_id = ? AND open_until > ?`, now, int64(who.user.ID), int64(c.OrderID), now)
	lost := errors.Is(err, errLost)
	if err != nil && !lost {
		return nil, err
	}
	if c, err = findCodeOf(ctx, r.DB, r.DB.Read, c.OrderID); err != nil {
		return nil, err
	}
	shown, err := r.show(ctx, who, c)
	if err == nil && lost {
		if shown.Refusal == nil { // undone in between
			return nil, ErrUnknown
		}
		return nil, shown.Refusal
	}
	return shown, err
}

// Undo takes a redemption back. It returns ErrNoCode, ErrOtherShop or ErrUndoLate. Undoing it twice does nothing.
func (r *Redeemer) Undo(ctx context.Context, orderID id.ID) (*Redemption, error) {
	who, err := r.who(ctx)
	if err != nil {
		return nil, err
	}
	c, err := findCodeOf(ctx, r.DB, r.DB.Read, orderID)
	if err != nil {
		return nil, err
	}
	if !who.serves(c.ShopID) {
		return nil, ErrOtherShop
	}
	now := store.Millis(r.Now())
	err = r.move(ctx, who, c, "order.redeem.undo", Move{FromStatus: Used, ToStatus: Paid, Reason: ReasonUndone, At: now},
		`UPDATE redeem_code SET redeemed_at = NULL, redeemed_by = NULL, open_until = valid_until WHERE order_id = ? AND redeemed_at > ?`, int64(orderID), now-undoWithin.Milliseconds())
	lost := errors.Is(err, errLost)
	if err != nil && !lost {
		return nil, err
	}
	if c, err = findCodeOf(ctx, r.DB, r.DB.Read, orderID); err != nil {
		return nil, err
	}
	shown, err := r.show(ctx, who, c)
	if err == nil && lost && shown.Status != Paid {
		return nil, ErrUndoLate
	}
	return shown, err
}

// move carries out a move of the code's order, the change of the code and its line in the audit log as one. It returns
// errLost, and nothing has changed, if either the order or the code doesn't stand where the move begins.
func (r *Redeemer) move(ctx context.Context, who counter, c *Code, action string, m Move, change string, args ...any) error {
	m.OrderID, m.Actor = c.OrderID, ByUser(who.user.ID)
	err := r.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		moved, err := move(ctx, tx, m, "")
		if err != nil {
			return err
		}
		n, err := store.Affected(ctx, tx, change, args...)
		switch {
		case err != nil:
			return err
		case (!moved || n == 0) && !failpoint.On(failpoint.RedeemTwice):
			return errLost
		}
		return audit.Write(ctx, tx, audit.Entry{At: store.Time(m.At), Actor: who.user.ID, Action: action, Subject: "order:" + c.OrderID.String(),
			Detail: map[string]any{"shop": c.ShopID}})
	})
	switch {
	case errors.Is(err, store.ErrCommitUnknown):
		return ErrUnknown.With(err)
	case err == nil:
		r.Changed([]id.ID{c.OrderID})
	}
	return err
}

// Since lists what was redeemed for the caller's own shops from the instant on, the newest first, below the given place.
func (r *Redeemer) Since(ctx context.Context, since time.Time, before Place, limit int) ([]*Redemption, error) {
	who, err := r.who(ctx)
	if err != nil || len(who.shops) == 0 {
		return nil, err
	}
	rows, err := findRedeemed(ctx, r.DB.Read, who.shops, store.Millis(since), before, limit)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	var vouchers, users []id.ID
	for _, row := range rows {
		vouchers, users = append(vouchers, row.VoucherID), append(users, row.UserID)
	}
	titles, err := titlesOf(ctx, r.DB.Read, vouchers)
	if err != nil {
		return nil, err
	}
	names, err := r.Shops.Names(ctx, who.shops)
	if err != nil {
		return nil, err
	}
	tails, err := r.Buyers.PhoneTails(ctx, users)
	if err != nil {
		return nil, err
	}
	shown := make([]*Redemption, len(rows))
	for i, row := range rows {
		shown[i] = &Redemption{Code: row.Code, Status: Used, Voucher: titles[row.VoucherID], ShopName: names[row.ShopID], Buyer: tails[row.UserID]}
	}
	return shown, nil
}
