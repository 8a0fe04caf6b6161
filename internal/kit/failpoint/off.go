//go:build !fault

package failpoint

// On reports whether the named fault is switched on; never in a normal build.
func On(string) bool { return false }

// Built reports whether this binary can be broken on purpose.
const Built = false
