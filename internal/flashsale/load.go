package flashsale

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// WarmUp opens the gates of all running and coming sales. A gate that is already open is left as it is.
func (s *Service) WarmUp(ctx context.Context) error {
	sales, err := voucher.FindOpenSales(ctx, s.DB.Read, s.Now())
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	for _, saleID := range sales {
		if err := s.load(ctx, saleID); err != nil {
			return fmt.Errorf("warm up sale %d: %w", saleID, err)
		}
	}
	return nil
}

// load opens a sale's gate from one look at SQL; concurrent callers share it. It returns voucher.ErrSaleNotFound, or
// ErrBusy when SQL can't be asked.
func (s *Service) load(ctx context.Context, saleID id.ID) error {
	_, err, _ := s.loads.Do(saleID.String(), func() (any, error) {
		unlock := s.lock(saleID)
		defer unlock()
		if st, err := s.Gate.Standing(ctx, saleID); err != nil || st.Loaded {
			return nil, err
		}
		snapshot, err := s.snapshot(context.WithoutCancel(ctx), saleID)
		if err != nil {
			return nil, err
		}
		_, err = s.Gate.Load(ctx, *snapshot)
		return nil, err
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
		written := make(map[id.ID]bool, len(rows))
		for _, row := range rows {
			written[row.ID] = true
			if row.Status.Live() {
				snap.Live = append(snap.Live, row.Reservation())
			} else {
				snap.Answered = append(snap.Answered, row.Reservation())
			}
		}
		return s.addInFlight(ctx, tx, snap, written)
	})
	return snap, err
}

func (s *Service) addInFlight(ctx context.Context, q store.Querier, snap *Snapshot, written map[id.ID]bool) error {
	if s.Backlog == nil {
		return nil
	}
	waiting, err := s.Backlog(ctx, q)
	if err != nil {
		return err
	}
	for _, r := range waiting {
		if r.SaleID == snap.SaleID && !written[r.OrderID] {
			snap.InFlight = append(snap.InFlight, r)
		}
	}
	return nil
}

func (s *Service) terms(o *voucher.Offer) Terms {
	return Terms{SaleID: o.ID, VoucherID: o.VoucherID, BeginsAt: store.Time(o.BeginsAt), EndsAt: store.Time(o.EndsAt), Paused: o.Paused,
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

// saleLock keeps a load and a change of the same sale apart in this process; epochs do so between processes.
type saleLock struct {
	sync.Mutex
	users int // guarded by Service.mu
}

func (s *Service) lock(saleID id.ID) (unlock func()) {
	s.mu.Lock()
	l := s.locks[saleID]
	if l == nil {
		l = &saleLock{}
		s.locks[saleID] = l
	}
	l.users++
	s.mu.Unlock()
	l.Lock()
	return func() {
		l.Unlock()
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.locks, saleID)
		}
	}
}
