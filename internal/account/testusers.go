package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/store"
)

const (
	testPhones      = 100_000_000 // 19900000000 and what follows
	rowsPerInsert   = 500
	testUserRetries = 5
)

var errNoTestPhones = errors.New("no room for this many test users")

// CreateTestUsers creates count users with consecutive phones that begin with 199, signs them in and returns their
// tokens. It is for load tests: they can do whatever a user can, so never where real people sign in.
func (s *Service) CreateTestUsers(ctx context.Context, count int, from Device) ([]string, error) {
	ids, err := s.insertTestUsers(ctx, count)
	if err != nil {
		return nil, err
	}
	tokens := make([]string, len(ids))
	for i, userID := range ids {
		if tokens[i], _, err = s.Issue(ctx, userID, from.UserAgent, from.IP); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// insertTestUsers takes a random stretch of phones that is free: a test user counts as new in every sale.
func (s *Service) insertTestUsers(ctx context.Context, count int) ([]id.ID, error) {
	for range testUserRetries {
		n, err := rand.Int(s.o.Rand, big.NewInt(int64(testPhones-count)))
		if err != nil {
			return nil, fmt.Errorf("draw phones: %w", err)
		}
		first := n.Int64()
		from, to := testPhone(first), testPhone(first+int64(count)-1)
		taken, err := phonesTaken(ctx, s.o.DB.Read, from, to)
		if err != nil {
			return nil, err
		}
		if taken {
			continue
		}
		err = s.o.DB.Tx(ctx, func(ctx context.Context, tx bun.Tx) error { return s.insertRange(ctx, tx, first, count) })
		if s.o.DB.IsDuplicate(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return findIDsByPhones(ctx, s.o.DB.Read, from, to)
	}
	return nil, errNoTestPhones
}

func (s *Service) insertRange(ctx context.Context, q store.Querier, first int64, count int) error {
	roles, err := joinRoles(nil)
	if err != nil {
		return err
	}
	now := store.Millis(s.o.Now())
	for done := 0; done < count; done += rowsPerInsert {
		rows := make([]*user, min(rowsPerInsert, count-done))
		for i := range rows {
			n := first + int64(done+i)
			rows[i] = &user{Phone: testPhone(n), Nickname: fmt.Sprintf("测试_%08d", n), Roles: roles, CreatedAt: now, UpdatedAt: now}
		}
		if err := insertUsers(ctx, q, rows...); err != nil {
			return err
		}
	}
	return nil
}

func testPhone(n int64) string { return fmt.Sprintf("199%08d", n) }
