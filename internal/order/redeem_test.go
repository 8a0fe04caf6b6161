package order_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tandian/internal/kit/api"
	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
)

// sold returns a paid order of the buyer's and its code.
func (w *town) sold(t testing.TB, buyer id.ID) (id.ID, string) {
	t.Helper()
	bought := w.buy(t, buyer)
	if !w.pay(t, bought) {
		t.Fatal("not paid")
	}
	return bought, w.code(t, bought)
}

// A clerk sees what he redeems, redeems it once, and may take that back for a minute (P7).
func TestRedeem(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 10, 2)
		ctx := as(t.Context(), clerk, identity.Clerk)
		bought, code := w.sold(t, 1)
		grouped := code[:4] + " " + code[4:8] + "-" + code[8:]
		seen, err := w.redeemer.Look(ctx, grouped)
		if err != nil || seen.Refusal != nil || seen.OrderID != bought || seen.Voucher.Title != "代金券" || seen.Voucher.FaceValue != 10000 || seen.ShopName != "茶馆" || seen.Buyer != "0001" ||
			seen.ValidUntil != w.ms.Load()+validDays*24*time.Hour.Milliseconds() {
			t.Fatalf("%+v %v", seen, err)
		}
		w.advance(time.Hour)
		done, err := w.redeemer.Redeem(ctx, grouped)
		if err != nil || *done.RedeemedAt != w.ms.Load() || done.UndoBefore() != w.ms.Load()+60_000 || w.status(t, bought) != order.Used {
			t.Fatalf("%+v %v", done, err)
		}
		at := w.Now()
		w.advance(59_999 * time.Millisecond)
		_, err = w.redeemer.Redeem(ctx, code)
		mustRefuse(t, err, order.ErrRedeemed)
		if told, ok := errs.From(err).Extra[api.ExtraRedeemedAt].(time.Time); !ok || !told.Equal(at) {
			t.Errorf("used at %v, told %v", at, told)
		}
		if w.refunding(t, bought) {
			t.Error("a used order was refunded")
		}
		for range 2 { // the second does nothing
			if back, err := w.redeemer.Undo(ctx, bought); err != nil || back.Status != order.Paid || back.RedeemedAt != nil {
				t.Fatalf("%+v %v", back, err)
			}
		}
		if _, err := w.redeemer.Redeem(ctx, code); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Minute)
		_, err = w.redeemer.Undo(ctx, bought)
		mustRefuse(t, err, order.ErrUndoLate)

		v, err := w.orders.Find(t.Context(), 1, bought)
		must(t, err)
		var steps []order.Status
		for _, m := range v.History {
			steps = append(steps, m.ToStatus)
		}
		if want := []order.Status{order.Unpaid, order.Paid, order.Used, order.Paid, order.Used}; len(steps) != len(want) || steps[3] != order.Paid || v.History[2].Actor != order.ByUser(clerk) || v.History[3].Reason != order.ReasonUndone {
			t.Errorf("history %+v", v.History)
		}
		if n := w.number(t, `SELECT COUNT(*) FROM audit_log WHERE actor_id = ? AND subject = ?`, clerk, "order:"+bought.String()); n != 3 {
			t.Errorf("%d lines in the audit log, want 3", n)
		}
		w.mustBalance(t, 10)
	})
}

