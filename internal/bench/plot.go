package bench

import (
	"bytes"
	"fmt"
	"html/template"
	"math"
	"strings"
)

// Size of the plot and the room around it, in SVG units.
const (
	plotWidth  = 640.0
	plotHeight = 220.0
	plotLeft   = 64.0
	plotTop    = 36.0
)

// svg draws latency over time, on a logarithmic axis.
func (r Report) svg() string {
	begin, end := 0.0, 1.0
	if n := len(r.Curve); n > 1 {
		begin, end = r.Curve[0].Seconds, r.Curve[n-1].Seconds
	}
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range r.Curve {
		low, high = min(low, max(p.P50, .001)), max(high, p.P99)
	}
	if low > high {
		low, high = 1, 10
	}
	bottom, top := math.Floor(math.Log10(low)), math.Floor(math.Log10(high))+1 // decades of the axis
	x := func(seconds float64) float64 { return plotLeft + plotWidth*(seconds-begin)/(end-begin) }
	y := func(ms float64) float64 {
		return plotTop + plotHeight*(top-math.Log10(max(ms, math.Pow(10, bottom))))/(top-bottom)
	}

	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" fill="#777">`,
		plotLeft+plotWidth+36, plotTop+plotHeight+36)
	fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" font-weight="bold">%s</text>`, plotLeft, plotTop-12, r.say("延迟随时间", "latency over time"))
	for d := bottom; d <= top; d++ {
		at := math.Pow(10, d)
		fmt.Fprintf(&b, `<path d="M%.0f %.1fh%.0f" stroke="#8884"/><text x="%.0f" y="%.1f" text-anchor="end">%g ms</text>`,
			plotLeft, y(at), plotWidth, plotLeft-6, y(at)+4, at)
	}
	for _, at := range []float64{begin, end} {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%.1f s</text>`, x(at), plotTop+plotHeight+18, at)
	}
	for i, l := range []struct {
		name, colour string
		of           func(Point) float64
	}{
		{"p50", "#2a9d8f", func(p Point) float64 { return p.P50 }},
		{"p95", "#e9a23b", func(p Point) float64 { return p.P95 }},
		{"p99", "#c2410c", func(p Point) float64 { return p.P99 }},
	} {
		var points strings.Builder
		for _, p := range r.Curve {
			fmt.Fprintf(&points, "%.1f,%.1f ", x(p.Seconds), y(l.of(p)))
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, points.String(), l.colour)
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" fill="%s">%s</text>`, plotLeft+plotWidth-120+40*float64(i), plotTop-12, l.colour, l.name)
	}
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
