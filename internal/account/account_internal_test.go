package account

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"testing"
	"time"

	"tandian/internal/kit/kv"
)

// W11, and the defaults that the requirements name (A1, A2, A5).
func TestDefaults(t *testing.T) {
	s := New(Options{KV: kv.NewMemory(time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if s.o.Rand != rand.Reader {
		t.Error("the default source of randomness must be crypto/rand")
	}
	if s.o.SessionTTL != 30*time.Minute || s.o.SessionMax != 30*24*time.Hour || s.o.CodesPerPhone != 10 || s.o.CodesPerIP != 100 {
		t.Errorf("%+v", s.o)
	}
	other := New(Options{KV: kv.NewMemory(time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if s.seal("p", "n", "123456") == other.seal("p", "n", "123456") {
		t.Error("two services without a common secret seal alike")
	}
}

func TestSealBindsPhoneAndNonce(t *testing.T) {
	s := New(Options{Secret: []byte("s"), Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	want := s.seal("13800000001", "n", "123456")
	for _, other := range []string{s.seal("13800000002", "n", "123456"), s.seal("13800000001", "m", "123456"), s.seal("13800000001", "n", "123457")} {
		if other == want {
			t.Error("seals collide")
		}
	}
}

func TestNetwork(t *testing.T) {
	for ip, want := range map[string]string{"192.0.2.1": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1", "2001:db8:1:2:3:4:5:6": "2001:db8:1:2::",
		"2001:db8:1:2:ffff::1": "2001:db8:1:2::", "fe80::1%eth0": "fe80::", "": "unknown", "a:b*\n": "unknown"} {
		if got := network(ip); got != want {
			t.Errorf("%q: %q, want %q", ip, got, want)
		}
	}
}

// Stored parameters count, so that old hashes go on matching when the figures are raised.
func TestStoredParameters(t *testing.T) {
	h := newHasher(rand.Reader, owasp())
	ctx := t.Context()
	salt := []byte("0123456789abcdef")
	key, err := h.derive(ctx, "old password", salt, cost{64, 1, 2}, 16)
	if err != nil {
		t.Fatal(err)
	}
	old := encodeHash(cost{64, 1, 2}, salt, key)
	for password, want := range map[string]bool{"old password": true, "other": false} {
		if got, err := h.matches(ctx, password, old); got != want || err != nil {
			t.Error(password, got, err)
		}
	}
	for _, bad := range []string{"x", "$2a$10$abc", "$argon2id$v=19$m=1$c2FsdA$a2V5", "$argon2id$v=19$m=64,t=1,p=1$!$a2V5"} {
		if ok, err := h.matches(ctx, "x", bad); ok || err == nil {
			t.Errorf("%q: %v %v", bad, ok, err)
		}
	}
	first, err1 := h.hash(ctx, "same")
	second, err2 := h.hash(ctx, "same")
	if err1 != nil || err2 != nil || first == second {
		t.Error("equal passwords must not look equal:", err1, err2)
	}
}

// A login storm queues for the few slots and is told to come back, instead of eating memory.
func TestHasherIsBounded(t *testing.T) {
	h := newHasher(rand.Reader, owasp())
	for range cap(h.slots) {
		h.slots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.matches(ctx, "x", ""); !errors.Is(err, ErrBusy) {
		t.Fatal(err)
	}
	for range cap(h.slots) {
		<-h.slots
	}
	if ok, err := h.matches(t.Context(), "x", ""); ok || err != nil {
		t.Fatal("no password matches no hash:", ok, err)
	}
	if len(h.slots) != 0 {
		t.Error("a slot was not given back")
	}
}
