package voucher

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/api"
	"tandian/internal/kit/audit"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
)

// Limits of what a merchant may write; those of text are in characters.
const (
	MaxTitle = 60
	MaxRules = 600
	MaxPrice = money.Fen(10_000_000) // ¥100,000
	MaxDays  = 730
)

// Owners says who may write a shop. It is package shop's, which this package may not import.
type Owners interface {
	// MayWrite returns nil for the shop's owner and for operators, else identity.ErrRequired, identity.ErrUnknown,
	// identity.ErrForbidden or an error of kind NotFound.
	MayWrite(ctx context.Context, shopID id.ID) error
}

// Options are what New needs; all fields are required.
type Options struct {
	DB     *store.DB
	Owners Owners
	Now    func() time.Time
}

// Service is the shelf of vouchers. Safe for concurrent use.
type Service struct {
	db     *store.DB
	owners Owners
	now    func() time.Time
}

// New returns a service.
func New(o Options) *Service { return &Service{db: o.DB, owners: o.Owners, now: o.Now} }

// Find returns ErrNotFound if there is no such voucher. Its sale comes with it.
func (s *Service) Find(ctx context.Context, voucherID id.ID) (*Voucher, error) {
	v, err := FindVoucher(ctx, s.db.Read, voucherID)
	if err != nil {
		return nil, err
	}
	return v, s.attachSales(ctx, v)
}

// ListOf lists a shop's vouchers with their sales, the newest first: for the public those on sale, for whoever may
// write the shop and for read-only operators all. A shop that doesn't exist has none.
func (s *Service) ListOf(ctx context.Context, shopID id.ID) ([]*Voucher, error) {
	all, err := s.seesAll(ctx, shopID)
	if err != nil {
		return nil, err
	}
	list, err := findVouchersOf(ctx, s.db.Read, shopID, all)
	if err != nil {
		return nil, err
	}
	return list, s.attachSales(ctx, list...)
}

func (s *Service) seesAll(ctx context.Context, shopID id.ID) (bool, error) {
	user := identity.From(ctx).User
	if user == nil {
		return false, nil
	}
	if user.Has(identity.ReadOnly) {
		return true, nil
	}
	err := s.owners.MayWrite(ctx, shopID)
	if err != nil && errs.From(err).Kind == errs.Internal {
		return false, err
	}
	return err == nil, nil
}

func (s *Service) attachSales(ctx context.Context, list ...*Voucher) error {
	ids := make([]id.ID, len(list))
	for i, v := range list {
		ids[i] = v.ID
	}
	sales, err := FindSalesOf(ctx, s.db.Read, ids)
	if err != nil {
		return err
	}
	now := s.now()
	for _, v := range list {
		if sale := sales[v.ID]; sale != nil {
			v.Sale = viewOf(sale, now)
		}
	}
	return nil
}

// NewVoucher is what a merchant says of a new voucher.
type NewVoucher struct {
	Title     string    `json:"title" doc:"1 to 60 characters"`
	SubTitle  string    `json:"subTitle,omitempty" doc:"Up to 60 characters"`
	Rules     string    `json:"rules,omitempty" doc:"Up to 600 characters, several lines"`
	PayValue  money.Fen `json:"payValue" minimum:"1" maximum:"10000000" doc:"In fen, not above faceValue"`
	FaceValue money.Fen `json:"faceValue" minimum:"1" maximum:"10000000" doc:"In fen"`
	ValidDays int       `json:"validDays,omitempty" minimum:"1" maximum:"730" default:"30"`
}

// Create puts a voucher on sale for those who may write the shop (the errors of Owners).
func (s *Service) Create(ctx context.Context, shopID id.ID, n NewVoucher) (*Voucher, error) {
	if err := s.owners.MayWrite(ctx, shopID); err != nil {
		return nil, err
	}
	now := s.now()
	v := &Voucher{ShopID: shopID, Title: n.Title, SubTitle: n.SubTitle, Rules: n.Rules, PayValue: n.PayValue, FaceValue: n.FaceValue,
		ValidDays: n.ValidDays, Status: OnSale, CreatedAt: store.Millis(now), UpdatedAt: store.Millis(now)}
	if err := v.tidy(); err != nil {
		return nil, err
	}
	return v, s.db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := InsertVouchers(ctx, tx, v); err != nil {
			return err
		}
		return audit.Write(ctx, tx, entry(ctx, now, "voucher.create", v.ID, v))
	})
}

