package account

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/store"
)

const (
	maxSessions  = 20 // per user; a new one ends the one that was seen longest ago
	maxUserAgent = 200
)

// record is a session in the kv store. It never changes; see the package comment.
type record struct {
	User      id.ID  `json:"user"`
	Created   int64  `json:"created"` // Unix ms
	UserAgent string `json:"ua,omitempty"`
	IP        string `json:"ip,omitempty"`
}

// findRecord returns a session and the time left to it, or otter.ErrNotFound if there is no such session, or none that
// can be read.
func (s *Service) findRecord(ctx context.Context, hash string) (*record, time.Duration, error) {
	b, left, ok, err := s.o.KV.GetTTL(ctx, tokenKey(hash))
	if err != nil {
		return nil, 0, err
	}
	rec := &record{}
	if !ok || left <= 0 || json.Unmarshal(b, rec) != nil {
		return nil, 0, otter.ErrNotFound
	}
	return rec, left, nil
}

// Issue opens a session for the user and returns its token and absolute end. Whether he may sign in is the
// caller's business. It returns identity.ErrUnknown when the store can't be asked.
func (s *Service) Issue(ctx context.Context, user id.ID, userAgent, ip string) (token string, ends time.Time, err error) {
	if token, err = s.randomHex(tokenLen / 2); err != nil {
		return "", ends, err
	}
	now := s.o.Now()
	value, err := json.Marshal(record{user, store.Millis(now), cleanUserAgent(userAgent), ip})
	if err != nil {
		return "", ends, fmt.Errorf("session: %w", err)
	}
	hash := hashOf(token).String()
	// The token comes before the set: see the package comment.
	if err := s.o.KV.Set(ctx, tokenKey(hash), value, min(s.o.SessionTTL, s.o.SessionMax)); err != nil {
		return "", ends, identity.ErrUnknown.With(err)
	}
	if err := s.o.KV.Add(ctx, sessionsKey(user), s.o.SessionMax, hash); err != nil {
		return "", ends, identity.ErrUnknown.With(err)
	}
	return token, now.Add(s.o.SessionMax), s.makeRoom(ctx, user, hash)
}

// makeRoom ends the sessions seen longest ago beyond maxSessions, but not the newest.
func (s *Service) makeRoom(ctx context.Context, user id.ID, newest string) error {
	members, err := s.o.KV.Members(ctx, sessionsKey(user))
	if err != nil {
		return identity.ErrUnknown.With(err)
	}
	if len(members) <= maxSessions {
		return nil
	}
	list, err := s.Sessions(ctx, user)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(x Session) bool { return x.ID == newest })
	for _, x := range list[min(len(list), maxSessions-1):] {
		if err := s.end(ctx, user, x.ID); err != nil {
			return err
		}
	}
	return nil
}

// cleanUserAgent keeps what may be shown in a list: at most 200 characters, none of them a control character.
func cleanUserAgent(ua string) string {
	if len(ua) > 4*maxUserAgent {
		ua = ua[:4*maxUserAgent]
	}
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(ua, "") {
		if n == maxUserAgent {
			break
		}
		if r >= ' ' && r < 0x7f { // clients name themselves in ASCII
			b.WriteRune(r)
			n++
		}
	}
	return b.String()
}

// Sessions lists the user's live sessions, the one seen last first, and clears those that have expired from his set.
func (s *Service) Sessions(ctx context.Context, user id.ID) ([]Session, error) {
	hashes, err := s.o.KV.Members(ctx, sessionsKey(user))
	if err != nil {
		return nil, identity.ErrUnknown.With(err)
	}
	list := make([]Session, 0, len(hashes))
	var gone []string
	for _, hash := range hashes {
		x, err := s.findSession(ctx, hash)
		switch {
		case errors.Is(err, otter.ErrNotFound):
			gone = append(gone, hash)
		case err != nil:
			return nil, identity.ErrUnknown.With(err)
		default:
			list = append(list, *x)
		}
	}
	if len(gone) > 0 {
		if err := s.o.KV.Remove(ctx, sessionsKey(user), gone...); err != nil {
			return nil, identity.ErrUnknown.With(err)
		}
	}
	slices.SortFunc(list, func(a, b Session) int {
		return cmp.Or(b.LastSeenAt.Compare(a.LastSeenAt), b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

func (s *Service) findSession(ctx context.Context, hash string) (*Session, error) {
	rec, left, err := s.findRecord(ctx, hash)
	if err != nil {
		return nil, err
	}
	created := store.Time(rec.Created)
	seen := s.o.Now().Add(left - s.o.SessionTTL)
	if seen.Before(created) {
		seen = created
	}
	return &Session{ID: hash, CreatedAt: created, LastSeenAt: seen, Device: Device{rec.UserAgent, rec.IP}}, nil
}

// End ends one of the user's sessions. It returns ErrSessionNotFound if it isn't his, or identity.ErrUnknown.
func (s *Service) End(ctx context.Context, user id.ID, sessionID string) error {
	rec, _, err := s.findRecord(ctx, sessionID)
	switch {
	case errors.Is(err, otter.ErrNotFound) || err == nil && rec.User != user:
		return ErrSessionNotFound
	case err != nil:
		return identity.ErrUnknown.With(err)
	}
	return s.end(ctx, user, sessionID)
}

// end deletes a session of the user.
func (s *Service) end(ctx context.Context, user id.ID, sessionID string) error {
	if err := s.o.KV.Del(ctx, tokenKey(sessionID)); err != nil {
		return identity.ErrUnknown.With(err)
	}
	if err := s.o.KV.Remove(ctx, sessionsKey(user), sessionID); err != nil {
		return identity.ErrUnknown.With(err)
	}
	return nil
}

// Kick ends all sessions of the user and returns how many there were.
func (s *Service) Kick(ctx context.Context, user id.ID) (int, error) {
	return s.endOthers(ctx, user, "")
}

// endOthers ends all sessions of the user but one ("" = all) and returns how many it ended.
func (s *Service) endOthers(ctx context.Context, user id.ID, keep string) (int, error) {
	list, err := s.Sessions(ctx, user)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, x := range list {
		if x.ID == keep {
			continue
		}
		if err := s.end(ctx, user, x.ID); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
