package app

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// derived makes secrets from one that all instances share, so that none of them tells anything about another.
func derived(from []byte) func(purpose string) ([]byte, error) {
	return func(purpose string) ([]byte, error) {
		h := hmac.New(sha256.New, from)
		h.Write([]byte("tandian secret\n" + purpose))
		return h.Sum(nil), nil
	}
}

// kept draws a secret when it is first asked for and keeps it in the folder, which belongs to one process.
func kept(dir string) func(purpose string) ([]byte, error) {
	return func(purpose string) ([]byte, error) {
		file := filepath.Join(dir, purpose+".key")
		secret, err := os.ReadFile(file)
		if err == nil && len(secret) < len(rand.Text()) {
			return nil, fmt.Errorf("%s is damaged; remove it, and callbacks under way are lost", file)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return secret, err
		}
		secret = []byte(rand.Text())
		part := file + ".part"
		if err := os.WriteFile(part, secret, 0o600); err != nil {
			return nil, err
		}
		return secret, os.Rename(part, file)
	}
}