// VoucherPatch says what is to change; nil fields stay.
type VoucherPatch struct {
	Title     *string    `json:"title,omitempty" doc:"1 to 60 characters"`
	SubTitle  *string    `json:"subTitle,omitempty" doc:"Up to 60 characters"`
	Rules     *string    `json:"rules,omitempty" doc:"Up to 600 characters, several lines"`
	PayValue  *money.Fen `json:"payValue,omitempty" minimum:"1" maximum:"10000000" doc:"In fen, not above faceValue"`
	FaceValue *money.Fen `json:"faceValue,omitempty" minimum:"1" maximum:"10000000" doc:"In fen"`
	ValidDays *int       `json:"validDays,omitempty" minimum:"1" maximum:"730"`
	Status    *Status    `json:"status,omitempty"`
}

func (p VoucherPatch) apply(v *Voucher) {
	set(&v.Title, p.Title)
	set(&v.SubTitle, p.SubTitle)
	set(&v.Rules, p.Rules)
	set(&v.PayValue, p.PayValue)
	set(&v.FaceValue, p.FaceValue)
	set(&v.ValidDays, p.ValidDays)
	set(&v.Status, p.Status)
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// Update changes a voucher for those who may write its shop (the errors of Owners). It returns ErrNotFound if there
// is no such voucher and ErrSaleOpen for a new amount while its sale has not ended.
func (s *Service) Update(ctx context.Context, voucherID id.ID, p VoucherPatch) (*Voucher, error) {
	v, err := FindVoucher(ctx, s.db.Read, voucherID)
	if err != nil {
		return nil, err
	}
	if err := s.owners.MayWrite(ctx, v.ShopID); err != nil {
		return nil, err
	}
	if p == (VoucherPatch{}) {
		return v, s.attachSales(ctx, v)
	}
	err = s.db.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		v, err = s.change(ctx, tx, voucherID, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return v, s.attachSales(ctx, v)
}

func (s *Service) change(ctx context.Context, tx bun.Tx, voucherID id.ID, p VoucherPatch) (*Voucher, error) {
	now := s.now()
	// The update comes first: it takes the row's lock, so that two patches can't meet in a price above the face value.
	if _, err := tx.ExecContext(ctx, `UPDATE voucher SET updated_at = ? WHERE id = ?`, store.Millis(now), voucherID); err != nil {
		return nil, err
	}
	v, err := FindVoucher(ctx, tx, voucherID)
	if err != nil {
		return nil, err
	}
	pay, face := v.PayValue, v.FaceValue
	p.apply(v)
	v.UpdatedAt = store.Millis(now)
	if err := v.tidy(); err != nil {
		return nil, err
	}
	if v.PayValue != pay || v.FaceValue != face {
		sales, err := FindSalesOf(ctx, tx, []id.ID{voucherID})
		if err != nil {
			return nil, err
		}
		if sale := sales[voucherID]; sale != nil && sale.EndsAt > store.Millis(now) {
			return nil, ErrSaleOpen
		}
	}
	if err := updateVoucher(ctx, tx, v); err != nil {
		return nil, err
	}
	return v, audit.Write(ctx, tx, entry(ctx, now, "voucher.update", voucherID, p))
}

func entry(ctx context.Context, at time.Time, action string, voucherID id.ID, detail any) audit.Entry {
	return audit.Entry{At: at, Actor: identity.From(ctx).User.ID, Action: action, Subject: "voucher:" + voucherID.String(), Detail: detail}
}

// tidy trims the texts and checks everything that people will see or pay. It returns api.ErrInvalid.
func (v *Voucher) tidy() error {
	for _, f := range []struct {
		name     string
		text     *string
		min, max int
		lines    bool
	}{
		{"title", &v.Title, 1, MaxTitle, false}, {"subTitle", &v.SubTitle, 0, MaxTitle, false}, {"rules", &v.Rules, 0, MaxRules, true},
	} {
		*f.text = strings.TrimSpace(*f.text)
		if err := api.CleanText("body."+f.name, *f.text, f.min, f.max); err != nil {
			return err
		}
		if !f.lines && strings.ContainsAny(*f.text, "\r\n\t") {
			return api.Faults(api.Invalid{Location: "body." + f.name, Message: "must be one line"})
		}
	}
	for name, amount := range map[string]money.Fen{"payValue": v.PayValue, "faceValue": v.FaceValue} {
		if amount < 1 || amount > MaxPrice {
			return api.Faults(api.Invalid{Location: "body." + name, Message: fmt.Sprintf("1 to %d fen", MaxPrice)})
		}
	}
	if v.ValidDays < 1 || v.ValidDays > MaxDays {
		return api.Faults(api.Invalid{Location: "body.validDays", Message: fmt.Sprintf("1 to %d", MaxDays)})
	}
	if v.PayValue > v.FaceValue {
		return api.Faults(api.Invalid{Location: "body.payValue", Message: fmt.Sprintf("%d fen is above the face value of %d fen", v.PayValue, v.FaceValue)})
	}
	return nil
}
