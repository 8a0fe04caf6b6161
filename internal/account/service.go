package account

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/kv"
	"tandian/internal/kit/store"
)

// Options are what New needs. DB, KV, Now and Log are required.
type Options struct {
	DB  *store.DB
	KV  kv.Store
	SMS Sender // nil = LogSender
	Now func() time.Time
	Log *slog.Logger

	Rand   io.Reader // of codes, tokens, salts and names; nil = crypto/rand
	Secret []byte    // keys the hashes of codes; the same on all instances; nil = drawn from Rand: codes under way die with the process

	ShopsOf func(ctx context.Context, user id.ID) ([]id.ID, error) // shops the user owns, for GET /me; nil = none

	SessionTTL    time.Duration // without a request; 0 = 30 minutes
	SessionMax    time.Duration // from sign-in, whatever happens; 0 = 30 days
	CodesPerPhone int           // in 24 hours; 0 = 10
	CodesPerIP    int           // in 24 hours; 0 = 100

	DemoInbox    bool // GET /dev/codes answers
	TestUsers    bool // POST /console/test-users answers
	SecureCookie bool // the site is served over HTTPS only
}

// Service is who people are and how they sign in. Safe for concurrent use.
type Service struct {
	o        Options
	inbox    *Inbox // nil without DemoInbox
	senders  []Sender
	hasher   *hasher
	sessions *recall[hash, *session]
	users    *recall[id.ID, *profile]
}

// New returns a service. It panics if Rand gives no bytes: without randomness nobody may sign in.
func New(o Options) *Service {
	o.SessionTTL = orDefault(o.SessionTTL, 30*time.Minute)
	o.SessionMax = orDefault(o.SessionMax, 30*day)
	o.CodesPerPhone = orDefault(o.CodesPerPhone, 10)
	o.CodesPerIP = orDefault(o.CodesPerIP, 100)
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.SMS == nil {
		o.SMS = &LogSender{Log: o.Log}
	}
	if len(o.Secret) == 0 {
		o.Secret = make([]byte, 32)
		if _, err := io.ReadFull(o.Rand, o.Secret); err != nil {
			panic(fmt.Sprintf("account: no randomness: %v", err))
		}
	}
	s := &Service{o: o, senders: []Sender{o.SMS}, hasher: newHasher(o.Rand, owasp())}
	if o.DemoInbox {
		s.inbox = NewInbox(o.Now)
		s.senders = append(s.senders, s.inbox)
	}
	s.sessions = newRecall(o.Now, s.askSession)
	s.users = newRecall(o.Now, s.askUser)
	return s
}

func orDefault[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}

// Ensure creates the user with the phone, or updates him with the profile's fields that are not empty, and returns
// his id. It is for demo data and the operator's command line: no sign-in rights are checked and sessions stay.
func (s *Service) Ensure(ctx context.Context, p Profile) (userID id.ID, err error) {
	defer errs.Wrap(&err, "ensure user %q", p.Nickname)
	if err := p.check(); err != nil {
		return 0, err
	}
	u, created, err := s.findOrCreate(ctx, p)
	if err != nil {
		return 0, err
	}
	if created {
		return u.ID, nil
	}
	c, err := s.changesOf(ctx, p)
	if err != nil {
		return 0, err
	}
	return u.ID, s.update(ctx, u.ID, c)
}

func (p *Profile) check() error {
	if !validPhone(p.Phone) {
		return ErrPhoneInvalid
	}
	if p.Nickname != "" {
		if err := checkNickname(p.Nickname); err != nil {
			return err
		}
	}
	if p.Password != "" {
		if err := checkNewPassword(p.Password); err != nil {
			return err
		}
	}
	return checkAvatar(p.Avatar)
}

func (s *Service) changesOf(ctx context.Context, p Profile) (c changes, err error) {
	if p.Nickname != "" {
		c.nickname = &p.Nickname
	}
	if p.Avatar != "" {
		c.avatar = &p.Avatar
	}
	if p.Password != "" {
		hash, err := s.hasher.hash(ctx, p.Password)
		if err != nil {
			return c, err
		}
		c.passwordHash = &hash
	}
	if p.Roles != nil {
		roles, err := joinRoles(p.Roles)
		if err != nil {
			return c, err
		}
		c.roles = &roles
	}
	return c, nil
}

