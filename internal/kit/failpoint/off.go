//go:build !fault || !unix

package failpoint

// On reports whether the named fault is switched on; never in a normal build.
func On(string) bool { return false }

// Every is On at each nth call for the name and this n; never in a normal build.
func Every(int, string) bool { return false }

// Pass kills or freezes the process if FAILPOINT asks for it here; never in a normal build.
func Pass(string) {}
