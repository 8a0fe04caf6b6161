package shop

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
)

// Options are what New needs; all fields are required.
type Options struct {
	DB  *store.DB
	Now func() time.Time
	Log *slog.Logger
}

// Service is the directory of shops. Safe for concurrent use.
type Service struct {
	db  *store.DB
	now func() time.Time
	log *slog.Logger

	nearby     placeIndex
	refreshing sync.Mutex // orders what is read from SQL with what is put into nearby
}

// New returns a service whose index of places is still empty: RefreshNearby fills it, else the first list that is
// sorted by distance does.
func New(o Options) *Service { return &Service{db: o.DB, now: o.Now, log: o.Log} }

// RefreshNearby rebuilds the index of places from SQL. Call it at start and now and then.
func (s *Service) RefreshNearby(ctx context.Context) error {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	places, err := findPlaces(ctx, s.db.Read)
	if err != nil {
		return fmt.Errorf("refresh nearby: %w", err)
	}
	s.nearby.replace(places)
	return nil
}

// follow brings one shop's place up to date after a commit. A failure only delays it until the next RefreshNearby.
func (s *Service) follow(ctx context.Context, shopID id.ID) {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	if !s.nearby.loaded() {
		return
	}
	row, err := FindShop(ctx, s.db.Read, shopID)
	if err != nil {
		s.log.Warn("shop not in the nearby index yet", "shopId", shopID, "err", err)
		return
	}
	s.nearby.put(placeOf(row))
}

// Categories lists all categories in their order.
func (s *Service) Categories(ctx context.Context) ([]*Category, error) {
	return FindCategories(ctx, s.db.Read)
}

// Find returns ErrNotFound if there is no such shop.
func (s *Service) Find(ctx context.Context, shopID id.ID) (*Shop, error) {
	return FindShop(ctx, s.db.Read, shopID)
}

// MayWrite reports whether the caller may change the shop: nil for its owner and for operators, else
// identity.ErrRequired, identity.ErrUnknown, ErrNotFound or identity.ErrForbidden.
func (s *Service) MayWrite(ctx context.Context, shopID id.ID) error {
	user, err := identity.Require(ctx)
	if err != nil {
		return err
	}
	row, err := FindShop(ctx, s.db.Read, shopID)
	if err != nil {
		return err
	}
	if row.OwnerID != user.ID && !user.Has(identity.Operator) {
		return identity.ErrForbidden
	}
	return nil
}

// ShopsOf lists the shops a user owns or works for, by id.
func (s *Service) ShopsOf(ctx context.Context, userID id.ID) ([]id.ID, error) {
	return findShopsOf(ctx, s.db.Read, userID)
}

// RedeemsFor lists the shops for which a user may redeem vouchers: those he owns and, for a clerk, those he works for.
func (s *Service) RedeemsFor(ctx context.Context, user *identity.User) ([]id.ID, error) {
	if user.Has(identity.Clerk) {
		return findShopsOf(ctx, s.db.Read, user.ID)
	}
	return findShopsOwnedBy(ctx, s.db.Read, user.ID)
}

// Employ binds a user to a shop as one who works there; twice does nothing. It returns ErrNotFound if there is no such
// shop. It is for the operator's command line: nobody's rights are checked.
func (s *Service) Employ(ctx context.Context, shopID, userID id.ID) error {
	if _, err := FindShop(ctx, s.db.Read, shopID); err != nil {
		return err
	}
	if err := InsertStaff(ctx, s.db.Write, shopID, userID, store.Millis(s.now())); !s.db.IsDuplicate(err) {
		return err
	}
	return nil
}

// Names returns the names of those of the shops that exist.
func (s *Service) Names(ctx context.Context, ids []id.ID) (map[id.ID]string, error) {
	rows, err := findShops(ctx, s.db.Read, ids)
	names := make(map[id.ID]string, len(rows))
	for shopID, row := range rows {
		names[shopID] = row.Name
	}
	return names, err
}

// Cards returns the cards of those of the shops that exist.
func (s *Service) Cards(ctx context.Context, ids []id.ID) (map[id.ID]Card, error) {
	rows, err := findShops(ctx, s.db.Read, ids)
	if err != nil {
		return nil, err
	}
	cards := make(map[id.ID]Card, len(rows))
	for shopID, row := range rows {
		cards[shopID] = row.card()
	}
	return cards, nil
}
