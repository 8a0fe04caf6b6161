package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Point is one interval of the latency curve.
type Point struct {
	Seconds float64 `json:"t"` // end of the interval, since the run began
	RPS     float64 `json:"rps"`
	P50     float64 `json:"p50"` // milliseconds
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
}

// Interval and number of points kept: an hour's run, the longest allowed, fits.
const (
	meterInterval = 250 * time.Millisecond
	maxPoints     = 16384
)

// meter counts what a run does, shows it while it goes on and keeps the curve. Its counters may be written
// concurrently.
type meter struct {
	begun    time.Time
	latency  histogram              // of the requests under test
	outcomes [outcomes]atomic.Int64 // replays apart
	replays  atomic.Int64
	reads    atomic.Int64
	done     atomic.Int64 // of total
	total    atomic.Int64
	phase    atomic.Pointer[string]
	points   []Point // owned by run; read after it has returned
}

func newMeter() *meter {
	m := &meter{begun: time.Now()}
	m.enter("start", 0)
	return m
}

// enter names what is done next and how many steps it has (0: not known).
func (m *meter) enter(phase string, total int) {
	m.phase.Store(&phase)
	m.done.Store(0)
	m.total.Store(int64(total))
}

// run shows progress on w until ctx ends: five lines drawn over and over on a terminal, else one line per second.
func (m *meter) run(ctx context.Context, w io.Writer) {
	tty := isTerminal(w)
	tick := time.NewTicker(meterInterval)
	defer tick.Stop()
	last, lastAt := m.latency.snapshot(), time.Now()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, current := time.Now(), m.latency.snapshot()
		if part := current.minus(last); part.total > 0 && len(m.points) < maxPoints {
			l := part.latency()
			m.points = append(m.points, Point{now.Sub(m.begun).Seconds(), float64(part.total) / now.Sub(lastAt).Seconds(), l.P50, l.P95, l.P99})
		}
		last, lastAt = current, now
		switch l := m.lines(current); {
		case tty && n == 1:
			fmt.Fprintln(w, strings.Join(l, "\n"))
		case tty:
			fmt.Fprintf(w, "\x1b[%dA\x1b[J%s\n", len(l), strings.Join(l, "\n"))
		case n%int(time.Second/meterInterval) == 0:
			fmt.Fprintln(w, strings.Join([]string{l[0], l[2], l[3]}, " | "))
		}
	}
}

// attempted counts an answered attempt.
func (m *meter) attempted(op Op) {
	m.latency.record(op.Waited)
	if op.Replay {
		m.replays.Add(1)
		return
	}
	m.outcomes[op.Outcome].Add(1)
}

// lines is the state in five lines.
func (m *meter) lines(d distribution) []string {
	done, total := m.done.Load(), m.total.Load()
	share := 0.0
	if total > 0 {
		share = min(float64(done)/float64(total), 1)
	}
	const width = 40
	bar := strings.Repeat("█", int(share*width)) + strings.Repeat("░", width-int(share*width))
	var counts []string
	count := func(name string, n int64) {
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%s %d", name, n))
		}
	}
	for o := Unknown; o < outcomes; o++ {
		count(o.String(), m.outcomes[o].Load())
	}
	count("replayed", m.replays.Load())
	count("reads", m.reads.Load())
	l := d.latency()
	recent := m.points[max(0, len(m.points)-width):]
	rate := 0.0
	if len(recent) > 0 {
		rate = recent[len(recent)-1].RPS
	}
	return []string{
		fmt.Sprintf("%6.1fs  %s", time.Since(m.begun).Seconds(), *m.phase.Load()),
		fmt.Sprintf("%s %3.0f%%  %d/%d", bar, share*100, done, total),
		fmt.Sprintf("p50 %.1f  p95 %.1f  p99 %.1f  max %.1f ms", l.P50, l.P95, l.P99, l.Max),
		strings.Join(counts, "  "),
		fmt.Sprintf("%s %.0f/s", sparkline(recent), rate),
	}
}

func sparkline(points []Point) string {
	top := 1.0
	for _, p := range points {
		top = max(top, p.RPS)
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, p := range points {
		b.WriteRune(bars[int(p.RPS/top*float64(len(bars)-1))])
	}
	return b.String()
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
