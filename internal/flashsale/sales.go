package flashsale

import (
	"context"
	"errors"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/api"
	"tandian/internal/kit/audit"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// Owners says whether the caller may write what belongs to a shop. Package shop knows; the arrow is forbidden.
type Owners interface {
	MayWrite(ctx context.Context, shopID id.ID) error
}

// Shops shows the shops of sales. Package shop knows; the arrow is forbidden.
type Shops interface {
	ShopCards(ctx context.Context, ids []id.ID) (map[id.ID]ShopCard, error)
}

// ShopCard is what a sale shows of its shop.
type ShopCard struct {
	ID      id.ID  `json:"id"`
	Name    string `json:"name"`
	Area    string `json:"area"`
	Address string `json:"address"`
	Picture string `json:"picture"`
}

// ErrStockShort answers a reduction below what is left.
var ErrStockShort = errs.Define("sale.stock_short", errs.Conflict, "剩余库存不够减。", "Less stock is left than you want to take away.")

// Draft is a sale to be made or what is to be changed of one; nil fields stay.
type Draft struct {
	BeginsAt, EndsAt *time.Time
	Limit            *int
}

// Create puts a voucher into a flash sale and opens its gate, at once if that can be done. The caller must own the shop or be an operator. It
// returns voucher.ErrHasSale if the voucher has a sale already.
func (s *Service) Create(ctx context.Context, voucherID id.ID, stock int64, beginsAt, endsAt time.Time, limit int) (*Sale, error) {
	if err := s.mayWriteVoucher(ctx, voucherID); err != nil {
		return nil, err
	}
	return s.Open(ctx, voucherID, stock, beginsAt, endsAt, limit)
}

// Open is Create without asking who calls: for the demo town and the command line.
func (s *Service) Open(ctx context.Context, voucherID id.ID, stock int64, beginsAt, endsAt time.Time, limit int) (*Sale, error) {
	now := store.Millis(s.Now())
	row := &voucher.FlashSale{VoucherID: voucherID, Stock: stock, BeginsAt: store.Millis(beginsAt), EndsAt: store.Millis(endsAt),
		LimitPerUser: limit, CreatedAt: now, UpdatedAt: now}
	if err := s.checkWindow(row); err != nil {
		return nil, err
	}
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := voucher.InsertSale(ctx, s.DB, tx, row); err != nil {
			return err
		}
		return audit.Write(ctx, tx, s.entry(ctx, "sale.create", row.ID, row))
	})
	if err != nil {
		return nil, err
	}
	if err := s.load(ctx, row.ID); err != nil { // the sale is there all the same; its first buyer opens the gate, or the sweeper
		s.Log.WarnContext(ctx, "the gate of a new sale is not open yet", "sale", row.ID, "err", err)
	}
	return s.Sale(ctx, row.ID)
}

// longest is how far ahead a sale may lie.
const longest = 5 * 365 * 24 * time.Hour

var earliest = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

// checkWindow refuses times that are out of order or that no client could read.
func (s *Service) checkWindow(row *voucher.FlashSale) error {
	begins, ends := store.Time(row.BeginsAt), store.Time(row.EndsAt)
	switch {
	case begins.Before(earliest):
		return api.Faults(api.Invalid{Location: "body.beginsAt", Message: "must be 2020 or later"})
	case ends.After(s.Now().Add(longest)):
		return api.Faults(api.Invalid{Location: "body.endsAt", Message: "must be within five years from now"})
	case !ends.After(begins):
		return api.Faults(api.Invalid{Location: "body.endsAt", Message: "must be after beginsAt"})
	}
	return nil
}

func (s *Service) mayWriteVoucher(ctx context.Context, voucherID id.ID) error {
	title, err := voucher.FindTitle(ctx, s.DB, s.DB.Read, voucherID)
	if err != nil {
		return err
	}
	return s.Owners.MayWrite(ctx, title.ShopID)
}

// entry is an audit line about a sale by the caller.
func (s *Service) entry(ctx context.Context, action string, saleID id.ID, detail any) audit.Entry {
	var actor id.ID
	if u := identity.From(ctx).User; u != nil {
		actor = u.ID
	}
	return audit.Entry{At: s.Now(), Actor: actor, Action: action, Subject: "sale:" + saleID.String(), Detail: detail}
}

// changeTimeout bounds a change once it has begun; it isn't called back when the caller goes away.
const changeTimeout = 10 * time.Second

// mayChange returns nil if the caller owns the sale's shop or is an operator.
func (s *Service) mayChange(ctx context.Context, saleID id.ID) error {
	offer, err := voucher.FindOffer(ctx, s.DB, s.DB.Read, saleID)
	if err != nil {
		return err
	}
	return s.Owners.MayWrite(ctx, offer.ShopID)
}

// change is changeRow by somebody who may, and the sale afterwards.
func (s *Service) change(ctx context.Context, saleID id.ID, action string, detail any, fn func(ctx context.Context, tx bun.Tx, row *voucher.Offer) error) (*Sale, error) {
	if err := s.mayChange(ctx, saleID); err != nil {
		return nil, err
	}
	if err := s.changeRow(ctx, saleID, action, detail, fn); err != nil {
		return nil, err
	}
	return s.Sale(ctx, saleID)
}

