package account

import (
	"context"
	"database/sql"
	"errors"

	"github.com/uptrace/bun"

	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
)

// user is a row of table users.
type user struct {
	bun.BaseModel `bun:"table:users,alias:u"`

	ID           id.ID `bun:",pk,autoincrement"`
	Phone        string
	Nickname     string
	Avatar       string
	PasswordHash string `bun:",nullzero"` // "" = none set
	Roles        string // as joinRoles makes it
	BannedAt     int64  `bun:",nullzero"` // Unix ms; 0 = not banned
	CreatedAt    int64
	UpdatedAt    int64
}

func (u *user) identity() identity.User {
	return identity.User{ID: u.ID, Nickname: u.Nickname, Avatar: u.Avatar, Roles: splitRoles(u.Roles)}
}

// findUser returns ErrUserNotFound if there is no such user.
func findUser(ctx context.Context, q store.Querier, userID id.ID) (*user, error) {
	return scanUser(ctx, q.NewSelect().Where("u.id = ?", userID))
}

// findUserByPhone returns ErrUserNotFound if nobody has the phone.
func findUserByPhone(ctx context.Context, q store.Querier, phone string) (*user, error) {
	return scanUser(ctx, q.NewSelect().Where("u.phone = ?", phone))
}

func scanUser(ctx context.Context, q *bun.SelectQuery) (*user, error) {
	u := &user{}
	err := q.Model(u).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrUserNotFound
	}
	return u, err
}

// findProfile reads what Resolve needs, on the hot path of a flash sale: no model, no reflection. It returns
// ErrUserNotFound if there is no such user.
func findProfile(ctx context.Context, q store.Querier, userID id.ID) (*profile, error) {
	p := &profile{User: identity.User{ID: userID}}
	var roles string
	err := q.QueryRowContext(ctx, `SELECT nickname, avatar, roles, banned_at IS NOT NULL FROM users WHERE id = ?`, int64(userID)).
		Scan(&p.Nickname, &p.Avatar, &roles, &p.banned)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrUserNotFound
	}
	p.Roles = splitRoles(roles)
	return p, err
}

// insertUsers writes new users; the ids come back only for a single one. A phone that is taken makes a duplicate.
func insertUsers(ctx context.Context, q store.Querier, users ...*user) error {
	_, err := q.NewInsert().Model(&users).Exec(ctx)
	return err
}

// changes are new values for columns; nil leaves one alone.
type changes struct {
	nickname, avatar, passwordHash, roles *string
	bannedAt                              *int64 // 0 = no longer banned
}

// updateUser returns ErrUserNotFound if there is no such user.
func updateUser(ctx context.Context, q store.Querier, userID id.ID, now int64, c changes) error {
	up := q.NewUpdate().Model((*user)(nil)).Where("id = ?", userID).Set("updated_at = ?", now)
	for _, set := range []struct {
		column string
		value  *string
	}{{"nickname", c.nickname}, {"avatar", c.avatar}, {"password_hash", c.passwordHash}, {"roles", c.roles}} {
		if set.value != nil {
			up = up.Set("? = ?", bun.Ident(set.column), *set.value)
		}
	}
	if c.bannedAt != nil {
		up = up.Set("banned_at = ?", bun.NullZero(*c.bannedAt))
	}
	res, err := up.Exec(ctx)
	if err != nil {
		return err
	}
	// MySQL counts changed rows only, so none changed isn't proof that there is none.
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	_, err = findUser(ctx, q, userID)
	return err
}

// replacePassword writes the new hash only over the old one ("" = none); false = it is another by now.
func replacePassword(ctx context.Context, q store.Querier, userID id.ID, old, hash string, now int64) (bool, error) {
	n, err := store.Affected(ctx, q, `UPDATE users SET password_hash = ?, updated_at = ? WHERE id = ? AND COALESCE(password_hash, '') = ?`,
		hash, now, int64(userID), old)
	return n == 1, err
}

// phonesTaken reports whether any phone of the range is somebody's.
func phonesTaken(ctx context.Context, q store.Querier, from, to string) (bool, error) {
	return q.NewSelect().Model((*user)(nil)).Where("phone BETWEEN ? AND ?", from, to).Exists(ctx)
}

// findIDsByPhones lists the ids of the users whose phones are in the range, in the order of the phones.
func findIDsByPhones(ctx context.Context, q store.Querier, from, to string) ([]id.ID, error) {
	var ids []id.ID
	err := q.NewSelect().Model((*user)(nil)).Column("id").Where("phone BETWEEN ? AND ?", from, to).Order("phone").Scan(ctx, &ids)
	return ids, err
}
