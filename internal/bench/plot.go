package bench

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Size of a panel of the plot and the room around it, in SVG units.
const (
	panelWidth  = 640.0
	panelHeight = 220.0
	panelLeft   = 64.0
	panelTop    = 36.0
	panelPitch  = panelHeight + 84
)

// panel draws one diagram with a logarithmic latency axis.
type panel struct {
	b          *strings.Builder
	top        float64
	low, top10 float64 // decades of the axis
}

func newPanel(b *strings.Builder, n int, title string, values []float64) panel {
	low, high := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if low > high {
		low, high = 1, 10
	}
	p := panel{b: b, top: panelTop + float64(n)*panelPitch, low: math.Floor(math.Log10(low)), top10: math.Ceil(math.Log10(high) + 1e-9)}
	if p.top10 <= p.low {
		p.top10 = p.low + 1
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.0f" font-weight="bold">%s</text>`, panelLeft, p.top-12, title)
	for d := p.low; d <= p.top10; d++ {
		y := p.y(math.Pow(10, d))
		fmt.Fprintf(b, `<path d="M%.0f %.1fH%.0f" stroke="#8884"/><text x="%.0f" y="%.1f" text-anchor="end">%g ms</text>`,
			panelLeft, y, panelLeft+panelWidth, panelLeft-6, y+4, math.Pow(10, d))
	}
	return p
}

func (p panel) y(ms float64) float64 {
	v := math.Log10(max(ms, math.Pow(10, p.low)))
	return p.top + panelHeight*(p.top10-v)/(p.top10-p.low)
}

// line draws points whose x is a share of the width.
func (p panel) line(colour string, xs, ms []float64) {
	var path strings.Builder
	for i, x := range xs {
		fmt.Fprintf(&path, "%c%.1f %.1f", command(i), panelLeft+x*panelWidth, p.y(ms[i]))
	}
	fmt.Fprintf(p.b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, path.String(), colour)
}

// command is the path command for the i-th point.
func command(i int) byte {
	if i == 0 {
		return 'M'
	}
	return 'L'
}

func (p panel) below(x float64, text string) {
	fmt.Fprintf(p.b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`, panelLeft+x*panelWidth, p.top+panelHeight+18, text)
}

// svg draws latency over time and latency by percentile.
func (r Report) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" fill="#777">`,
		panelLeft+panelWidth+36, panelTop+2*panelPitch)
	var xs, p50, p95, p99 []float64
	begin, end := 0.0, 1.0
	if n := len(r.Curve); n > 1 {
		begin, end = r.Curve[0].Seconds, r.Curve[n-1].Seconds
	}
	for _, p := range r.Curve {
		xs, p50, p95, p99 = append(xs, (p.Seconds-begin)/(end-begin)), append(p50, p.P50), append(p95, p.P95), append(p99, p.P99)
	}
	over := newPanel(&b, 0, r.say("延迟随时间", "latency over time"), append(append([]float64{}, p50...), p99...))
	for i, l := range []struct {
		name, colour string
		ms           []float64
	}{{"p50", "#2a9d8f", p50}, {"p95", "#e9a23b", p95}, {"p99", "#c2410c", p99}} {
		over.line(l.colour, xs, l.ms)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" fill="%s">%s</text>`, panelLeft+panelWidth-120+40*float64(i), panelTop-12, l.colour, l.name)
	}
	over.below(0, fmt.Sprintf("%.1f s", begin))
	over.below(1, fmt.Sprintf("%.1f s", end))

	by := newPanel(&b, 1, r.say("延迟按百分位", "latency by percentile"), r.percentile)
	xs = nil
	widest := -math.Log10(1 - percentiles[len(percentiles)-1])
	for i, q := range percentiles[:len(r.percentile)] {
		x := -math.Log10(1-q) / widest
		xs = append(xs, x)
		if i == 0 || q == .5 || q == .9 || q == .99 || q == .999 || q == .9999 {
			by.below(x, fmt.Sprintf("%g %%", math.Round(q*1e6)/1e4))
		}
	}
	by.line("#c2410c", xs, r.percentile)
	b.WriteString("</svg>\n")
	return b.String()
}

var page = template.Must(template.New("report").Parse(`<!doctype html>
<html lang="{{.Lang}}"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>tandian bench {{.Mode}}</title>
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}pre{overflow-x:auto}svg{width:100%;height:auto}</style>
</head><body><h1>tandian bench {{.Mode}}</h1><pre>{{.Text}}</pre>{{.Plot}}
<script type="application/json" id="report">{{.Report}}</script></body></html>
`))

// html is the report as one page that needs nothing else.
func (r Report) html() ([]byte, error) {
	var b bytes.Buffer
	err := page.Execute(&b, struct {
		Lang, Mode, Text string
		Plot             template.HTML
		Report           Report
	}{r.lang, r.Mode, r.Text(), template.HTML(r.svg()), r}) // #nosec: the drawing is ours and holds numbers only
	return b.Bytes(), err
}
