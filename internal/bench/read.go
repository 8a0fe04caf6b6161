package bench

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// ReadFigures are the results of bench read.
type ReadFigures struct {
	Requests         int64    `json:"requests"`
	Errors           int64    `json:"errors"` // answers that were not the shop asked for
	RPS              *float64 `json:"rps"`
	TimeRPS          *float64 `json:"timeRps"`
	RatioToTime      *float64 `json:"ratioToTime"`
	CPURatio         *float64 `json:"cpuRatio"`
	CPUMicrosPerRead *float64 `json:"cpuMicrosPerRead"`
	CPUMicrosPerTime *float64 `json:"cpuMicrosPerTime"`
}

// Read asks for the page of one hot shop, half the shop itself and half its
// vouchers, for Options.Duration in all. Errors are as those of Grab.
func Read(ctx context.Context, o Options) (Report, error) {
	r, err := begin(ctx, "read", o)
	defer r.end()
	if err != nil {
		return Report{}, err
	}
	readSlice := 2 * r.opts.TimeSlice
	var reads, times work
	var failed atomic.Int64
	begun := time.Now()
	for ctx.Err() == nil && (reads.requests == 0 || time.Since(begun)+r.opts.TimeSlice+readSlice <= r.opts.Duration) {
		times.add(r.timeRequests(ctx))
		reads.add(r.readSlice(ctx, readSlice, &failed))
	}
	if ctx.Err() != nil {
		return Report{}, ctx.Err()
	}
	r.stopMeter()
	report := r.newReport()
	f := &ReadFigures{
		Requests: reads.requests, Errors: failed.Load(), RPS: reads.rps(), TimeRPS: times.rps(),
		CPUMicrosPerRead: reads.cpuPer(reads.requests), CPUMicrosPerTime: times.cpuPer(times.requests),
	}
	f.RatioToTime = ratio(f.RPS, f.TimeRPS)
	f.CPURatio = ratio(f.CPUMicrosPerRead, f.CPUMicrosPerTime)
	report.Read = f
	return report, report.finish(r)
}

// readSlice reads as fast as the connections go, or at the rate asked for.
func (r *run) readSlice(ctx context.Context, d time.Duration, failed *atomic.Int64) work {
	r.meter.enter("GET shops/{id}", 0)
	paths := [2]string{"/api/v1/shops/" + r.shop, "/api/v1/shops/" + r.shop + "/vouchers"}
	return r.measure(func() int64 {
		var n, next atomic.Int64
		start := time.Now()
		r.clients.loop(ctx, d, func(c *conn) {
			i := next.Add(1) - 1
			from := time.Now()
			if r.opts.Rate > 0 {
				from = start.Add(time.Duration(float64(i) / r.opts.Rate * float64(time.Second)))
				if from.Sub(start) >= d || sleep(ctx, time.Until(from)) != nil {
					_ = sleep(ctx, time.Until(start.Add(d))) // the slice is full
					return
				}
			}
			resp, err := c.send(http.MethodGet, paths[i%2], "", "")
			r.meter.latency.record(time.Since(from))
			r.meter.reads.Add(1)
			n.Add(1)
			field := [2]string{"id", "shopId"}[i%2]
			// A shop without vouchers has no shopId to compare.
			if got := jsonField(orEmpty(resp.body, err), field); err != nil || resp.status != http.StatusOK || got != r.shop && (i%2 == 0 || got != "") {
				failed.Add(1)
			}
		})
		return n.Load()
	})
}

func orEmpty(body []byte, err error) []byte {
	if err != nil {
		return nil
	}
	return body
}

func (f *ReadFigures) value(t Threshold) *float64 {
	switch t.Metric {
	case "rps":
		return f.RPS
	case "ratio":
		return f.RatioToTime
	case "cpu":
		return f.CPURatio
	case "errors":
		return t.of(f.Errors, f.Requests)
	}
	return nil
}

func (f *ReadFigures) text(b *strings.Builder, say speech) {
	fmt.Fprintf(b, "  %s %d · %s %d\n", say("请求", "requests"), f.Requests, say("出错", "errors"), f.Errors)
	fmt.Fprintf(b, "  %s %s/s · GET /time %s/s · %s %s · %s %s\n", say("速率", "rate"), figure(f.RPS, 0), figure(f.TimeRPS, 0),
		say("与 /time 之比", "ratio to /time"), figure(f.RatioToTime, 2), say("CPU 之比", "CPU ratio"), figure(f.CPURatio, 2))
}
