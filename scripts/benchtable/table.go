package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// n is a number of a measurement, "–" when it wasn't measured.
func (f figures) n(name, path, format string) string {
	v, ok := f[name].Numbers[path]
	if !ok {
		return "–"
	}
	return fmt.Sprintf(format, v)
}

// table is everything as Markdown.
func (f figures) table() string {
	var b strings.Builder
	grab := f["grab"].Texts
	commit, changed, _ := strings.Cut(grab["commit"], "-") // a tree with changes is named so
	fmt.Fprintf(&b, "%s, commit `%.12s`%s. %s. %s, %s, %s. Load average before the first run: %s.\n\n", strings.Split(grab["startedAt"], "T")[0], commit, map[bool]string{true: " with changes"}[changed != ""],
		grab["machine"], grab["stores.0"], grab["stores.1"], grab["stores.2"], f["machine"].Texts["load"])
	b.WriteString("| | figure | goal | measured |\n|---|---|---|---|\n")
	row := func(key, figure, goal, measured string) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", key, figure, goal, measured)
	}
	f.gateRows(row)
	for _, run := range []struct{ name, what string }{
		{"grab", "accepted order"}, {"delayed", fmt.Sprintf("the same with %s messages in a delay queue", f.n("delayed", "delayed.left", "%.0f"))},
		{"two", "the same, two instances"}, {"few", "the same, 64 connections instead of 256"}, {"stream", "the same, Redis Streams instead of RabbitMQ"},
	} {
		if _, ok := f[run.name]; ok {
			f.grabRows(row, run.name, run.what)
		}
	}
	row("c", "queue drained, batched ÷ one by one", "≥ 20", f.n("drain", "ratio", "**%.1f**")+f.n("drain", "batched.rps", " (%.0f")+f.n("drain", "naive.rps", " and %.0f orders per second)"))
	row("d", "p99 of an accepted order ÷ p99 of `GET /time`, open loop at half of the highest rate", "≤ 3", f.n("latency", "p99RatioToTime", "**%.2f**")+
		f.n("latency", "grab.p99", " (%.2f")+f.n("latency", "time.p99", " and %.2f ms")+f.n("latency", "openRate", " at %.0f per second)"))
	for _, p := range []string{"p50", "p95"} {
		row("", p+" of the two", "", f.n("latency", "grab."+p, "%.2f")+f.n("latency", "time."+p, " and %.2f ms"))
	}
	b.WriteString("\n| measured by |\n|---|\n")
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if command := f[name].Command; command != "" {
			fmt.Fprintf(&b, "| `%s` |\n", command)
		}
	}
	return b.String()
}

func (f figures) gateRows(row func(key, figure, goal, measured string)) {
	row("a", "buyers per second through the gate, sharing script calls ÷ one by one", "≥ 2", f.n("gate", "gain:buyers/s", "**%.2f**")+
		f.n("gate", "ours:buyers/s", " (%.0f")+f.n("gate", "alone:buyers/s", " and %.0f)"))
	row("", "time in Redis's script per buyer, likewise", "", f.n("gate", "gain:script-µs", "%.2f times less")+f.n("gate", "ours:script-µs/buyer", " (%.1f")+f.n("gate", "alone:script-µs/buyer", " and %.1f µs)"))
	row("", "CPU time of Redis per buyer, likewise", "", f.n("gate", "gain:redis-cpu-µs", "%.2f times less")+f.n("gate", "ours:redis-cpu-µs/buyer", " (%.1f")+f.n("gate", "alone:redis-cpu-µs/buyer", " and %.1f µs)"))
	row("", "memory of Redis per million buyers: before their orders are written, after", "", f.n("memory", "B/pending-buyer", "%.0f MB")+f.n("memory", "B/settled-buyer", ", %.0f MB"))
}

func (f figures) grabRows(row func(key, figure, goal, measured string), name, what string) {
	m := f[name]
	var parts []string
	for path := range m.Numbers {
		if program, ok := strings.CutPrefix(path, "cpuMicrosByProgram."); ok {
			parts = append(parts, program+f.n(name, path, " %.0f"))
		}
	}
	slices.Sort(parts)
	row("b", what+": CPU, server and stores ÷ `GET /time`", "≤ 4", f.n(name, "cpuRatio", "**%.2f**")+f.n(name, "cpuMicrosPerOrder", " (%.0f")+f.n(name, "cpuMicrosPerTime", " and %.0f µs; ")+strings.Join(parts, ", ")+")")
	row("", "“sold out”: CPU ÷ `GET /time`", "", f.n(name, "soldOutCpuRatio", "%.2f"))
	row("", "accepted, written per second ÷ `GET /time`", "", f.n(name, "ratioToTime", "%.2f")+f.n(name, "acceptRps", " (%.0f accepted")+f.n(name, "writtenRps", ", %.0f written per second)"))
}
