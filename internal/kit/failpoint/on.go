//go:build fault

package failpoint

import (
	"os"
	"slices"
	"strconv"
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

// Kill ends the process, as a SIGKILL does, at the pass that FAILPOINT asks for: the n-th of name:n, the first of name.
func Kill(name string) {
	for _, point := range on {
		on, nth, counted := strings.Cut(point, ":")
		if on != name {
			continue
		}
		n := 1
		if counted {
			n, _ = strconv.Atoi(nth)
		}
		mu.Lock()
		calls[place{name, 0}]++
		pass := calls[place{name, 0}]
		mu.Unlock()
		if pass == n {
			die()
		}
	}
}

func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {} // the signal is on its way
}

// place tells two uses of one name apart by how often they strike.
type place struct {
	name string
	n    int
}
