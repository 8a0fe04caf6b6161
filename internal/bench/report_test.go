package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// sampleReport is a report with every kind of figure, known and unknown.
func sampleReport(lang string) Report {
	f := func(v float64) *float64 { return &v }
	n := int64(0)
	h, facts := recorded()
	facts.Missed = []string{"101"}
	v := Judge(h, facts)
	g := &GrabFigures{
		Users: 5000, LimitPerUser: 1, Tally: Tally{5700, 500, 4900, 290, 8, 2}, AcceptRPS: f(8123.4), WrittenRPS: f(7900), TimeRPS: f(15000),
		RatioToTime: f(.54), CPURatio: f(2.345), DrainMs: 140, Planted: 10,
	}
	g.Stock.Total, g.Stock.Gate, g.Orders.Live, g.Orders.Failed = 500, &n, 500, 3
	r := Report{
		Mode: "grab", Grab: g, Invariants: &v, LatencyMs: Latency{3.1, 9.5, 21, 40}, Server: "self", Clients: 64, Limits: &Limits{1000000, 1000000, 1000},
		Restarts: 1, Machine: "linux/amd64, 2 CPU", Commit: "abc", StartedAt: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), Seconds: 12,
		CommandLine: "tandian bench grab --self --users 5000", Checks: []Check{{"p99<80ms", f(21), true}, {"cpu<2", f(2.345), false}, {"soldoutcpu<1", nil, false}},
		Curve: []Point{{1, 8000, 3, 9, 20}, {2, 8200, 3.2, 10, 22}}, lang: lang,
	}
	return r
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; run with -update and look at the change. Got:\n%s", name, got)
	}
}

func TestReportText(t *testing.T) {
	golden(t, "grab.zh.txt", sampleReport("zh").Text())
	golden(t, "grab.en.txt", sampleReport("en").Text())
	rps := 9000.0
	read := Report{Mode: "read", Read: &ReadFigures{Requests: 90_000, RPS: &rps}, Server: "http://127.0.0.1:8080", CommandLine: "tandian bench read", lang: "en"}
	golden(t, "read.en.txt", read.Text())
	drain := Report{Mode: "drain", Drain: &DrainFigures{Batched: DrainRate{20000, .4, &rps}}, Server: "self", CommandLine: "tandian bench drain", lang: "zh"}
	golden(t, "drain.zh.txt", drain.Text())
}

func TestReportJSON(t *testing.T) {
	b, err := json.MarshalIndent(sampleReport("zh"), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "grab.json", string(b)+"\n")
}

func TestPlotIsWellFormed(t *testing.T) {
	empty := Report{Mode: "grab", lang: "zh"}
	for _, r := range []Report{sampleReport("zh"), empty} {
		d := xml.NewDecoder(strings.NewReader(r.svg()))
		for {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if s := r.svg(); strings.Contains(s, "NaN") || strings.Contains(s, "Inf") {
			t.Error("a coordinate is not a number")
		}
	}
	golden(t, "plot.svg", sampleReport("en").svg())
}

func TestPageNeedsNothingElse(t *testing.T) {
	r := sampleReport("zh")
	r.CommandLine = "</pre><script>alert(1)</script>"
	page, err := r.html()
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>alert", "src=", "href="} {
		if bytes.Contains(page, []byte(bad)) {
			t.Errorf("the page holds %s", bad)
		}
	}
	if !bytes.Contains(page, []byte("<svg")) {
		t.Error("the page has no plot")
	}
}

func TestThresholdsOfAReport(t *testing.T) {
	r := sampleReport("en")
	thresholds, err := ParseExpect("p50<1s,p95<1s,p99<1s,max<1s,drain<1s,errors<1%,errors=2,refused=8,oversell=0,overlimit=0,dup=0,lost=1,ghost=0,accept>1,written>1,rps>1,ratio>0.5,cpu<3")
	if err != nil {
		t.Fatal(err)
	}
	for _, th := range thresholds {
		if c := th.check(r.value(th)); !c.OK {
			t.Errorf("%s: %v", c.Text, c.Actual)
		}
	}
	for metric := range metrics {
		for _, r := range []Report{{Read: &ReadFigures{}}, {Drain: &DrainFigures{}}} {
			r.value(Threshold{Metric: metric}) // must not panic
		}
	}
}

func TestFinishReportsWhatIsBroken(t *testing.T) {
	th, err := ParseExpect("p99<1ms,p50<1s")
	if err != nil {
		t.Fatal(err)
	}
	r := sampleReport("en")
	err = r.finish(&run{opts: Options{Stdout: io.Discard}, expect: th})
	var violation *ViolationError
	if !errors.As(err, &violation) {
		t.Fatalf("err = %v", err)
	}
	text := err.Error()
	for _, want := range []string{"invariants broken", "order 101", "missed p99<1ms"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
	if strings.Contains(text, "p50") {
		t.Errorf("%q blames a threshold that was met", text)
	}
}

// The command line embeds Options; its tags must parse and agree with withDefaults.
func TestOptionsAsFlags(t *testing.T) {
	var cli struct{ Options }
	parser, err := kong.New(&cli, kong.Exit(func(int) {}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse([]string{"--users", "10", "--json", "--limit-ip=5", "--broker", "rabbit", "--seed", "3"}); err != nil {
		t.Fatal(err)
	}
	want := Options{Users: 10, JSON: true, LimitIP: 5, Broker: "rabbit", Seed: 3}.withDefaults()
	got := cli.Options.withDefaults()
	if got.commandLine("grab") != want.commandLine("grab") || got.RestTimeout != want.RestTimeout || got.LimitGlobal != want.LimitGlobal {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if _, err := parser.Parse([]string{"--broker", "kafka"}); err == nil {
		t.Error("an unknown broker was accepted")
	}
}

func TestMeter(t *testing.T) {
	m := newMeter()
	m.enter("POST orders", 200)
	m.done.Store(100)
	m.outcomes[Accepted].Add(7)
	m.reads.Add(3)
	m.points = []Point{{RPS: 0}, {RPS: 50}, {RPS: 100}}
	lines := m.lines(m.latency.snapshot())
	text := strings.Join(lines, "\n")
	for _, want := range []string{"POST orders", "50%", "100/200", "accepted 7", "reads 3", "▁▄█ 100/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if len(lines) != 5 {
		t.Errorf("%d lines", len(lines))
	}
	m.done.Store(900) // repeats may exceed what was foreseen
	m.lines(m.latency.snapshot())
}
