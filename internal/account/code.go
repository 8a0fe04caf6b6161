package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net/netip"
	"strings"
	"time"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/identity"
)

const (
	codeTTL   = 2 * time.Minute
	codePause = time.Minute // between two codes to one phone
	codeTries = 5           // looks at one code, right or wrong
	day       = 24 * time.Hour
)

// SendCode makes a code for the phone and hands it to the sender. It returns ErrPhoneInvalid, ErrCodeTooOften with
// the time to wait, ErrCodeNotSent when the sender failed (it may be tried again at once), or identity.ErrUnknown.
// The answer does not depend on whether a user has the phone.
func (s *Service) SendCode(ctx context.Context, phone, ip string) error {
	if !validPhone(phone) {
		return ErrPhoneInvalid
	}
	// The address comes first: one that has used up its codes must not close the door of any phone.
	if err := s.count(ctx, codeNetworkKey(ip), s.o.CodesPerIP, day, ErrCodeTooOften); err != nil {
		return err
	}
	free, err := s.o.KV.SetNX(ctx, codePauseKey(phone), nil, codePause)
	if err != nil {
		return identity.ErrUnknown.With(err)
	}
	if !free {
		return s.tooOften(ctx, codePauseKey(phone), ErrCodeTooOften)
	}
	if err := s.count(ctx, codeDayKey(phone), s.o.CodesPerPhone, day, ErrCodeTooOften); err != nil {
		return err
	}
	code, err := s.storeCode(ctx, phone)
	if err != nil {
		return err
	}
	for _, sender := range s.senders {
		if err := sender.Send(ctx, phone, code); err != nil {
			return s.takeBack(ctx, phone, code, err)
		}
	}
	return nil
}

// takeBack makes room for another try after the sender failed.
func (s *Service) takeBack(ctx context.Context, phone, code string, cause error) error {
	// The caller may have hung up by now; the pause must go all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
	defer cancel()
	if err := s.o.KV.Del(ctx, codeKey(phone), codePauseKey(phone)); err != nil {
		return identity.ErrUnknown.With(err)
	}
	// A gateway's error may quote what it was given.
	said := strings.NewReplacer(phone, mask(phone), code, "******").Replace(cause.Error())
	s.o.Log.WarnContext(ctx, "sign-in code not sent", "phone", mask(phone), "err", said)
	return ErrCodeNotSent
}

// storeCode draws a code and keeps "nonce:hmac" under the phone.
func (s *Service) storeCode(ctx context.Context, phone string) (string, error) {
	n, err := rand.Int(s.o.Rand, big.NewInt(1_000_000))
	if err != nil {
		return "", fmt.Errorf("draw code: %w", err)
	}
	code := fmt.Sprintf("%06d", n)
	nonce, err := s.randomHex(8)
	if err != nil {
		return "", err
	}
	if err := s.o.KV.Set(ctx, codeKey(phone), []byte(nonce+":"+s.seal(phone, nonce, code)), codeTTL); err != nil {
		return "", identity.ErrUnknown.With(err)
	}
	return code, nil
}

// seal binds a code to its phone and nonce under the secret, so that a leaked store gives no codes.
func (s *Service) seal(phone, nonce, code string) string {
	mac := hmac.New(sha256.New, s.o.Secret)
	mac.Write([]byte(phone + ":" + nonce + ":" + code))
	return hex.EncodeToString(mac.Sum(nil))
}

// useCode consumes the phone's code if it is the given one: of many callers one gets nil, the others ErrCodeWrong.
func (s *Service) useCode(ctx context.Context, phone, code string) error {
	stored, ok, err := s.o.KV.Get(ctx, codeKey(phone))
	if err != nil {
		return identity.ErrUnknown.With(err)
	}
	nonce, sealed, _ := strings.Cut(string(stored), ":")
	if !ok {
		return ErrCodeWrong
	}
	// Counting before comparing: however many guesses arrive at once, only the first few are looked at.
	tries, err := s.o.KV.Incr(ctx, codeTriesKey(nonce), codeTTL)
	if err != nil {
		return identity.ErrUnknown.With(err)
	}
	if tries > codeTries || !hmac.Equal([]byte(sealed), []byte(s.seal(phone, nonce, code))) {
		return ErrCodeWrong
	}
	taken, ok, err := s.o.KV.Take(ctx, codeKey(phone))
	if err != nil {
		return identity.ErrUnknown.With(err)
	}
	if !ok || string(taken) != string(stored) {
		return ErrCodeWrong
	}
	return nil
}

// count adds one to a counter that starts anew after period, and returns refusal with the time to wait above max.
func (s *Service) count(ctx context.Context, key string, max int, period time.Duration, refusal *errs.Error) error {
	n, err := s.o.KV.Incr(ctx, key, period)
	if err != nil {
		return identity.ErrUnknown.With(err)
	}
	if n > int64(max) {
		return s.tooOften(ctx, key, refusal)
	}
	return nil
}

// tooOften is the refusal with the time that the key has left.
func (s *Service) tooOften(ctx context.Context, key string, refusal *errs.Error) error {
	left, err := s.o.KV.TTL(ctx, key)
	if err != nil {
		return identity.ErrUnknown.With(err)
	}
	return refusal.After(max(left, time.Millisecond))
}

// network is what counts as one address: an IPv6 subscriber has a whole /64. Anything else shares one bucket.
func network(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return "unknown"
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		prefix, _ := addr.Prefix(64) // 64 fits every IPv6 address
		return prefix.Masked().Addr().String()
	}
	return addr.String()
}

// randomHex draws n bytes.
func (s *Service) randomHex(n int) (string, error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(s.o.Rand, b); err != nil {
		return "", fmt.Errorf("draw random bytes: %w", err)
	}
	return hex.EncodeToString(b), nil
}
