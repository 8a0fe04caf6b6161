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

const (
	saltBytes = 16
	keyBytes  = 32

	minPassword = 8 // characters
	maxPassword = 64

	hashWait = 2 * time.Second // in the queue for a slot
)

// cost is what a hash takes; it is stored with each.
type cost struct {
	memory uint32 // KiB
	rounds uint32
	lanes  uint8
}

// owasp is the cost of new hashes: the memory of 19 MiB and tens of milliseconds of a core.
func owasp() cost { return cost{memory: 19 * 1024, rounds: 2, lanes: 1} }

// hasher makes and checks argon2id hashes, few at a time.
type hasher struct {
	rand  io.Reader
	cost  cost // of new hashes
	slots chan struct{}
	decoy string // compared with where there is no hash: it costs as much as one
}

// newHasher leaves half of the cores to everything else.
func newHasher(rand io.Reader, c cost) *hasher {
	return &hasher{rand: rand, cost: c, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
		decoy: encodeHash(c, make([]byte, saltBytes), make([]byte, keyBytes))}
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
	key, err := h.derive(ctx, password, salt, h.cost, keyBytes)
	if err != nil {
		return "", err
	}
	return encodeHash(h.cost, salt, key), nil
}

// matches reports whether the password has the hash. An empty hash takes as long as another and matches nothing.
func (h *hasher) matches(ctx context.Context, password, encoded string) (bool, error) {
	known := encoded != ""
	if !known {
		encoded = h.decoy
	}
	c, salt, want, err := decodeHash(encoded)
	if err != nil {
		return false, fmt.Errorf("password hash: %w", err)
	}
	got, err := h.derive(ctx, password, salt, c, uint32(len(want)))
	return err == nil && known && subtle.ConstantTimeCompare(got, want) == 1, err
}

func (h *hasher) derive(ctx context.Context, password string, salt []byte, c cost, n uint32) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
		return argon2.IDKey([]byte(password), salt, c.rounds, c.memory, c.lanes, n), nil
	case <-ctx.Done():
		return nil, ErrBusy.With(ctx.Err())
	}
}

// encodeHash writes the PHC string form: $argon2id$v=19$m=19456,t=2,p=1$salt$key.
func encodeHash(c cost, salt, key []byte) string {
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.memory, c.rounds, c.lanes, b64(salt), b64(key))
}

func decodeHash(s string) (c cost, salt, key []byte, err error) {
	parts := strings.Split(s, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return c, nil, nil, errors.New("unknown form")
	}
	if _, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.memory, &c.rounds, &c.lanes); err != nil {
		return c, nil, nil, err
	}
	if salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil {
		return c, nil, nil, err
	}
	key, err = base64.RawStdEncoding.DecodeString(parts[5])
	return c, salt, key, err
}
