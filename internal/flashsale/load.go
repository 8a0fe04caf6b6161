package flashsale

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/order"
	"tandian/internal/voucher"
)

// WarmUp opens the gates of all open sales, and of those that still have reservations on their way, so
// that every accepted id can be found. A gate that is already open is left as it is.
func (s *Service) WarmUp(ctx context.Context) error {
	sales, err := s.openSales(ctx)
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

// openFor is how long a sale's gate stays open past its end: until then orders may be on their way, units come back,
// and buyers ask what became of theirs. It is unloaded a little later, for clocks of instances differ.
const openFor = unloadAfter - time.Minute

// openSales lists the sales whose gates should be open: coming, running and just ended.
func (s *Service) openSales(ctx context.Context) ([]id.ID, error) {
	return OpenSales(ctx, s.DB.Read, s.Now())
}

// OpenSales lists the sales whose gates should be open at an instant.
func OpenSales(ctx context.Context, q store.Querier, now time.Time) ([]id.ID, error) {
	return voucher.FindOpenSales(ctx, q, now.Add(-openFor))
}

// offers reads the rows of open sales and of those given, by id.
func (s *Service) offers(ctx context.Context, also []id.ID) (map[id.ID]*voucher.Offer, error) {
	condition, args := "ends_at > ?", []any{store.Millis(s.Now().Add(-openFor))}
	if len(also) > 0 {
		condition, args = condition+" OR sale.id IN (?)", append(args, bun.List(also))
	}
	rows, err := voucher.FindOffers(ctx, s.DB.Read, condition, args, "ends_at", false, 0, 0, maxSales)
	byID := make(map[id.ID]*voucher.Offer, len(rows))
	for _, row := range rows {
		byID[row.ID] = row
	}
	return byID, err
}

const maxSales = 10_000 // looked after at once

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
// ErrBusy when SQL or the gate can't be asked.
func (s *Service) load(ctx context.Context, saleID id.ID) error {
	_, err, _ := s.loads.Do(saleID.String(), func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
		defer cancel()
		offer, err := voucher.FindOffer(ctx, s.DB, s.DB.Read, saleID) // costs no write
		if err != nil {
			return nil, err
		}
		if st, err := s.Gate.Standing(ctx, saleID); err != nil || st.current(offer.Epoch) {
			return nil, err
		}
		return nil, s.pauses.run(saleID, s.Now, func() error { return s.rebuild(ctx, saleID) })
	})
	if err != nil && !errors.Is(err, voucher.ErrSaleNotFound) {
		return ErrBusy.With(err)
	}
	return err
}

// loadPause lies between two attempts to load a gate when the first has failed. Each reads all of a sale's orders under
// its lock: buyers who keep coming must not have that done without end, for a server that takes nothing.
const loadPause = 500 * time.Millisecond

// pauses are the sales whose gate could not be loaded a moment ago.
type pauses struct {
	mu    sync.Mutex
	until map[id.ID]time.Time // guarded by mu
}

// run calls load unless the sale's pause is running, and begins one if that fails.
func (p *pauses) run(saleID id.ID, now func() time.Time, load func() error) error {
	p.mu.Lock()
	resting := now().Before(p.until[saleID])
	p.mu.Unlock()
	if resting {
		return errors.New("flashsale: the gate could not be loaded a moment ago")
	}
	err := load()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.until, saleID)
	if err != nil {
		if p.until == nil {
			p.until = map[id.ID]time.Time{}
		}
		p.until[saleID] = now().Add(loadPause)
	}
	return err
}

// current reports that a gate is loaded, and under the latest epoch. One of an earlier epoch was lost once: somebody has
// loaded another since, on a server that is out of reach now.
func (st Standing) current(epoch int64) bool { return st.Loaded && st.Epoch >= epoch }

// errLoadedAlready ends a load that has waited for another one.
var errLoadedAlready = errors.New("flashsale: loaded already")

// rebuild loads the gate while the sale's row is locked. So only one of several processes does it, and nothing of the
// sale is committed between the look at SQL and the gate that is made of it: no order, no top-up, no other terms.
func (s *Service) rebuild(ctx context.Context, saleID id.ID) error {
	var loaded bool
	var failed error
	var snap *Snapshot
	var cause Cause
	err := s.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error {
		epoch, err := voucher.RaiseEpoch(ctx, tx, saleID)
		if err != nil {
			return err
		}
		st, err := s.Gate.Standing(ctx, saleID)
		if err != nil {
			return err
		}
		if st.current(epoch - 1) {
			return errLoadedAlready
		}
		cause = cmp.Or(st.Cause, CauseForeign)
		if snap, err = s.snapshot(ctx, tx, saleID, epoch); err != nil {
			return err
		}
		failpoint.Pass(failpoint.BeforeLoad)
		loaded, failed = s.Gate.Load(ctx, *snap)
		return nil // the epoch is used up, whatever has become of the load
	})
	if errors.Is(err, errLoadedAlready) {
		return nil
	}
	if loaded {
		s.Metrics.loads.WithLabelValues(string(cause)).Inc()
		level := slog.LevelInfo
		if snap.Epoch > firstEpoch {
			level = slog.LevelWarn
		}
		s.Log.Log(ctx, level, "gate loaded", "sale", saleID, "cause", cause, "epoch", snap.Epoch, "stock", snap.Stock, "orders", len(snap.Live), "in_flight", len(snap.InFlight))
	}
	return errors.Join(err, failed)
}

// snapshot reads everything that a gate must know, in the transaction that has locked the sale's row.
func (s *Service) snapshot(ctx context.Context, tx bun.Tx, saleID id.ID, epoch int64) (*Snapshot, error) {
	offer, err := voucher.FindOffer(ctx, s.DB, tx, saleID)
	if err != nil {
		return nil, err
	}
	snap := &Snapshot{Terms: s.terms(offer), Epoch: epoch, Stock: offer.Stock}
	if s.AcceptUnknown && epoch > firstEpoch { // some may have been known to the lost gate only
		snap.IncompleteSince = s.Now()
	}
	rows, err := order.FindHolding(ctx, tx, saleID)
	if err != nil {
		return nil, err
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
		return nil, err
	}
	remains, err := s.Gate.Salvage(ctx, saleID)
	if err != nil {
		return nil, err
	}
	snap.InFlight, err = order.WithoutRow(ctx, tx, append(waiting[saleID], remains...))
	return snap, err
}

// firstEpoch is that of a sale's first gate: nobody can have been admitted before.
const firstEpoch = 1

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
