package account

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"golang.org/x/crypto/argon2"

	"tandian/internal/kit/api"
)

// Parameters of new hashes; stored ones carry their own.
const (
	argonMemory = 19 * 1024 // KiB
	argonTime   = 2
	argonLanes  = 1
	saltBytes   = 16
	keyBytes    = 32

	minPassword = 8 // characters
	maxPassword = 64

	hashWait = 2 * time.Second // in the queue for a slot
)

// hasher makes and checks argon2id hashes, few at a time: each takes 19 MiB and tens of milliseconds of a core.
type hasher struct {
	rand  io.Reader
	slots chan struct{}
	decoy string // compared with where there is no hash: it costs as much as one
}

// newHasher leaves half of the cores to everything else.
func newHasher(rand io.Reader) *hasher {
	return &hasher{rand: rand, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		decoy: encodeHash(argonMemory, argonTime, argonLanes, make([]byte, saltBytes), make([]byte, keyBytes))}
}

// checkNewPassword returns a fault unless the new password is 8 to 64 characters.
func checkNewPassword(password string) error {
	return api.CleanText("body.password", password, minPassword, maxPassword)
}

// hash returns the password's hash in PHC form. It returns ErrBusy when too many are at it.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(h.rand, salt); err != nil {
		return "", fmt.Errorf("draw salt: %w", err)
	}
	key, err := h.derive(ctx, password, salt, argonMemory, argonTime, argonLanes, keyBytes)
	if err != nil {
		return "", err
	}
	return encodeHash(argonMemory, argonTime, argonLanes, salt, key), nil
}

// matches reports whether the password has the hash. An empty hash takes as long as another and matches nothing.
func (h *hasher) matches(ctx context.Context, password, encoded string) (bool, error) {
	known := encoded != ""
	if !known {
		encoded = h.decoy
	}
	var memory, time uint32
	var lanes uint8
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return false, errors.New("password hash: unknown form")
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &time, &lanes); err != nil {
		return false, fmt.Errorf("password hash: %w", err)
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, fmt.Errorf("password hash: %w", err)
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		return false, fmt.Errorf("password hash: %w", err)
	}
	got, err := h.derive(ctx, password, salt, memory, time, lanes, uint32(len(want)))
	return err == nil && known && subtle.ConstantTimeCompare(got, want) == 1, err
}

func (h *hasher) derive(ctx context.Context, password string, salt []byte, memory, time uint32, lanes uint8, n uint32) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
		return argon2.IDKey([]byte(password), salt, time, memory, lanes, n), nil
	case <-ctx.Done():
		return nil, ErrBusy.With(ctx.Err())
	}
}

func encodeHash(memory, time uint32, lanes uint8, salt, key []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memory, time, lanes, b64(salt), b64(key))
}
