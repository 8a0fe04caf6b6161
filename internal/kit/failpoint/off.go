//go:build !fault

package failpoint

// On reports whether the named fault is switched on; never in a normal build.
func On(string) bool { return false }

// Every is On at each nth call for the name and this n; never in a normal build.
func Every(int, string) bool { return false }

// Kill ends the process at the pass that FAILPOINT asks for; never in a normal build.
func Kill(string) {}
