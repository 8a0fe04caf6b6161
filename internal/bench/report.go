package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Report is the result of a run. Of Grab, Read and Drain exactly one is set; in
// JSON its fields stand beside the common ones.
type Report struct {
	Mode        string        `json:"-"` // written first by MarshalJSON
	Grab        *GrabFigures  `json:"-"` // also of mode mixed
	Read        *ReadFigures  `json:"-"`
	Drain       *DrainFigures `json:"-"`
	Invariants  *Invariants   `json:"invariants,omitempty"` // nil for a mode that sells nothing
	LatencyMs   Latency       `json:"latencyMs"`
	Checks      []Check       `json:"expect,omitempty"`
	Server      string        `json:"server"` // its address, or "self"
	Clients     int           `json:"clients"`
	Rate        float64       `json:"rate,omitempty"`   // arrivals per second; 0 for a closed loop
	Limits      *Limits       `json:"limits,omitempty"` // of a server started here
	Restarts    int           `json:"restarts"`
	Machine     string        `json:"machine"`
	Commit      string        `json:"commit,omitempty"`
	StartedAt   time.Time     `json:"startedAt"`
	Seconds     float64       `json:"seconds"`
	CommandLine string        `json:"commandLine"`
	Curve       []Point       `json:"curve,omitempty"`

	lang       string
	percentile []float64 // latency in ms at the plotted percentiles
}

// Limits are the request rates the server lets through.
type Limits struct {
	Global int `json:"global"`
	IP     int `json:"ip"`
	User   int `json:"user"`
}

// GrabFigures are the results of grab and mixed. Pointers are nil, null in JSON,
// where a figure could not be measured: ratios need slices in which stock
// remained throughout (or was gone throughout), CPU figures a server of ours.
type GrabFigures struct {
	Users int `json:"users"`
	Stock struct {
		Total int    `json:"total"`
		Gate  *int64 `json:"gate"`
		DB    int64  `json:"db"`
	} `json:"stock"`
	LimitPerUser int `json:"limitPerUser"`
	Tally
	Reads               int64    `json:"reads,omitempty"`
	AcceptRPS           *float64 `json:"acceptRps"`
	WrittenRPS          *float64 `json:"writtenRps"`
	TimeRPS             *float64 `json:"timeRps"`
	RatioToTime         *float64 `json:"ratioToTime"`
	SoldOutRatioToTime  *float64 `json:"soldOutRatioToTime"`
	CPURatio            *float64 `json:"cpuRatio"`
	SoldOutCPURatio     *float64 `json:"soldOutCpuRatio"`
	CPUMicrosPerOrder   *float64 `json:"cpuMicrosPerOrder"`
	CPUMicrosPerSoldOut *float64 `json:"cpuMicrosPerSoldOut"`
	CPUMicrosPerTime    *float64 `json:"cpuMicrosPerTime"`
	DrainMs             float64  `json:"drainMs"` // the longest drain after a slice
	Orders              struct {
		Live   int64 `json:"live"`
		Failed int64 `json:"failed"`
	} `json:"orders"`
	Planted int `json:"planted"` // orders made to be refused by the writer
}

// percentiles are the points of the percentile curve.
var percentiles = []float64{0, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .98, .99, .995, .998, .999, .9995, .9999}

