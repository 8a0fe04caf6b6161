package order

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/voucher"
)

// Service answers what became of an order id. It reads, and has closed what its buyer gives up.
type Service struct {
	DB     *store.DB
	Seats  Seats
	Shops  Shops // nil = without the names of shops
	Closer *Closer
	Now    func() time.Time
	Log    *slog.Logger
	Watch  *Watch
	// Payments tells what happened about an order's money; nil = nothing is told.
	Payments Payments
	// Closing ends when the server begins to stop: event streams, which would never end by themselves, end then and
	// the clients come back to another instance.
	Closing context.Context
}

// View is an order as its owner may see it.
type View struct {
	Order
	Voucher  voucher.Title
	ShopName string
	Age      time.Duration // since admission, while queued

	// Of a single order only.
	History  []Move
	Code     *Code     // of a paid or used one
	Attempts []Attempt // to pay it
	Refund   *Refund   // nil = none
}

// Find returns the order of that id if it is the user's. An accepted id is never "not found": between the gate's
// answer and the writer's commit it is found at the gate. It returns ErrNotFound, or ErrUnknown while that can't
// be told.
func (s *Service) Find(ctx context.Context, userID, orderID id.ID) (*View, error) {
	return s.find(ctx, orderID, func(o *Order) bool { return o.UserID == userID })
}

// FindAny is Find for those who may see everybody's orders.
func (s *Service) FindAny(ctx context.Context, orderID id.ID) (*View, error) {
	return s.find(ctx, orderID, func(*Order) bool { return true })
}

func (s *Service) find(ctx context.Context, orderID id.ID, may func(*Order) bool) (*View, error) {
	row, err := s.look(ctx, orderID)
	switch {
	case err != nil:
		return nil, ErrUnknown.With(err)
	case row == nil || !may(row):
		return nil, ErrNotFound
	}
	v, err := s.view(ctx, row)
	if err != nil {
		return nil, ErrUnknown.With(err)
	}
	return v, nil
}

// look finds an order in SQL or, while it has no row, at the gate; nil if it is at neither.
func (s *Service) look(ctx context.Context, orderID id.ID) (*Order, error) {
	row, err := findByID(ctx, s.DB, s.DB.Read, orderID)
	if err != nil || row != nil {
		return row, err
	}
	r, err := s.Seats.Find(ctx, orderID)
	if err != nil {
		return nil, err
	}
	// It may have been written between the two looks.
	if row, err = findByID(ctx, s.DB, s.DB.Read, orderID); err == nil && row == nil && r != nil {
		row = queuedRow(*r)
	}
	return row, err
}

// queuedRow shows a reservation as an order that has no row yet.
func queuedRow(r Reservation) *Order {
	o := rowOf(r, r.AdmittedAt)
	o.Status = Queued
	return o
}

func (s *Service) view(ctx context.Context, row *Order) (*View, error) {
	v := &View{Order: *row}
	if row.Status == Queued {
		v.Age = age(s.Now(), row.AdmittedAt)
	} else if err := s.past(ctx, v); err != nil {
		return nil, err
	}
	return v, s.entitle(ctx, []*View{v})
}

// past adds what happened to an order that has a row.
func (s *Service) past(ctx context.Context, v *View) (err error) {
	var moves []Move
	if err := s.DB.Select(ctx, s.DB.Read, &moves, `SELECT * FROM order_move WHERE order_id = ? ORDER BY id`, int64(v.ID)); err != nil {
		return err
	}
	v.History = append([]Move{v.first()}, moves...)
	if v.Status == Paid || v.Status == Used {
		if v.Code, err = findCodeOf(ctx, s.DB, s.DB.Read, v.ID); err != nil && !errors.Is(err, ErrNoCode) {
			return err
		}
	}
	if v.Status == Failed || s.Payments == nil {
		return nil
	}
	v.Attempts, v.Refund, err = s.Payments.Of(ctx, v.ID)
	return err
}

// Close gives an unpaid order of the user's up and returns it. It returns ErrNotFound, ErrUnknown or ErrNotClosable.
func (s *Service) Close(ctx context.Context, userID, orderID id.ID) (*View, error) {
	v, err := s.Find(ctx, userID, orderID)
	if err != nil || v.Status == Closed {
		return v, err
	}
	if _, err := s.Closer.Close(ctx, orderID, ReasonBuyer, ByUser(userID)); err != nil {
		return nil, err
	}
	if v, err = s.Find(ctx, userID, orderID); err == nil && v.Status != Closed {
		return nil, ErrNotClosable
	}
	return v, err
}

// List returns the user's orders, newest first, below the cursor; those that still wait for their row come first,
// on the first page. status narrows to one; without a history each. It returns ErrUnknown while that can't be told.
func (s *Service) List(ctx context.Context, userID id.ID, status *Status, before id.ID, limit int) ([]*View, error) {
	views, err := s.views(ctx, userID, status, before, limit)
	if err != nil {
		return nil, ErrUnknown.With(err)
	}
	return views, nil
}

func (s *Service) views(ctx context.Context, userID id.ID, status *Status, before id.ID, limit int) ([]*View, error) {
	var views []*View
	if before == 0 && (status == nil || *status == Queued) {
		waiting, err := s.Seats.Waiting(ctx, userID)
		if err != nil {
			return nil, err
		}
		for _, r := range waiting {
			views = append(views, &View{Order: *queuedRow(r), Age: age(s.Now(), r.AdmittedAt)})
		}
	}
	if status == nil || *status != Queued {
		var rows []*Order
		q := s.DB.Read.NewSelect().Model(&rows).Where("user_id = ?", userID).Order("id DESC").Limit(int64(limit))
		if before > 0 {
			q = q.Where("id < ?", before)
		}
		if status != nil {
			q = q.Where("status = ?", *status)
		}
		if err := q.Scan(ctx); err != nil {
			return nil, err
		}
		for _, row := range rows {
			views = dropWaiting(views, row.ID)
			views = append(views, &View{Order: *row})
		}
	}
	return views, s.entitle(ctx, views)
}

// entitle adds what orders show of their vouchers and shops.
func (s *Service) entitle(ctx context.Context, views []*View) error {
	vouchers := make([]id.ID, len(views))
	for i, v := range views {
		vouchers[i] = v.VoucherID
	}
	titles, err := titlesOf(ctx, s.DB.Read, vouchers)
	if err != nil {
		return err
	}
	shops := make([]id.ID, len(views))
	for i, v := range views {
		v.Voucher = titles[v.VoucherID]
		shops[i] = v.Voucher.ShopID
	}
	if s.Shops == nil {
		return nil
	}
	names, err := s.Shops.Names(ctx, shops)
	for _, v := range views {
		v.ShopName = names[v.Voucher.ShopID]
	}
	return err
}

// dropWaiting removes a reservation that has got its row between the two looks.
func dropWaiting(views []*View, written id.ID) []*View {
	for i, v := range views {
		if v.ID == written {
			return append(views[:i], views[i+1:]...)
		}
	}
	return views
}

// changedSince reads, in one query, which of the ids have a row, and when it last changed.
func changedSince(ctx context.Context, q store.Querier, ids []id.ID) (map[id.ID]int64, error) {
	var rows []Order
	if err := q.NewSelect().Model(&rows).Column("id", "status", "updated_at").Where("id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, err
	}
	found := make(map[id.ID]int64, len(rows))
	for _, r := range rows {
		found[r.ID] = r.UpdatedAt<<3 | int64(r.Status)
	}
	return found, nil
}
