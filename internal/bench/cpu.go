package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// servicePIDs names the processes beside the server whose CPU time belongs to an order: the stores, as started by the
// services script.
func servicePIDs() []int {
	var pids []int
	for _, f := range strings.Split(os.Getenv("TANDIAN_SERVICE_PIDS"), ",") {
		if pid, err := strconv.Atoi(strings.TrimSpace(f)); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// cpuTime sums what the threads of processes have run so far. The scheduler counts nanoseconds, where the better known
// /proc/<pid>/stat counts ticks of 10 ms. ok is false where it can't be told, as on systems without /proc.
func cpuTime(pids []int) (sum time.Duration, ok bool) {
	for _, pid := range pids {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is sound
		if len(threads) == 0 {
			return 0, false
		}
		for _, file := range threads {
			b, _ := os.ReadFile(file) // a thread may have ended meanwhile
			ran, _, _ := bytes.Cut(b, []byte(" "))
			ns, _ := strconv.ParseInt(string(ran), 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum, len(pids) > 0
}

// residentMB is the memory a process holds, in MB of 1024² bytes; nil where it can't be told.
func residentMB(pid int) *float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // absent on systems without /proc
	_, after, _ := strings.Cut(string(b), "VmRSS:")
	var kB float64
	_, _ = fmt.Sscan(after, &kB)
	return quotient(kB, 1024)
}

// machine describes where the run took place.
func machine() string {
	b, _ := os.ReadFile("/proc/cpuinfo") // absent on systems without /proc
	_, after, _ := strings.Cut(string(b), "model name")
	line, _, _ := strings.Cut(after, "\n")
	model := strings.Trim(line, "\t :")
	if model != "" {
		model = ", " + model
	}
	return fmt.Sprintf("%s/%s, %d CPU%s, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model, runtime.Version())
}