func (r *run) newReport() Report {
	d := r.meter.latency.snapshot()
	rep := Report{
		Mode: r.mode, LatencyMs: d.latency(), Server: "self", Clients: r.opts.Clients, Rate: r.opts.Rate,
		Restarts: r.restarts(), Machine: machine(), Commit: r.opts.Commit, StartedAt: r.meter.begun,
		Seconds: time.Since(r.meter.begun).Seconds(), CommandLine: r.opts.commandLine(r.mode), Curve: r.meter.points, lang: r.opts.Lang,
	}
	if r.server != nil {
		rep.Limits = &Limits{r.opts.LimitGlobal, r.opts.LimitIP, r.opts.LimitUser}
	} else {
		rep.Server = r.opts.URL
	}
	for _, p := range percentiles {
		rep.percentile = append(rep.percentile, d.quantile(p))
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
	p := g.phases()
	fig.DrainMs = float64(p.drain.Milliseconds())
	if fig.AcceptRPS = quotient(float64(p.sold), p.selling.took.Seconds()); fig.AcceptRPS == nil {
		fig.AcceptRPS = quotient(float64(fig.Accepted), p.mixed.took.Seconds())
	}
	if !g.stalled {
		fig.WrittenRPS = quotient(float64(fig.Accepted), p.writing.Seconds())
	}
	fig.TimeRPS = g.times.rps()
	if g.opts.Rate == 0 { // at a given rate the ratio would only repeat it
		fig.RatioToTime = ratio(p.selling.rps(), fig.TimeRPS)
		fig.SoldOutRatioToTime = ratio(p.gone.rps(), fig.TimeRPS)
	}
	fig.CPUMicrosPerTime = g.times.cpuPer(g.times.requests)
	fig.CPUMicrosPerOrder = p.selling.cpuPer(p.sold)
	fig.CPUMicrosPerSoldOut = p.gone.cpuPer(p.soldOut)
	if g.reads == 0 { // else the reads' CPU time would be charged to the orders
		fig.CPURatio = ratio(fig.CPUMicrosPerOrder, fig.CPUMicrosPerTime)
		fig.SoldOutCPURatio = ratio(fig.CPUMicrosPerSoldOut, fig.CPUMicrosPerTime)
	}
	return rep
}

// phases are the sums of a run's slices.
type phases struct {
	selling work // slices in which stock remained to the end
	gone    work // slices in which none was left
	mixed   work // slices in which any was sold
	sold    int64
	soldOut int64
	writing time.Duration // from the first request to the last row, slice by slice
	drain   time.Duration // the longest
}

func (g *grab) phases() (p phases) {
	for _, s := range g.slices {
		switch {
		case s.Accepted > 0 && s.SoldOut == 0:
			p.selling.add(s.work)
			p.sold += int64(s.Accepted)
		case s.Accepted == 0 && s.SoldOut > 0:
			p.gone.add(s.work)
			p.soldOut += int64(s.SoldOut)
		}
		if s.Accepted > 0 {
			p.mixed.add(s.work)
			p.writing += s.written
			p.drain = max(p.drain, s.drain)
		}
	}
	return p
}

// value returns what was measured for a metric of --expect, nil when nothing was.
func (r Report) value(t Threshold) *float64 {
	exact := func(v float64) *float64 { return &v }
	switch t.Metric {
	case "p50":
		return exact(r.LatencyMs.P50)
	case "p95":
		return exact(r.LatencyMs.P95)
	case "p99":
		return exact(r.LatencyMs.P99)
	case "max":
		return exact(r.LatencyMs.Max)
	}
	if v := r.Invariants; v != nil {
		switch t.Metric {
		case "oversell":
			return exact(float64(v.Oversold))
		case "overlimit":
			return exact(float64(v.OverLimit))
		case "dup":
			return exact(float64(v.OverLimit + v.Duplicate))
		case "lost":
			return exact(float64(v.Lost))
		case "ghost":
			return exact(float64(v.Ghost))
		}
	}
	switch {
	case r.Grab != nil:
		return r.Grab.value(t)
	case r.Read != nil:
		return r.Read.value(t)
	default:
		return r.Drain.value(t)
	}
}

func (f *GrabFigures) value(t Threshold) *float64 {
	switch t.Metric {
	case "accept", "rps":
		return f.AcceptRPS
	case "written":
		return f.WrittenRPS
	case "ratio":
		return f.RatioToTime
	case "cpu":
		return f.CPURatio
	case "soldoutcpu":
		return f.SoldOutCPURatio
	case "drain":
		return &f.DrainMs
	case "errors":
		return t.of(int64(f.Errors), int64(f.Attempted))
	case "refused":
		return t.of(int64(f.Refused), int64(f.Attempted))
	}
	return nil
}

// MarshalJSON puts the mode's figures after its name.
func (r Report) MarshalJSON() ([]byte, error) {
	type common Report
	head, err := json.Marshal(struct {
		Mode string `json:"mode"`
	}{r.Mode})
	if err != nil {
		return nil, err
	}
	object := bytes.TrimSuffix(head, []byte("}"))
	for _, part := range []any{r.Grab, r.Read, r.Drain, (*common)(&r)} {
		b, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if string(b) != "null" {
			object = append(append(object, ','), b[1:len(b)-1]...)
		}
	}
	return append(object, '}'), nil
}

// finish checks the thresholds, prints and writes the report, and turns what is
// broken into a *ViolationError.
func (r *Report) finish(run *run) error {
	var broken []string
	if v := r.Invariants; v != nil && !v.OK {
		broken = append(broken, append([]string{"invariants broken"}, v.Details...)...)
	}
	if run.server != nil {
		if n, said := run.server.crashes(); n > 0 {
			broken = append(broken, fmt.Sprintf("the server ended by itself %d times, last saying: %s", n, said))
		}
	}
	for _, t := range run.expect {
		c := t.check(r.value(t))
		r.Checks = append(r.Checks, c)
		if !c.OK {
			broken = append(broken, "missed "+c.Text)
		}
	}
	if err := r.print(run.opts); err != nil {
		return err
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
	if _, err := o.Stdout.Write(text); err != nil {
		return err
	}
	if o.Out == "" {
		return nil
	}
	page, err := r.html()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	for name, content := range map[string][]byte{"report.json": encoded, "report.html": page, "plot.svg": []byte(r.svg())} {
		if err := os.WriteFile(filepath.Join(o.Out, name), content, 0o644); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}
