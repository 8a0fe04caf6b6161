//go:build fault && unix

package failpoint

import (
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
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
	return call(place{name, strconv.Itoa(n)})%n == 0
}

// Pass kills or freezes the process if FAILPOINT asks for it at this place and pass. It returns, if at all, when the
// process has been continued.
func Pass(name string) {
	for _, point := range on {
		parts := strings.Split(point, ":")
		if parts[0] != name || len(parts) < 2 {
			continue
		}
		nth := "1"
		if len(parts) > 2 {
			nth = parts[2]
		}
		if strconv.Itoa(call(place{name, parts[1]})) != nth {
			continue
		}
		switch parts[1] {
		case "kill":
			die()
		case "stop":
			freeze()
		default:
			panic("FAILPOINT: " + point + ": neither kill nor stop")
		}
	}
}

func die() {
	signalSelf(syscall.SIGKILL)
	select {} // the signal is on its way
}

// freeze stops all threads. The signal may reach another thread first, so this one waits to be continued.
func freeze() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	signalSelf(syscall.SIGSTOP)
	<-continued
}

func signalSelf(s syscall.Signal) {
	if err := syscall.Kill(os.Getpid(), s); err != nil {
		panic(err)
	}
}

// place is what calls are counted by: a name, and what it does there or how often.
type place struct{ name, what string }

// call counts one and returns the count.
func call(p place) int {
	mu.Lock()
	defer mu.Unlock()
	calls[p]++
	return calls[p]
}
