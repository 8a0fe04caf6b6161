package flashsale

import (
	"context"
	"errors"
	"fmt"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// WarmUp opens the gates of all running and coming sales, and of those that still have reservations on their way, so
// that every accepted id can be found. A gate that is already open is left as it is.
func (s *Service) WarmUp(ctx context.Context) error {
	sales, err := voucher.FindOpenSales(ctx, s.DB.Read, s.Now())
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	waiting, err := s.backlog(ctx, s.DB.Read)
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	for saleID := range waiting {
		sales = append(sales, saleID)
	}
	for _, saleID := range sales {
		if err := s.load(ctx, saleID); err != nil && !errors.Is(err, voucher.ErrSaleNotFound) {
			return fmt.Errorf("warm up sale %d: %w", saleID, err)
		}
	}
	return nil
}

// backlog groups what is in the queue by sale.
func (s *Service) backlog(ctx context.Context, q store.Querier) (map[id.ID][]order.Reservation, error) {
	bySale := map[id.ID][]order.Reservation{}
	if s.Backlog == nil {
		return bySale, nil
	}
	waiting, err := s.Backlog(ctx, q)
	for _, r := range waiting {
		bySale[r.SaleID] = append(bySale[r.SaleID], r)
	}
	return bySale, err
}

// load opens a sale's gate from one look at SQL; concurrent callers share it. It returns voucher.ErrSaleNotFound, or
// ErrBusy when SQL can't be asked.
func (s *Service) load(ctx context.Context, saleID id.ID) error {
	_, err, _ := s.loads.Do(saleID.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
		defer cancel()
		if _, err := voucher.FindOffer(ctx, s.DB, s.DB.Read, saleID); err != nil { // costs no write
			return nil, err
		}
		if st, err := s.Gate.Standing(ctx, saleID); err != nil || st.Loaded {
			return nil, err
		}
		snapshot, err := s.snapshot(ctx, saleID)
		if err != nil {
			return nil, err
		}
		if _, err := s.Gate.Load(ctx, *snapshot); err != nil {
			return nil, err
		}
		// A change that was committed after the snapshot found no gate to tell.
		offer, err := voucher.FindOffer(ctx, s.DB, s.DB.Read, saleID)
		if err != nil {
			return nil, err
		}
		return nil, s.Gate.Change(ctx, s.terms(offer))
	})
	if err != nil && !errors.Is(err, voucher.ErrSaleNotFound) {
		return ErrBusy.With(err)
	}
	return err
}

// snapshot reads everything that a gate must know, in one transaction, under a new epoch.
func (s *Service) snapshot(ctx context.Context, saleID id.ID) (*Snapshot, error) {
	snap := &Snapshot{}
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		*snap = Snapshot{}
		if snap.Epoch, err = voucher.RaiseEpoch(ctx, tx, saleID); err != nil {
			return err
		}
		offer, err := voucher.FindOffer(ctx, s.DB, tx, saleID)
		if err != nil {
			return err
		}
		snap.Terms, snap.Stock = s.terms(offer), offer.Stock
		rows, err := order.FindHolding(ctx, tx, saleID)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Status.Live() {
				snap.Live = append(snap.Live, row.Reservation())
			} else {
				snap.Answered = append(snap.Answered, row.Reservation())
			}
		}
		waiting, err := s.backlog(ctx, tx)
		if err != nil {
			return err
		}
		snap.InFlight, err = order.WithoutRow(ctx, tx, waiting[saleID])
		return err
	})
	return snap, err
}

func (s *Service) terms(o *voucher.Offer) Terms {
	return Terms{SaleID: o.ID, VoucherID: o.VoucherID, Version: o.Version, Released: o.StockReleased, BeginsAt: store.Time(o.BeginsAt), EndsAt: store.Time(o.EndsAt), Paused: o.Paused,
		Limit: o.LimitPerUser, Amount: o.PayValue, PayWindow: s.PayWindow}
}

// whenLoaded runs fn, and again after loading if the gate turns out to be unloaded.
func (s *Service) whenLoaded(ctx context.Context, saleID id.ID, fn func() error) error {
	err := fn()
	if !errors.Is(err, ErrNotLoaded) {
		return err
	}
	if err := s.load(ctx, saleID); errors.Is(err, voucher.ErrSaleNotFound) {
		return nil // the sale is gone, and what it held with it
	} else if err != nil {
		return err
	}
	return fn()
}