func mustRefuse(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// Who may not redeem is told why, and nothing of what isn't his shop's; nothing changes (W21).
func TestRedeemIsForTheShopsPeople(t *testing.T) {
	w := newTown(t, storetest.SQLite(t), 10, 1)
	bought, code := w.sold(t, 1)
	for name, tc := range map[string]struct {
		ctx  context.Context
		want error // of redeeming
		look error
	}{
		"nobody":                     {identity.With(t.Context(), &identity.Caller{}), identity.ErrRequired, identity.ErrRequired},
		"a session nobody can check": {identity.With(t.Context(), &identity.Caller{Unknown: true}), identity.ErrUnknown, identity.ErrUnknown},
		"the buyer himself":          {as(t.Context(), 1), identity.ErrForbidden, identity.ErrForbidden},
		"a merchant without a shop":  {as(t.Context(), 5, identity.Merchant), identity.ErrForbidden, identity.ErrForbidden},
		"a clerk of no shop":         {as(t.Context(), formerClerk, identity.Clerk), identity.ErrForbidden, identity.ErrForbidden},
		"a clerk who is one no more": {as(t.Context(), clerk), identity.ErrForbidden, identity.ErrForbidden},
		"a reader":                   {as(t.Context(), 6, identity.ReadOnly), identity.ErrForbidden, identity.ErrForbidden},
		"another shop's clerk":       {as(t.Context(), otherClerk, identity.Clerk), order.ErrOtherShop, nil},
	} {
		_, err := w.redeemer.Redeem(tc.ctx, code)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s redeems: %v, want %v", name, err, tc.want)
		}
		if _, err := w.redeemer.Undo(tc.ctx, bought); !errors.Is(err, tc.want) {
			t.Errorf("%s undoes: %v, want %v", name, err, tc.want)
		}
		seen, err := w.redeemer.Look(tc.ctx, code)
		switch {
		case tc.look != nil:
			if !errors.Is(err, tc.look) {
				t.Errorf("%s looks: %v, want %v", name, err, tc.look)
			}
		case err != nil || !errors.Is(seen.Refusal, order.ErrOtherShop) || seen.OrderID != 0 || seen.Buyer != "" || seen.ValidUntil != 0:
			t.Errorf("%s sees %+v (%v)", name, seen, err)
		}
	}
	if w.status(t, bought) != order.Paid || w.number(t, `SELECT COUNT(*) FROM audit_log WHERE action LIKE 'order.%'`) != 0 {
		t.Error("something has changed")
	}
	for name, ctx := range map[string]context.Context{"the clerk": as(t.Context(), clerk, identity.Clerk), "the owner": as(t.Context(), owner, identity.Merchant), "an operator": as(t.Context(), operator, identity.Operator)} {
		if _, err := w.redeemer.Redeem(ctx, code); err != nil {
			t.Errorf("%s redeems: %v", name, err)
		}
		if _, err := w.redeemer.Undo(ctx, bought); err != nil {
			t.Errorf("%s undoes: %v", name, err)
		}
	}
}

// Each reason for a refusal is told as itself.
func TestRedeemRefusals(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 10, 1)
		ctx := as(t.Context(), clerk, identity.Clerk)
		for _, code := range []string{"", "1", "000000000000", "12345678901", "1234567890123", "12345678901a", "１２３４５６７８９０１２", "' OR 1=1 --", "____________"} {
			_, err := w.redeemer.Redeem(ctx, code)
			mustRefuse(t, err, order.ErrNoCode)
			_, err = w.redeemer.Look(ctx, code)
			mustRefuse(t, err, order.ErrNoCode)
		}
		_, err := w.redeemer.Undo(ctx, w.buy(t, 9)) // unpaid: it has no code
		mustRefuse(t, err, order.ErrNoCode)

		refunding, code := w.sold(t, 1)
		w.refunding(t, refunding)
		_, err = w.redeemer.Redeem(ctx, code)
		mustRefuse(t, err, order.ErrCodeRefunded)
		w.refunded(t, refunding)
		_, err = w.redeemer.Redeem(ctx, code)
		mustRefuse(t, err, order.ErrCodeRefunded)
		_, err = w.redeemer.Undo(ctx, refunding)
		mustRefuse(t, err, order.ErrUndoLate)

		late, code := w.sold(t, 2)
		w.advance(validDays*24*time.Hour - time.Millisecond)
		if seen, err := w.redeemer.Look(ctx, code); err != nil || seen.Refusal != nil {
			t.Errorf("%+v %v", seen, err)
		}
		w.advance(time.Millisecond)
		_, err = w.redeemer.Redeem(ctx, code)
		mustRefuse(t, err, order.ErrCodeExpired)
		if w.status(t, late) != order.Paid {
			t.Error("an expired code was redeemed")
		}
	})
}