const (
	updateTimeout = 5 * time.Second
	changingFor   = 2 * updateTimeout // a change of which nothing more is heard
)

// update changes a user on every instance. A mark in the kv store tells them all to read the row until it is committed.
// If the mark can't be set or taken away it returns identity.ErrUnknown, though the row is changed: then others may
// take up to a minute to see it.
func (s *Service) update(ctx context.Context, userID id.ID, c changes) error {
	mark, err := s.randomHex(8)
	if err != nil {
		return err
	}
	// The caller may hang up in the middle; the others must be told all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), updateTimeout)
	defer cancel()
	told := s.o.KV.Add(ctx, changingKey(userID), changingFor, mark)
	if err := updateUser(ctx, s.o.DB.Write, userID, store.Millis(s.o.Now()), c); err != nil {
		return err // the mark stays: the commit may have come through, or come through later
	}
	if err := errors.Join(told, s.o.KV.Remove(ctx, changingKey(userID), mark)); err != nil {
		return identity.ErrUnknown.With(err)
	}
	return nil
}

// UpdateProfile changes nickname and avatar (nil = leave). It returns faults of the values, ErrUserNotFound or, after
// the change, identity.ErrUnknown if other instances may not have heard of it.
func (s *Service) UpdateProfile(ctx context.Context, userID id.ID, nickname, avatar *string) error {
	if nickname != nil {
		if err := checkNickname(*nickname); err != nil {
			return err
		}
	}
	if avatar != nil {
		if err := checkAvatar(*avatar); err != nil {
			return err
		}
	}
	return s.update(ctx, userID, changes{nickname: nickname, avatar: avatar})
}

// SetRoles replaces the user's roles; shopper is always among them. It returns ErrUserNotFound if there is no such
// user, an error for a role that does not exist or, after the change, identity.ErrUnknown if other instances may not
// have heard of it.
func (s *Service) SetRoles(ctx context.Context, userID id.ID, roles ...identity.Role) error {
	stored, err := joinRoles(roles)
	if err != nil {
		return err
	}
	return s.update(ctx, userID, changes{roles: &stored})
}

// Ban refuses the user from now on and ends his sessions. The ban holds as soon as it is written, also when it
// returns identity.ErrUnknown because other instances may not have heard of it, or his sessions could not be deleted:
// then ban again before any Unban. It returns ErrUserNotFound if there is no such user.
func (s *Service) Ban(ctx context.Context, userID id.ID) error {
	now := store.Millis(s.o.Now())
	if err := s.update(ctx, userID, changes{bannedAt: &now}); err != nil {
		return err
	}
	_, err := s.Kick(ctx, userID)
	return err
}

// Unban lets the user sign in again. It returns ErrUserNotFound if there is no such user or, after the change,
// identity.ErrUnknown if other instances may not have heard of it.
func (s *Service) Unban(ctx context.Context, userID id.ID) error {
	return s.update(ctx, userID, changes{bannedAt: new(int64)})
}

// SetPassword sets the first password, or replaces current by password, and ends all sessions but the given one.
// It returns faults of the new password, ErrCurrentPassword, ErrTooManyTries, ErrBusy or identity.ErrUnknown.
func (s *Service) SetPassword(ctx context.Context, userID id.ID, password, current, keepSession string) error {
	if err := checkNewPassword(password); err != nil {
		return err
	}
	u, err := findUser(ctx, s.o.DB.Write, userID)
	if err != nil {
		return err
	}
	if u.PasswordHash != "" {
		if err := s.checkPassword(ctx, u, current, ErrCurrentPassword); err != nil {
			return err
		}
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	done, err := replacePassword(ctx, s.o.DB.Write, userID, u.PasswordHash, hash, store.Millis(s.o.Now()))
	if err != nil {
		return err
	}
	if !done { // another request has changed it: current is no longer the current one
		return ErrCurrentPassword
	}
	_, err = s.endOthers(ctx, userID, keepSession)
	return err
}
