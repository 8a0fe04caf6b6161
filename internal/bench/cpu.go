package bench

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of /proc/<pid>/stat; Linux fixes it at 100 Hz for
// user space on every platform Go runs on.
const clockTick = 10 * time.Millisecond

// servicePIDs names the processes beside the server whose CPU time belongs to
// an order: the stores, as started by the services script.
func servicePIDs() []int {
	var pids []int
	for _, f := range strings.Split(os.Getenv("TANDIAN_SERVICE_PIDS"), ",") {
		if pid, err := strconv.Atoi(strings.TrimSpace(f)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cpuTime sums user and system time of processes. ok is false where it cannot
// be told, as on systems without /proc.
func cpuTime(pids []int) (sum time.Duration, ok bool) {
	for _, pid := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, false
		}
		// The command name, in parentheses, may hold anything; fields count after it.
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(fields) < 13 {
			return 0, false
		}
		for _, f := range fields[11:13] { // utime, stime
			ticks, err := strconv.ParseInt(string(f), 10, 64)
			if err != nil {
				return 0, false
			}
			sum += time.Duration(ticks) * clockTick
		}
	}
	return sum, len(pids) > 0
}

// machine describes where the run took place.
func machine() string {
	model := ""
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				model = ", " + strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s/%s, %d CPU%s, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model, runtime.Version())
}
