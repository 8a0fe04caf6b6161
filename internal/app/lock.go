package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// lockDir makes sure that one process owns the folder: the SQL queue and the memory gate rest on it. The system
// drops the lock with the process, however that ends.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "tandian.lock"), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("--data-dir: %w", err)
	}
	if free, err := lockFile(f); err != nil || !free {
		defer f.Close()
		if err == nil {
			return nil, fmt.Errorf("--data-dir %s is in use by another tandian (pid %s); stop it or name another folder", dir, pidIn(f))
		}
		return nil, fmt.Errorf("lock --data-dir %s: %w", dir, err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0) // for the message above only
	}
	return func() { _ = f.Close() }, nil
}

// holder returns the id of the process that owns the folder, "" when none does.
func holder(dir string) (pid string, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "tandian.lock"), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close() // with the lock, if we have it now
	free, err := lockFile(f)
	if err != nil {
		return "", fmt.Errorf("lock %s: %w", dir, err)
	}
	if free {
		return "", nil
	}
	return pidIn(f), nil
}

func pidIn(f *os.File) string {
	b := make([]byte, 20)
	n, _ := f.ReadAt(b, 0)
	if s := strings.TrimSpace(string(b[:n])); s != "" {
		return s
	}
	return "unknown"
}
