package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math/big"
	"time"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
)

// SignInWithCode opens a session for the owner of the phone, whom it creates at the first time. It returns
// ErrPhoneInvalid, ErrCodeWrong, ErrBanned or identity.ErrUnknown.
func (s *Service) SignInWithCode(ctx context.Context, phone, code string, from Device) (*SignIn, error) {
	if !validPhone(phone) {
		return nil, ErrPhoneInvalid
	}
	if err := s.useCode(ctx, phone, code); err != nil {
		return nil, err
	}
	u, _, err := s.findOrCreate(ctx, Profile{Phone: phone})
	if err != nil {
		return nil, err
	}
	return s.open(ctx, u, from)
}

// SignInWithPassword opens a session for the owner of phone and password. It returns ErrPhoneInvalid,
// ErrPasswordWrong (the same, after the same work, whether the phone is known or not), ErrTooManyTries, ErrBusy,
// ErrBanned or identity.ErrUnknown.
func (s *Service) SignInWithPassword(ctx context.Context, phone, password string, from Device) (*SignIn, error) {
	if !validPhone(phone) {
		return nil, ErrPhoneInvalid
	}
	u, err := findUserByPhone(ctx, s.o.DB.Read, phone)
	if errors.Is(err, ErrUserNotFound) {
		u = &user{Phone: phone}
	} else if err != nil {
		return nil, err
	}
	if err := s.checkPassword(ctx, u, password, ErrPasswordWrong); err != nil {
		return nil, err
	}
	return s.open(ctx, u, from)
}

const (
	passwordTries  = 10
	passwordPeriod = 15 * time.Minute
)

// checkPassword returns wrong unless the user has the password, and ErrTooManyTries after ten wrong ones.
func (s *Service) checkPassword(ctx context.Context, u *user, password string, wrong *errs.Error) error {
	// Counting before looking: a crowd of guesses arriving at once gets no more looks than ten.
	if err := s.count(ctx, passwordTriesKey(u.Phone), passwordTries, passwordPeriod, ErrTooManyTries); err != nil {
		return err
	}
	ok, err := s.hasher.matches(ctx, password, u.PasswordHash)
	if err != nil {
		return err
	}
	if !ok {
		return wrong
	}
	if err := s.o.KV.Del(ctx, passwordTriesKey(u.Phone)); err != nil {
		return identity.ErrUnknown.With(err)
	}
	return nil
}

// open is the last step of both ways to sign in.
func (s *Service) open(ctx context.Context, u *user, from Device) (*SignIn, error) {
	if u.BannedAt != 0 {
		return nil, ErrBanned
	}
	token, ends, err := s.Issue(ctx, u.ID, from.UserAgent, from.IP)
	if err != nil {
		return nil, err
	}
	return &SignIn{Token: token, EndsAt: ends, User: u.identity()}, nil
}

// findOrCreate returns the user with the profile's phone; created = he is new and has all of the profile.
func (s *Service) findOrCreate(ctx context.Context, p Profile) (u *user, created bool, err error) {
	u, err = findUserByPhone(ctx, s.o.DB.Write, p.Phone)
	if !errors.Is(err, ErrUserNotFound) {
		return u, false, err
	}
	u, err = s.create(ctx, p)
	if s.o.DB.IsDuplicate(err) { // another request for the same phone was faster
		u, err = findUserByPhone(ctx, s.o.DB.Write, p.Phone)
		return u, false, err
	}
	return u, true, err
}

// create writes a new user. A taken phone makes a duplicate.
func (s *Service) create(ctx context.Context, p Profile) (*user, error) {
	roles, err := joinRoles(p.Roles)
	if err != nil {
		return nil, err
	}
	now := store.Millis(s.o.Now())
	u := &user{Phone: p.Phone, Nickname: p.Nickname, Avatar: p.Avatar, Roles: roles, CreatedAt: now, UpdatedAt: now}
	if u.Nickname == "" {
		if u.Nickname, err = s.randomNickname(); err != nil {
			return nil, err
		}
	}
	if p.Password != "" {
		if u.PasswordHash, err = s.hasher.hash(ctx, p.Password); err != nil {
			return nil, err
		}
	}
	return u, insertUsers(ctx, s.o.DB.Write, u)
}

// randomNickname is one like 探友_x7k2m9.
func (s *Service) randomNickname() (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	name := []byte("探友_")
	for range 6 {
		n, err := rand.Int(s.o.Rand, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", fmt.Errorf("draw nickname: %w", err)
		}
		name = append(name, letters[n.Int64()])
	}
	return string(name), nil
}
