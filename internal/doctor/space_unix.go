//go:build linux || darwin

package doctor

import "syscall"

// freeSpace returns what an ordinary user may still write to the disk of dir, in bytes.
func freeSpace(dir string) (free int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true // the types differ between systems
}
