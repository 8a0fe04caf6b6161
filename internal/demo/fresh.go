package demo

import (
	"context"
	"errors"
	"slices"
	"time"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/voucher"
)

// What a visitor always finds, and what it may cost.
const (
	wantLive     = 3
	wantUpcoming = 3
	maxPerHour   = 40 // sales that the town adds, even if every one is bought empty at once

	nearlyEnding = 10 * time.Minute // one live sale ends within this
	firstStart   = time.Minute      // with nothing to come, the next begins after this
	startEvery   = 15 * time.Minute // and the others behind it

	lookBack   = time.Hour        // sales that ended before this are no concern of KeepFresh
	shelveLate = 30 * time.Minute // how long the voucher of an ended sale stays on its shop's page
)

// slot is a sale that is wanted.
type slot struct{ begins, ends time.Time }

// plan says which sales are missing among those that end after now-lookBack.
func plan(now time.Time, sales []*voucher.Offer) []slot {
	var live, upcoming, recent int
	var ending bool
	latest := now.Add(firstStart - startEvery)
	for _, s := range sales {
		switch s.Phase(now) {
		case voucher.Live:
			live++
			ending = ending || s.EndsAt <= store.Millis(now.Add(nearlyEnding))
		case voucher.Scheduled:
			upcoming++
			if begins := store.Time(s.BeginsAt); begins.After(latest) {
				latest = begins
			}
		}
		if s.CreatedAt > store.Millis(now.Add(-time.Hour)) {
			recent++
		}
	}
	var missing []slot
	add := func(begins time.Time, length time.Duration) {
		begins = begins.Truncate(time.Second)
		missing = append(missing, slot{begins, begins.Add(length)})
	}
	if !ending {
		add(now, 8*time.Minute)
		live++
	}
	for ; live < wantLive; live++ {
		add(now, time.Duration(live+1)*25*time.Minute)
	}
	for ; upcoming < wantUpcoming; upcoming++ {
		latest = latest.Add(startEvery)
		add(latest, 30*time.Minute)
	}
	return missing[:min(len(missing), max(0, maxPerHour-recent))]
}

// KeepFresh adds the sales that are missing. Call it every few seconds. On several instances at once it may add a few
// more than are wanted, never more than maxPerHour each.
func (t *Town) KeepFresh(ctx context.Context) (err error) {
	defer errs.Wrap(&err, "keep the demo sales fresh")
	now := t.Now()
	all, err := voucher.FindOffers(ctx, t.DB.Read, "ends_at > ?", []any{store.Millis(now.Add(-lookBack))}, "ends_at", true, 0, 0, 1000)
	if err != nil {
		return err
	}
	ours := slices.DeleteFunc(all, func(o *voucher.Offer) bool { return !isFlash(o.Title) })
	slots := plan(now, ours)
	if len(slots) == 0 {
		return nil
	}
	if err := voucher.ShelveEnded(ctx, t.DB.Write, titles(), now.Add(-shelveLate), now); err != nil {
		return err
	}
	homes, err := t.homes(ctx)
	if err != nil {
		return err
	}
	for i, f := range rested(now, ours, homes) {
		if i == len(slots) {
			break
		}
		if err := t.open(ctx, f, homes[f.title], slots[i]); err != nil {
			return err
		}
	}
	return nil
}

func isFlash(title string) bool { return slices.Contains(titles(), title) }

func titles() []string {
	list := make([]string, len(flashes))
	for i, f := range flashes {
		list[i] = f.title
	}
	return list
}

// rested lists the flashes that have no sale coming or running, those that were up lately last. A flash whose
// vouchers have all been renamed has no home and stays away.
func rested(now time.Time, sales []*voucher.Offer, homes map[string]id.ID) []flash {
	busy, lately := map[string]bool{}, map[string]bool{}
	for _, s := range sales {
		busy[s.Title] = busy[s.Title] || s.EndsAt > store.Millis(now)
		lately[s.Title] = true
	}
	turn := int(now.Unix()/int64(startEvery.Seconds())) % len(flashes)
	list := slices.DeleteFunc(slices.Concat(flashes[turn:], flashes[:turn]), func(f flash) bool { return busy[f.title] || homes[f.title] == 0 })
	slices.SortStableFunc(list, func(a, b flash) int { return rank(lately[a.title]) - rank(lately[b.title]) })
	return list
}

func rank(late bool) int {
	if late {
		return 1
	}
	return 0
}

// homes tells the shop of each flash by the oldest voucher of its title.
func (t *Town) homes(ctx context.Context) (map[string]id.ID, error) {
	oldest, err := voucher.FindOldestTitled(ctx, t.DB.Read, titles())
	if err != nil {
		return nil, err
	}
	homes := map[string]id.ID{}
	for _, v := range oldest {
		homes[v.Title] = v.ShopID
	}
	return homes, nil
}

// open makes a voucher and its sale. A voucher that was left without one, because the program died between the two or
// the gate was away, is used first.
func (t *Town) open(ctx context.Context, f flash, shopID id.ID, s slot) error {
	v, err := voucher.FindSpare(ctx, t.DB.Read, shopID, f.title)
	if errors.Is(err, voucher.ErrNotFound) {
		v = f.voucher()
		v.ShopID, v.CreatedAt, v.UpdatedAt = shopID, store.Millis(t.Now()), store.Millis(t.Now())
		err = voucher.InsertVouchers(ctx, t.DB.Write, v)
	}
	if err != nil {
		return err
	}
	_, err = t.NewSale(ctx, v.ID, f.stock, s.begins, s.ends, f.limit)
	if errors.Is(err, voucher.ErrHasSale) { // another instance has used it
		return nil
	}
	return err
}
