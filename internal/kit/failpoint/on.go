//go:build fault

package failpoint

import (
	"os"
	"slices"
	"strings"
)

var on = strings.Split(os.Getenv("FAILPOINT"), ",")

// On reports whether the named fault is switched on by the environment variable FAILPOINT.
func On(name string) bool { return slices.Contains(on, name) }

// Built reports whether this binary can be broken on purpose.
const Built = true
