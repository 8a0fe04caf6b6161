package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	lowSpace = 1 << 30   // bytes: a sale's worth of orders is far less, a year's isn't
	noSpace  = 100 << 20 // bytes
)

// Folder examines the folder of the embedded stores. holder tells which process has it, "" for none.
func Folder(dir string, holder func() (pid string, err error)) Examination {
	return func(_ context.Context, r *Report) {
		const check = "data folder"
		if dir == "" {
			return // Settings says so
		}
		at, found := dir, dir
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			at, found = parent(dir), dir+" will be made"
		}
		if err := writable(at); err != nil {
			r.fail(check, fmt.Sprintf("%s can't be written: %v", at, errors.Unwrap(err)), "give it to the user who runs tandian, or name another with --data-dir")
			return
		}
		pid, err := holder()
		if err != nil {
			r.fail(check, err.Error(), "name a folder on a file system with locks, with --data-dir")
			return
		}
		if pid != "" {
			found += " is in use by a running tandian (pid " + pid + ")"
		}
		r.space(check, at, found)
	}
}

func (r *Report) space(check, dir, found string) {
	free, known := freeSpace(dir)
	const remedy = "make room on the disk, or name another folder with --data-dir"
	switch {
	case !known:
		r.ok(check, "%s", found)
	case free < noSpace:
		r.fail(check, fmt.Sprintf("%s, %s free: orders can't be kept when it is full", found, bytes(free)), remedy)
	case free < lowSpace:
		r.warn(check, fmt.Sprintf("%s, only %s free", found, bytes(free)), remedy)
	default:
		r.ok(check, "%s, %s free", found, bytes(free))
	}
}

// parent is the nearest folder above that exists.
func parent(dir string) string {
	for {
		up := filepath.Dir(dir)
		if _, err := os.Stat(up); err == nil || up == dir {
			return up
		}
		dir = up
	}
}

func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".tandian-doctor-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
