package account

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/kv"
)

const (
	cookieName   = "tandian_session"
	tokenLen     = 32 // lowercase hex digits
	renewalShare = 6  // a renewal must lengthen the life by at least this fraction of the TTL
)

// hash is the SHA-256 of a token.
type hash [sha256.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

// session is a record as Resolve remembers it.
type session struct {
	id       string
	user     id.ID
	ends     int64       // Unix ms: the absolute end
	expires  int64       // Unix ms: the end unless it is renewed, never after ends
	renewing atomic.Bool // somebody has taken that upon himself; when it is done this memory is void
}

// profile is what Resolve remembers of a user.
type profile struct {
	identity.User
	banned bool
}

// Resolve is step one of A3: it tells who sent the request and keeps his session alive, and never refuses. Whatever
// is not a live token of a user who is not banned is anonymous; when that can't be told the caller is Unknown.
func (s *Service) Resolve(r *http.Request) *identity.Caller {
	h, ok := tokenHash(r)
	if !ok {
		return &identity.Caller{}
	}
	ctx, now := r.Context(), s.o.Now()
	live, err := s.sessions.get(ctx, h, now)
	if err != nil {
		return unresolved(err)
	}
	who, err := s.users.get(ctx, live.user, now)
	if err != nil {
		return unresolved(err)
	}
	if who.banned || !s.renew(ctx, live, now) {
		return &identity.Caller{}
	}
	return &identity.Caller{User: &who.User, Session: live.id}
}

func unresolved(err error) *identity.Caller {
	return &identity.Caller{Unknown: !errors.Is(err, otter.ErrNotFound)}
}

// tokenHash reads the token of the Authorization header, with or without the word Bearer, else of the cookie.
// Anything but 32 lowercase hex digits is no token and costs nothing more (W40).
func tokenHash(r *http.Request) (h hash, ok bool) {
	token := r.Header.Get("Authorization")
	if token == "" {
		c, err := r.Cookie(cookieName)
		if err != nil {
			return h, false
		}
		token = c.Value
	} else if scheme, rest, found := strings.Cut(token, " "); found && strings.EqualFold(scheme, "Bearer") {
		token = rest
	}
	if len(token) != tokenLen || !every(token, isLowerHex) {
		return h, false
	}
	return hashOf(token), true
}

func isLowerHex(b byte) bool { return isDigit(b) || b >= 'a' && b <= 'f' }

func hashOf(token string) hash {
	var b [tokenLen]byte // on the stack, unlike []byte(token)
	copy(b[:], token)
	return sha256.Sum256(b[:])
}

// askSession reads a session from the kv store.
func (s *Service) askSession(ctx context.Context, h hash) (*memory[*session], error) {
	key := h.String()
	lease := s.o.KV.Lease(tokenKey(key))
	rec, left, err := s.findRecord(ctx, key)
	if err != nil {
		return nil, err
	}
	now := s.o.Now()
	live := &session{id: key, user: rec.User, ends: rec.Created + s.o.SessionMax.Milliseconds()}
	live.expires = min(now.Add(left).UnixMilli(), live.ends)
	believed := min(time.Duration(live.expires-now.UnixMilli())*time.Millisecond, recallFor)
	if believed <= 0 {
		return nil, otter.ErrNotFound
	}
	return &memory[*session]{value: live, lease: lease, until: now.Add(believed)}, nil
}

// askUser reads from SQL what Resolve remembers of a user. While somebody is changing him that isn't remembered.
func (s *Service) askUser(ctx context.Context, user id.ID) (*memory[*profile], error) {
	now := s.o.Now()
	lease := s.o.KV.Lease(changingKey(user))
	if lease.Holds(now) {
		if changes, err := s.o.KV.Members(ctx, changingKey(user)); err != nil || len(changes) > 0 {
			lease = kv.Lease{}
		}
	}
	p, err := findProfile(ctx, s.o.DB.Read, user)
	switch {
	case errors.Is(err, ErrUserNotFound):
		return nil, otter.ErrNotFound
	case err != nil:
		return nil, err
	}
	return &memory[*profile]{value: p, lease: lease, until: now.Add(recallFor)}, nil
}

// renew lengthens the session's life if that is due, and reports whether the session is still there. One request
// does it; the others go on meanwhile.
func (s *Service) renew(ctx context.Context, live *session, now time.Time) bool {
	ttl := s.o.SessionTTL.Milliseconds()
	next := min(now.UnixMilli()+ttl, live.ends)
	if next-live.expires < ttl/renewalShare || !live.renewing.CompareAndSwap(false, true) {
		return true
	}
	there, err := s.o.KV.Touch(ctx, tokenKey(live.id), time.Duration(next-now.UnixMilli())*time.Millisecond)
	if err != nil { // the store knew the session a moment ago; the next request tries again
		live.renewing.Store(false)
		return true
	}
	return there
}