// changeRow runs fn on the sale's row in a transaction, writes the audit line, and then tells the gate. The gate follows
// after the commit: a buyer may be admitted under the old terms until then, never after changeRow has returned.
func (s *Service) changeRow(ctx context.Context, saleID id.ID, action string, detail any, fn func(ctx context.Context, tx bun.Tx, row *voucher.Offer) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	var row *voucher.Offer
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if err := voucher.LockSale(ctx, tx, saleID, store.Millis(s.Now())); err != nil {
			return err
		}
		if row, err = voucher.FindOffer(ctx, s.DB, tx, saleID); err != nil {
			return err
		}
		if err := fn(ctx, tx, row); err != nil {
			return err
		}
		if err := audit.Write(ctx, tx, s.entry(ctx, action, saleID, detail)); err != nil {
			return err
		}
		row, err = voucher.FindOffer(ctx, s.DB, tx, saleID)
		return err
	})
	if err != nil {
		return err
	}
	if err := s.Gate.Change(ctx, s.terms(row)); err != nil && !errors.Is(err, ErrNotLoaded) { // an unloaded gate will read the row
		return err
	}
	return nil
}

// Edit changes a sale's window or limit.
func (s *Service) Edit(ctx context.Context, saleID id.ID, d Draft) (*Sale, error) {
	return s.change(ctx, saleID, "sale.edit", d, func(ctx context.Context, tx bun.Tx, row *voucher.Offer) error {
		if d.BeginsAt != nil {
			row.BeginsAt = store.Millis(*d.BeginsAt)
		}
		if d.EndsAt != nil {
			row.EndsAt = store.Millis(*d.EndsAt)
		}
		if d.Limit != nil {
			row.LimitPerUser = *d.Limit
		}
		if err := s.checkWindow(&row.FlashSale); err != nil {
			return err
		}
		return save(ctx, tx, row)
	})
}

// SetPaused stops a sale from admitting, or lets it go on. Orders that exist are not touched.
func (s *Service) SetPaused(ctx context.Context, saleID id.ID, paused bool) (*Sale, error) {
	action := "sale.resume"
	if paused {
		action = "sale.pause"
	}
	return s.change(ctx, saleID, action, nil, func(ctx context.Context, tx bun.Tx, row *voucher.Offer) error {
		row.Paused = paused
		return save(ctx, tx, row)
	})
}

// AddStock puts delta more units up, or takes some away again (S16). It returns ErrStockShort if fewer are left that
// nobody holds: what has been promised to a buyer stays his.
func (s *Service) AddStock(ctx context.Context, saleID id.ID, delta int64, reason string) (*Sale, error) {
	if delta == 0 {
		return nil, api.Faults(api.Invalid{Location: "body.delta", Message: "must not be 0"})
	}
	if err := s.mayChange(ctx, saleID); err != nil {
		return nil, err
	}
	giveBack := func() {}
	if delta < 0 {
		// SQL doesn't know of the units that are on their way to their rows. The gate does: it sets these aside while
		// SQL is asked, and then follows SQL like any other change.
		var err error
		if giveBack, err = s.setAside(ctx, saleID, -delta); err != nil {
			return nil, err
		}
	}
	err := s.changeRow(ctx, saleID, "sale.stock", map[string]any{"delta": delta, "reason": reason}, func(ctx context.Context, tx bun.Tx, row *voucher.Offer) error {
		ok, err := voucher.ReleaseStock(ctx, tx, saleID, delta, store.Millis(s.Now()))
		if err == nil && !ok {
			err = ErrStockShort
		}
		return err
	})
	giveBack()
	if err != nil {
		return nil, err
	}
	return s.Sale(ctx, saleID)
}

// setAside takes n units out of the gate for the time of a change.
func (s *Service) setAside(ctx context.Context, saleID id.ID, n int64) (giveBack func(), err error) {
	var ok bool
	err = s.whenLoaded(ctx, saleID, func() (err error) { ok, err = s.Gate.Withdraw(ctx, saleID, n); return err })
	switch {
	case err != nil:
		return nil, api.ErrAway.With(err)
	case !ok:
		return nil, ErrStockShort
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
		defer cancel()
		if _, err := s.Gate.Withdraw(ctx, saleID, -n); err != nil && !errors.Is(err, ErrNotLoaded) {
			s.Log.ErrorContext(ctx, "units set aside for a change are not back in the gate", "sale", saleID, "units", n, "err", err)
		}
	}, nil
}

func save(ctx context.Context, tx bun.Tx, row *voucher.Offer) error {
	_, err := tx.NewUpdate().Model(&row.FlashSale).Column("begins_at", "ends_at", "limit_per_user", "paused").WherePK().Exec(ctx)
	return err
}

