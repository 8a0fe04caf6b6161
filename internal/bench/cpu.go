package bench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cpuTimes is CPU time by program: the server's own under serverProgram, the stores' under their names.
type cpuTimes map[string]time.Duration

const serverProgram = "tandian"

// cpuSoFar sums what the threads of the servers and the stores have run so far. It is nil where that can't be told, as
// on systems without /proc or when one of the processes is gone.
func cpuSoFar(servers, stores []int) cpuTimes {
	sum := cpuTimes{}
	for i, pid := range slices.Concat(servers, stores) {
		program := serverProgram
		if i >= len(servers) {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)) // absent = no threads below
			program = strings.TrimSpace(string(b))
		}
		ran, ok := cpuTime(pid)
		if !ok {
			return nil
		}
		sum[program] += ran
	}
	return sum
}

// cpuTime sums what the threads of a process have run so far. The scheduler counts nanoseconds, where the better known
// /proc/<pid>/stat counts ticks of 10 ms.
func cpuTime(pid int) (sum time.Duration, ok bool) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid)) // the pattern is sound
	for _, file := range threads {
		b, _ := os.ReadFile(file) // a thread may have ended meanwhile
		ran, _, _ := bytes.Cut(b, []byte(" "))
		ns, _ := strconv.ParseInt(string(ran), 10, 64)
		sum += time.Duration(ns)
	}
	return sum, len(threads) > 0
}

func (t cpuTimes) total() (sum time.Duration) {
	for _, d := range t {
		sum += d
	}
	return sum
}

// minus is what was used after the earlier moment.
func (t cpuTimes) minus(earlier cpuTimes) cpuTimes {
	d := cpuTimes{}
	for program := range t {
		d[program] = t[program] - earlier[program]
	}
	return d
}

// plus adds times that may be nil.
func (t cpuTimes) plus(more cpuTimes) cpuTimes {
	sum := cpuTimes{}
	for _, part := range []cpuTimes{t, more} {
		for program, d := range part {
			sum[program] += d
		}
	}
	return sum
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
