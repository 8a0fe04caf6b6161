//go:build unix

package app

import (
	"errors"
	"os"
	"syscall"
)

// lockFile takes the file for this process; free is false when another has it.
func lockFile(f *os.File) (free bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
