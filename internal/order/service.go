package order

import (
	"context"
	"log/slog"
	"time"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
	"tandian/internal/voucher"
)

// Service answers what became of an order id. It reads only.
type Service struct {
	DB    *store.DB
	Seats Seats
	Now   func() time.Time
	Log   *slog.Logger
	Watch *Watch
	// Closing ends when the server begins to stop: event streams, which would never end by themselves, end then and
	// the clients come back to another instance.
	Closing context.Context
}

// View is an order as its owner may see it.
type View struct {
	Order
	Voucher voucher.Title
	History []Move
	Age     time.Duration // since admission, while queued
}

// Find returns the order of that id if it is the user's. An accepted id is never "not found": between the gate's
// answer and the writer's commit it is found at the gate. It returns ErrNotFound, or ErrUnknown while that can't
// be told.
func (s *Service) Find(ctx context.Context, userID, orderID id.ID) (*View, error) {
	row, err := s.look(ctx, orderID)
	switch {
	case err != nil:
		return nil, ErrUnknown.With(err)
	case row == nil || row.UserID != userID:
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
	} else {
		var moves []Move
		if err := s.DB.Select(ctx, s.DB.Read, &moves, `SELECT * FROM order_move WHERE order_id = ? ORDER BY id`, int64(row.ID)); err != nil {
			return nil, err
		}
		v.History = append([]Move{row.first()}, moves...)
	}
	title, err := voucher.FindTitle(ctx, s.DB, s.DB.Read, row.VoucherID)
	v.Voucher = title
	return v, err
}

func (s *Service) vouchers(ctx context.Context, views []*View) (map[id.ID]voucher.Title, error) {
	ids := make([]id.ID, len(views))
	for i, v := range views {
		ids[i] = v.VoucherID
	}
	rows, err := voucher.FindTitles(ctx, s.DB.Read, ids)
	if err != nil {
		return nil, err
	}
	found := make(map[id.ID]voucher.Title, len(rows))
	for _, r := range rows {
		found[r.ID] = r
	}
	return found, nil
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
	vouchers, err := s.vouchers(ctx, views)
	for _, v := range views {
		v.Voucher = vouchers[v.VoucherID]
	}
	return views, err
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
