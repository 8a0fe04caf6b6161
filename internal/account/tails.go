package account

import (
	"context"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
)

// PhoneTails returns the last four digits of the users' phones: what a clerk may ask a buyer for.
func (s *Service) PhoneTails(ctx context.Context, users []id.ID) (map[id.ID]string, error) {
	tails := make(map[id.ID]string, len(users))
	if len(users) == 0 {
		return tails, nil
	}
	var rows []user
	if err := s.o.DB.Read.NewSelect().Model(&rows).Column("id", "phone").Where("id IN (?)", bun.List(users)).Scan(ctx); err != nil {
		return nil, err
	}
	for _, u := range rows {
		tails[u.ID] = u.Phone[max(0, len(u.Phone)-4):]
	}
	return tails, nil
}
