package demo

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/account"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
	"tandian/internal/shop"
	"tandian/internal/voucher"
)

// Options are what New needs; all fields are required.
type Options struct {
	DB       *store.DB
	Accounts *account.Service
	Now      func() time.Time

	// NewSale puts a voucher into a flash sale and opens its gate. It is package flashsale's.
	NewSale func(ctx context.Context, voucherID id.ID, stock int64, beginsAt, endsAt time.Time, limit int) (id.ID, error)
}

// Town is the demo town in a database.
type Town struct{ Options }

// New returns a town that Seed has still to build.
func New(o Options) *Town { return &Town{o} }

// Seed builds the town unless it is there, and makes its sales fresh. Call it before anybody writes; several instances
// may call it at once.
func (t *Town) Seed(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "seed the demo town")
	there, err := built(ctx, t.DB.Read)
	if err == nil && !there {
		err = t.build(ctx)
	}
	if err != nil {
		return err
	}
	return t.KeepFresh(ctx)
}

// built tells by the first category's icon: the whole town is one transaction.
func built(ctx context.Context, q store.Querier) (bool, error) {
	list, err := shop.FindCategories(ctx, q)
	for _, c := range list {
		if c.Icon == categoryIcon(1) {
			return true, err
		}
	}
	return false, err
}

func (t *Town) build(ctx context.Context) error {
	people := map[identity.Role]id.ID{}
	for _, a := range append(neighbours(), Accounts()...) { // the four come last: among shoppers theirs is the entry that stays
		userID, err := t.Accounts.Ensure(ctx, account.Profile{Phone: a.Phone, Nickname: a.Nickname, Avatar: a.Avatar, Password: a.Password, Roles: []identity.Role{a.Role}})
		if err != nil {
			return err
		}
		people[a.Role] = userID
	}
	err := t.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error { return t.insert(ctx, tx, people) })
	if t.DB.IsDuplicate(err) { // another instance seeds at the same moment
		if there, lookErr := built(ctx, t.DB.Write); lookErr == nil && there {
			return nil
		}
	}
	return err
}

// insert writes the whole town, unless another instance has done so since Seed looked.
func (t *Town) insert(ctx context.Context, tx bun.Tx, people map[identity.Role]id.ID) error {
	now := t.Now()
	if there, err := built(ctx, tx); err != nil || there {
		return err
	}
	// Own ids instead of the database's: rows refer to each other, and of two instances that write at the same
	// moment one fails on the first of them.
	base, err := firstFree(ctx, tx)
	if err != nil {
		return err
	}
	if err := shop.InsertCategories(ctx, tx, categoryRows(base)); err != nil {
		return err
	}
	if err := shop.InsertShops(ctx, tx, shopRows(base, people[identity.Merchant], now)...); err != nil {
		return err
	}
	if err := shop.InsertStaff(ctx, tx, base.shop, people[identity.Clerk], store.Millis(now)); err != nil {
		return err
	}
	if err := voucher.InsertVouchers(ctx, tx, voucherRows(base, now)...); err != nil {
		return err
	}
	return t.insertPast(ctx, tx, base, now)
}

// ids are where the town's rows begin.
type ids struct{ category, shop, voucher id.ID }

func firstFree(ctx context.Context, q store.Querier) (free ids, err error) {
	err = q.NewRaw(`SELECT (SELECT COALESCE(MAX(id), 0) + 1 FROM category), (SELECT COALESCE(MAX(id), 0) + 1 FROM shop), (SELECT COALESCE(MAX(id), 0) + 1 FROM voucher)`).
		Scan(ctx, &free.category, &free.shop, &free.voucher)
	return free, err
}

func categoryRows(base ids) []*shop.Category {
	rows := make([]*shop.Category, len(categories))
	for i, name := range categories {
		rows[i] = &shop.Category{ID: base.category + id.ID(i), Name: name, Icon: categoryIcon(i + 1), Sort: i + 1}
	}
	return rows
}

func shopRows(base ids, merchant id.ID, now time.Time) []*shop.Shop {
	rows := make([]*shop.Shop, len(places))
	for i, p := range places {
		// House numbers run round the middle of the area, farther out the higher they are.
		angle, far := float64(p.house)*2.4, 0.0006+0.00009*float64(p.house)
		rows[i] = &shop.Shop{ID: base.shop + id.ID(i), CategoryID: base.category + id.ID(p.category-1), Name: p.name, Pictures: shopPictures(i + 1),
			Area: p.area.name, Address: fmt.Sprintf("青梧市%s%d号", p.area.road, p.house), AvgPrice: p.price, Sold: p.sold, Comments: p.comments, Score: p.score, OpenHours: p.hours,
			Location:  shop.Location{Lng: round6(p.area.lng + far*math.Cos(angle)), Lat: round6(p.area.lat + far*math.Sin(angle))},
			CreatedAt: store.Millis(now), UpdatedAt: store.Millis(now)}
		if i < 5 {
			rows[i].OwnerID = merchant
		}
	}
	return rows
}

func round6(degrees float64) float64 { return math.Round(degrees*1e6) / 1e6 }

// voucherRows are two plain vouchers for every shop, and then one for every flash.
func voucherRows(base ids, now time.Time) []*voucher.Voucher {
	var rows []*voucher.Voucher
	add := func(shopNumber int, v voucher.Voucher) {
		v.ID, v.ShopID = base.voucher+id.ID(len(rows)), base.shop+id.ID(shopNumber-1)
		v.ValidDays, v.CreatedAt, v.UpdatedAt = 30, store.Millis(now), store.Millis(now)
		rows = append(rows, &v)
	}
	for i, p := range places {
		cash := max(p.price/5000, 1) * 5000 // in steps of ¥50
		add(i+1, voucher.Voucher{Title: fmt.Sprintf("%d元代金券", cash/100), SubTitle: "全场通用，可叠加两张", Rules: setRules, PayValue: cash * 88 / 100, FaceValue: cash, Status: voucher.OnSale})
		add(i+1, voucher.Voucher{Title: p.set.title, SubTitle: "周一至周日可用", Rules: setRules, PayValue: p.set.pay, FaceValue: p.set.face, Status: voucher.OnSale})
	}
	for _, f := range flashes {
		v := f.voucher()
		v.Status = voucher.OffShelf
		add(f.shop, *v)
	}
	return rows
}

func (f flash) voucher() *voucher.Voucher {
	return &voucher.Voucher{Title: f.title, SubTitle: fmt.Sprintf("限时抢购，省%d元", (f.face-f.pay)/money.Fen(100)), Rules: flashRules,
		PayValue: f.pay, FaceValue: f.face, ValidDays: 30, Status: voucher.OnSale}
}

// insertPast gives every flash a sale that is over. No gate needs to know of it.
func (t *Town) insertPast(ctx context.Context, tx bun.Tx, base ids, now time.Time) error {
	first := base.voucher + id.ID(2*len(places))
	for i, f := range flashes {
		ended := now.Add(-time.Duration(i+2) * 90 * time.Minute).Truncate(time.Minute)
		err := voucher.InsertSale(ctx, t.DB, tx, &voucher.FlashSale{VoucherID: first + id.ID(i), Stock: f.stock, LimitPerUser: f.limit,
			BeginsAt: store.Millis(ended.Add(-time.Hour)), EndsAt: store.Millis(ended), CreatedAt: store.Millis(now.Add(-48 * time.Hour)), UpdatedAt: store.Millis(ended)})
		if err != nil {
			return err
		}
	}
	return nil
}
