package bench

import (
	"bytes"
	"context"
	"net/http"
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

// Read asks for the page of one hot shop, half the shop itself and half its vouchers, for Options.Duration in all.
// Errors are as those of Grab.
func Read(ctx context.Context, o Options) (Report, error) {
	return conduct(ctx, "read", o, func(ctx context.Context, r *run) (Report, error) {
		readSlice := 2 * r.opts.TimeSlice
		var reads, times work
		f := &ReadFigures{}
		begun := time.Now()
		for ctx.Err() == nil && (reads.requests == 0 || time.Since(begun)+r.opts.TimeSlice+readSlice <= r.opts.Duration) {
			times.add(r.timeRequests(ctx))
			reads.add(r.readSlice(ctx, readSlice, &f.Errors))
		}
		r.stopMeter()
		f.Requests, f.RPS, f.TimeRPS = reads.requests, reads.rps(), times.rps()
		f.CPUMicrosPerRead, f.CPUMicrosPerTime = reads.cpuPer(reads.requests), times.cpuPer(times.requests)
		f.RatioToTime, f.CPURatio = ratio(f.RPS, f.TimeRPS), ratio(f.CPUMicrosPerRead, f.CPUMicrosPerTime)
		report := r.newReport()
		report.Read = f
		return report, ctx.Err()
	})
}

// readSlice reads as fast as the connections go, or at the rate asked for, and counts wrong answers in failed.
func (r *run) readSlice(ctx context.Context, d time.Duration, failed *int64) work {
	r.meter.enter("GET shops/{id}", 0)
	shop := "/api/v1/shops/" + r.shop
	pages := [2]struct{ path, mark string }{{shop, `"id":"` + r.shop + `"`}, {shop + "/vouchers", `"items":`}}
	read := func(c *conn, i int, from time.Time) {
		page := pages[i%2]
		resp, err := c.send(http.MethodGet, page.path, "", "")
		r.meter.latency.record(time.Since(from))
		r.meter.reads.Add(1)
		if err != nil || resp.status != http.StatusOK || !bytes.Contains(resp.body, []byte(page.mark)) {
			atomic.AddInt64(failed, 1)
		}
	}
	return r.measure(func() int64 {
		if r.opts.Rate == 0 {
			return r.clients.loop(ctx, d, func(c *conn, i int) { read(c, i, time.Now()) })
		}
		n := int(r.opts.Rate * d.Seconds())
		r.clients.pace(ctx, n, evenly(r.opts.Rate), read)
		return int64(n)
	})
}