// Sale is a flash sale as people see it.
type Sale struct {
	voucher.Offer
	Shop      ShopCard
	StockLeft int64 // the gate's, never below zero; SQL's while the gate is not loaded
	Phase     voucher.Phase
	At        time.Time // when it was so
	Mine      []order.Order
}

// Sale returns one sale, with the caller's own orders of it if he is signed in. It returns voucher.ErrSaleNotFound.
func (s *Service) Sale(ctx context.Context, saleID id.ID) (*Sale, error) {
	offer, err := voucher.FindOffer(ctx, s.DB, s.DB.Read, saleID)
	if err != nil {
		return nil, err
	}
	sales, err := s.dress(ctx, []*voucher.Offer{offer})
	if err != nil {
		return nil, err
	}
	sale := sales[0]
	if u := identity.From(ctx).User; u != nil {
		sale.Mine, err = s.mine(ctx, saleID, u.ID)
	}
	return sale, err
}

// mine lists a buyer's orders of a sale, the waiting ones included.
func (s *Service) mine(ctx context.Context, saleID, userID id.ID) ([]order.Order, error) {
	waiting, err := s.Gate.Waiting(ctx, userID, saleID) // before SQL: what is written in between is then seen there
	if err != nil {
		return nil, err
	}
	rows, err := order.FindOfBuyer(ctx, s.DB.Read, saleID, userID)
	if err != nil {
		return nil, err
	}
	written := map[id.ID]bool{}
	for _, row := range rows {
		written[row.ID] = true
	}
	mine := []order.Order{} // not nil: the caller is signed in
	for _, r := range waiting {
		if !written[r.OrderID] {
			mine = append(mine, order.Order{ID: r.OrderID, Status: order.Queued})
		}
	}
	return append(mine, rows...), nil
}

// standingTimeout is how long a page waits for the gate's own figures.
const standingTimeout = 500 * time.Millisecond

// dress adds shop, live stock and phase.
func (s *Service) dress(ctx context.Context, offers []*voucher.Offer) ([]*Sale, error) {
	shopIDs, saleIDs := make([]id.ID, len(offers)), make([]id.ID, len(offers))
	for i, o := range offers {
		shopIDs[i], saleIDs[i] = o.ShopID, o.ID
	}
	cards, err := s.Shops.ShopCards(ctx, shopIDs)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, standingTimeout)
	defer cancel()
	standings, err := s.Gate.Standings(asking, saleIDs)
	if err != nil { // SQL's stock will do
		standings = make([]Standing, len(offers))
	}
	sales := make([]*Sale, len(offers))
	for i, o := range offers {
		sale := &Sale{Offer: *o, Shop: cards[o.ShopID], StockLeft: o.Stock, At: s.Now()}
		if standings[i].Loaded {
			sale.StockLeft = max(0, standings[i].Stock)
		}
		sale.Phase = voucher.PhaseOf(sale.At, store.Time(o.BeginsAt), store.Time(o.EndsAt), o.Paused, sale.StockLeft)
		sales[i] = sale
	}
	return sales, nil
}

// State narrows a list of sales by the clock.
type State string

const (
	StateLive     State = "live"     // begun and not ended, sold out or not
	StateUpcoming State = "upcoming" // not begun
	StateEnded    State = "ended"
)

// saleCursor is the last item's place: live ones by their end, upcoming ones by their beginning, ended ones and all
// by their end, latest first.
type saleCursor struct {
	At int64
	ID id.ID
}

// List returns up to limit sales of a state ("" = all) after the cursor.
func (s *Service) List(ctx context.Context, state State, after *saleCursor, limit int) ([]*Sale, error) {
	q, now := s.DB.Read, store.Millis(s.Now())
	var offers []*voucher.Offer
	var err error
	switch state {
	case StateLive:
		offers, err = voucher.FindOffers(ctx, q, "begins_at <= ? AND ends_at > ?", []any{now, now}, "ends_at", false, after.at(), after.id(), limit)
	case StateUpcoming:
		offers, err = voucher.FindOffers(ctx, q, "begins_at > ?", []any{now}, "begins_at", false, after.at(), after.id(), limit)
	case StateEnded:
		offers, err = voucher.FindOffers(ctx, q, "ends_at <= ?", []any{now}, "ends_at", true, after.at(), after.id(), limit)
	default:
		offers, err = voucher.FindOffers(ctx, q, "1 = 1", nil, "ends_at", true, after.at(), after.id(), limit)
	}
	if err != nil {
		return nil, err
	}
	return s.dress(ctx, offers)
}

func (c *saleCursor) at() int64 {
	if c == nil {
		return 0
	}
	return c.At
}

func (c *saleCursor) id() id.ID {
	if c == nil {
		return 0
	}
	return c.ID
}

// cursorOf is the place of the last item of a page.
func cursorOf(state State) func(*Sale) any {
	return func(sale *Sale) any {
		if state == StateUpcoming {
			return saleCursor{sale.BeginsAt, sale.ID}
		}
		return saleCursor{sale.EndsAt, sale.ID}
	}
}
