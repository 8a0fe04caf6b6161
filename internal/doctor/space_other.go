//go:build !linux && !darwin

package doctor

// freeSpace isn't known on this system.
func freeSpace(string) (free int64, known bool) { return 0, false }
