package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Report is the result of a run. Of Grab, Read, Latency, Drain and Start exactly one is set; in JSON its fields stand
// beside the common ones.
type Report struct {
	Mode        string          `json:"-"` // written first by MarshalJSON
	Grab        *GrabFigures    `json:"-"` // also of mode mixed
	Read        *ReadFigures    `json:"-"`
	Latency     *LatencyFigures `json:"-"`
	Drain       *DrainFigures   `json:"-"`
	Start       *StartFigures   `json:"-"`
	Invariants  *Invariants     `json:"invariants,omitempty"` // nil for a mode that sells nothing
	LatencyMs   Latency         `json:"latencyMs"`
	Checks      []Check         `json:"expect,omitempty"`
	Server      string          `json:"server"`            // its address, or "self"
	Backend     string          `json:"backend,omitempty"` // of a server started here: embedded or production
	Broker      string          `json:"broker,omitempty"`  // likewise
	Stores      []string        `json:"stores,omitempty"`  // of the production mode, with versions
	Instances   int             `json:"instances,omitempty"`
	Delayed     *Delayed        `json:"delayed,omitempty"`
	Clients     int             `json:"clients"`
	Rate        float64         `json:"rate,omitempty"`   // arrivals per second; 0 for a closed loop
	Limits      *Limits         `json:"limits,omitempty"` // of a server started here
	Restarts    int             `json:"restarts"`
	Machine     string          `json:"machine"`
	Commit      string          `json:"commit,omitempty"`
	StartedAt   time.Time       `json:"startedAt"`
	Seconds     float64         `json:"seconds"`
	CommandLine string          `json:"commandLine"`
	Curve       []Point         `json:"curve,omitempty"`

	lang string
}

// Delayed is what waited in a delay queue during the run.
type Delayed struct {
	Queue    string `json:"queue"`
	Messages int    `json:"messages"` // put there before the load
	Left     int    `json:"left"`     // still there after it
}

// Limits are the request rates the server lets through.
type Limits struct {
	Global int `json:"global"`
	IP     int `json:"ip"`
	User   int `json:"user"`
}

// GrabFigures are the results of grab and mixed. Pointers are nil, null in JSON, where a figure could not be measured:
// ratios need plain slices in which stock remained throughout (or was gone throughout), CPU figures a server of ours.
type GrabFigures struct {
	Users int `json:"users"`
	Stock struct {
		Total int    `json:"total"`
		Gate  *int64 `json:"gate"`
		DB    int64  `json:"db"`
	} `json:"stock"`
	LimitPerUser int `json:"limitPerUser"`
	Tally
	Reads               int64              `json:"reads,omitempty"`
	AcceptRPS           *float64           `json:"acceptRps"`
	WrittenRPS          *float64           `json:"writtenRps"`
	TimeRPS             *float64           `json:"timeRps"`
	RatioToTime         *float64           `json:"ratioToTime"`
	SoldOutRatioToTime  *float64           `json:"soldOutRatioToTime"`
	CPURatio            *float64           `json:"cpuRatio"`
	SoldOutCPURatio     *float64           `json:"soldOutCpuRatio"`
	CPUMicrosPerOrder   *float64           `json:"cpuMicrosPerOrder"`
	CPUMicrosPerSoldOut *float64           `json:"cpuMicrosPerSoldOut"`
	CPUMicrosPerTime    *float64           `json:"cpuMicrosPerTime"`             // of the servers alone
	CPUMicrosByProgram  map[string]float64 `json:"cpuMicrosByProgram,omitempty"` // parts of cpuMicrosPerOrder
	DrainMs             float64            `json:"drainMs"`                      // the longest drain after a slice
	Orders              struct {
		Live   int64 `json:"live"`
		Failed int64 `json:"failed"`
	} `json:"orders"`
	Planted int `json:"planted"` // orders made to be refused by the writer
}

func (r *run) newReport() Report {
	rep := Report{
		Mode: r.mode, LatencyMs: r.meter.latency.snapshot().latency(), Server: "self", Clients: r.opts.Clients, Rate: r.opts.Rate,
		Restarts: r.servers.restarts(), Machine: machine(), Commit: r.opts.Commit, StartedAt: r.meter.begun,
		Seconds: time.Since(r.meter.begun).Seconds(), CommandLine: r.opts.commandLine(r.mode), Curve: r.meter.points, lang: r.opts.Lang,
	}
	if r.servers == nil {
		rep.Server = r.opts.URL
		return rep
	}
	rep.Limits = &Limits{r.opts.LimitGlobal, r.opts.LimitIP, r.opts.LimitUser}
	rep.Instances, rep.Backend, rep.Broker, rep.Delayed = len(r.servers), "embedded", r.opts.Broker, r.delayed
	if r.stores != nil {
		rep.Backend, rep.Stores = "production", r.stores.names
	}
	return rep
}

