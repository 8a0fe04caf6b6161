//go:build fault

package failpoint

import (
	"os"
	"slices"
	"strings"
	"sync"
)

var (
	on    = strings.Split(os.Getenv("FAILPOINT"), ",")
	mu    sync.Mutex
	calls = map[place]int{} // guarded by mu
)

// On reports whether the named fault is switched on by the environment variable FAILPOINT.
func On(name string) bool { return slices.Contains(on, name) }

// Every is On at each nth call for the name and this n.
func Every(n int, name string) bool {
	if !On(name) {
		return false
	}
	mu.Lock()
	defer mu.Unlock()
	calls[place{name, n}]++
	return calls[place{name, n}]%n == 0
}

// place tells two uses of one name apart by how often they strike.
type place struct {
	name string
	n    int
}