// What was redeemed today is listed for the shop's own people, page by page; days begin at midnight where the shops are.
func TestRedeemedToday(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 20, 1)
		ctx := as(t.Context(), clerk, identity.Clerk)
		var redeemed []id.ID
		for buyer := range id.ID(5) {
			bought, code := w.sold(t, buyer+1)
			_, err := w.redeemer.Redeem(ctx, code)
			must(t, err)
			redeemed = append(redeemed, bought)
		}
		midnight := w.Now()
		var got []id.ID
		for before := (order.Place{}); ; {
			page, err := w.redeemer.Since(ctx, midnight, before, 2)
			must(t, err)
			if len(page) == 0 {
				break
			}
			for _, r := range page {
				got = append(got, r.OrderID)
				before = order.Place{At: *r.RedeemedAt, ID: r.OrderID}
				if r.Voucher.Title == "" || r.ShopName == "" || r.Buyer == "" {
					t.Errorf("%+v", r)
				}
			}
		}
		if len(got) != 5 || got[0] != redeemed[4] || got[4] != redeemed[0] {
			t.Errorf("%v, want %v backwards", got, redeemed)
		}
		if others, err := w.redeemer.Since(as(t.Context(), otherClerk, identity.Clerk), midnight, order.Place{}, 10); err != nil || len(others) != 0 {
			t.Errorf("another shop's clerk sees %d (%v)", len(others), err)
		}
		if later, err := w.redeemer.Since(ctx, midnight.Add(time.Millisecond), order.Place{}, 10); err != nil || len(later) != 0 {
			t.Errorf("%d of later (%v)", len(later), err)
		}
	})
}

// P9: what is paid and not used when its time is over is refunded; what is used, or being refunded already, is not.
func TestExpiry(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newTown(t, db, 10, 1)
		ctx := as(t.Context(), clerk, identity.Clerk)
		idle, _ := w.sold(t, 1)
		used, code := w.sold(t, 2)
		_, err := w.redeemer.Redeem(ctx, code)
		must(t, err)
		undone, code := w.sold(t, 3)
		_, err = w.redeemer.Redeem(ctx, code)
		must(t, err)
		_, err = w.redeemer.Undo(ctx, undone)
		must(t, err)
		given, _ := w.sold(t, 4)
		w.refunding(t, given)
		w.advance(validDays*24*time.Hour - time.Millisecond)
		must(t, w.expirer.Turn(t.Context()))
		if w.status(t, idle) != order.Paid {
			t.Fatal("refunded before its time was over")
		}
		w.advance(time.Millisecond)
		for range 2 {
			must(t, w.expirer.Turn(t.Context()))
		}
		for v, want := range map[id.ID]order.Status{idle: order.Refunding, used: order.Used, undone: order.Refunding, given: order.Refunding} {
			if w.status(t, v) != want {
				t.Errorf("%v, want %v", w.status(t, v), want)
			}
		}
		if n := w.number(t, `SELECT COUNT(*) FROM order_move WHERE to_status = ? AND reason = ?`, order.Refunding, order.ReasonExpired); n != 2 {
			t.Errorf("%d refunds for being late, want 2", n)
		}
	})
}

// A code can't be foreseen from others: 12 digits, each as likely as any, and none twice.
func TestRedeemCodes(t *testing.T) {
	w := newTown(t, storetest.SQLite(t), 300, 1)
	seen := map[string]bool{}
	var digits [10]int
	for buyer := range id.ID(200) {
		_, code := w.sold(t, buyer+1)
		if len(code) != 12 || seen[code] {
			t.Fatalf("%q", code)
		}
		seen[code] = true
		for _, d := range code {
			digits[d-'0']++
		}
	}
	for d, n := range digits { // 240 expected of 2,400; ten standard deviations
		if n < 90 || n > 390 {
			t.Errorf("the digit %d comes %d times", d, n)
		}
	}
}