// report works the figures out.
func (g *grab) report(f Facts, v Invariants) Report {
	rep := g.newReport()
	fig := &GrabFigures{Users: g.opts.Users, LimitPerUser: g.opts.Limit, Reads: g.meter.reads.Load(), Planted: len(g.planted)}
	rep.Grab, rep.Invariants = fig, &v
	main := f.Sales[mainSale]
	fig.Stock.Total, fig.Stock.Gate, fig.Stock.DB = g.opts.Stock, main.Gate, main.Stock
	fig.Orders.Live, fig.Orders.Failed = main.Live, main.Failed
	for _, op := range g.history.Ops {
		if op.Sale == mainSale {
			fig.Tally.add(op)
		}
	}
	sold := g.total(func(s grabSlice) bool { return s.plain && s.Accepted > 0 && s.SoldOut == 0 })
	gone := g.total(func(s grabSlice) bool { return s.plain && s.Accepted == 0 && s.SoldOut > 0 })
	if fig.TimeRPS = g.times.rps(); g.opts.Rate == 0 { // at a given rate the ratio would only repeat it
		fig.RatioToTime = ratio(sold.rps(), fig.TimeRPS)
		fig.SoldOutRatioToTime = ratio(gone.rps(), fig.TimeRPS)
	}
	fig.CPUMicrosPerTime = g.times.cpuPer(g.times.requests)
	fig.CPUMicrosPerOrder = sold.cpuPer(int64(sold.Accepted))
	fig.CPUMicrosByProgram = sold.byProgram(int64(sold.Accepted))
	fig.CPUMicrosPerSoldOut = gone.cpuPer(int64(gone.SoldOut))
	if g.reads == 0 { // else the reads' CPU time would be charged to the orders
		fig.CPURatio = ratio(fig.CPUMicrosPerOrder, fig.CPUMicrosPerTime)
		fig.SoldOutCPURatio = ratio(fig.CPUMicrosPerSoldOut, fig.CPUMicrosPerTime)
	}
	if sold.Accepted == 0 {
		sold = g.total(func(s grabSlice) bool { return s.Accepted > 0 })
	}
	fig.AcceptRPS = quotient(float64(sold.Accepted), sold.took.Seconds())
	if !g.stalled {
		fig.WrittenRPS = quotient(float64(sold.Accepted), sold.written.Seconds())
	}
	for _, s := range g.slices {
		fig.DrainMs = max(fig.DrainMs, float64((s.written - s.took).Milliseconds()))
	}
	return rep
}

// total sums the slices of one kind.
func (g *grab) total(kind func(grabSlice) bool) (sum grabSlice) {
	for _, s := range g.slices {
		if kind(s) {
			sum.Accepted += s.Accepted
			sum.SoldOut += s.SoldOut
			sum.written += s.written
			sum.work.add(s.work)
		}
	}
	return sum
}

// value returns what was measured for a metric of --expect, nil when nothing was.
func (r Report) value(t Threshold) *float64 {
	l := r.LatencyMs
	known := map[string]*float64{"p50": &l.P50, "p95": &l.P95, "p99": &l.P99, "max": &l.Max}
	if v := r.Invariants; v != nil {
		for name, n := range map[string]int{"oversell": v.Oversold, "overlimit": v.OverLimit, "dup": v.OverLimit + v.Duplicate, "lost": v.Lost, "ghost": v.Ghost} {
			known[name] = t.of(n, 1)
		}
	}
	switch {
	case r.Grab != nil:
		f := r.Grab
		known["accept"], known["rps"], known["written"], known["drain"] = f.AcceptRPS, f.AcceptRPS, f.WrittenRPS, &f.DrainMs
		known["ratio"], known["cpu"], known["soldoutcpu"] = f.RatioToTime, f.CPURatio, f.SoldOutCPURatio
		known["errors"], known["refused"] = t.of(f.Errors, f.Attempted), t.of(f.Refused, f.Attempted)
	case r.Read != nil:
		f := r.Read
		known["rps"], known["ratio"], known["cpu"], known["errors"] = f.RPS, f.RatioToTime, f.CPURatio, t.of(int(f.Errors), int(f.Requests))
	case r.Latency != nil:
		f := r.Latency
		known["rps"], known["p99ratio"] = f.MaxRPS, f.P99Ratio
		known["errors"], known["refused"] = t.of(f.Tally.Errors, f.Tally.Attempted), t.of(f.Tally.Refused, f.Tally.Attempted)
	case r.Drain != nil:
		f := r.Drain
		ms := f.Batched.Seconds * 1000
		known["rps"], known["written"], known["ratio"], known["drain"] = f.Batched.RPS, f.Batched.RPS, f.Speedup, &ms
	}
	return known[t.Metric]
}

// MarshalJSON puts the mode's figures after its name.
func (r Report) MarshalJSON() ([]byte, error) {
	type common Report
	mode := struct {
		Mode string `json:"mode"`
	}{r.Mode}
	var members [][]byte
	for _, part := range []any{mode, r.Grab, r.Read, r.Latency, r.Drain, r.Start, (*common)(&r)} {
		b, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if string(b) != "null" {
			members = append(members, b[1:len(b)-1])
		}
	}
	return append(append([]byte{'{'}, bytes.Join(members, []byte{','})...), '}'), nil
}

// finish checks the thresholds, prints and writes the report, and turns what is broken into a *ViolationError.
func (r *Report) finish(run *run) error {
	var broken []string
	if v := r.Invariants; v != nil && !v.OK {
		broken = append(broken, append([]string{"invariants broken"}, v.Details...)...)
	}
	for _, t := range run.expect {
		c := t.check(r.value(t))
		r.Checks = append(r.Checks, c)
		if !c.OK {
			broken = append(broken, "missed "+c.Text)
		}
	}
	if err := r.print(run.opts); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	if broken != nil {
		return &ViolationError{Broken: broken}
	}
	return nil
}

func (r *Report) print(o Options) error {
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	encoded = append(encoded, '\n')
	text := encoded
	if !o.JSON {
		text = []byte(r.Text())
	}
	if _, err := o.Stdout.Write(text); err != nil || o.Out == "" {
		return err
	}
	page, err := r.html()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{"report.json": encoded, "report.html": page, "plot.svg": []byte(r.svg())} {
		if err := os.WriteFile(filepath.Join(o.Out, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
