package bench

import (
	"context"
	"errors"
	"time"
)

// StartFigures are the results of bench start.
type StartFigures struct {
	// StartMs is the time from exec to the ready file: on an empty folder, and on the folder that left.
	StartMs struct {
		First  float64 `json:"first"`
		Second float64 `json:"second"`
	} `json:"startMs"`
	// RSSMB is the memory of a server that has started and not been asked anything, without and with the demo town; nil
	// where it can't be told.
	RSSMB struct {
		Serve *float64 `json:"serve"`
		Demo  *float64 `json:"demo"`
	} `json:"rssMb"`
}

// settle is how long a server that has just started is left alone before its memory is read.
const settle = time.Second

// Start measures how long the server takes to start and how much memory it then holds. It needs Options.Self.
func Start(ctx context.Context, o Options) (Report, error) {
	if o.URL != "" {
		return Report{}, &UsageError{errors.New("start starts a server of its own: use --self")}
	}
	return conduct(ctx, "start", o, func(ctx context.Context, r *run) (Report, error) {
		r.meter.enter("start", 0)
		f := &StartFigures{}
		demo := r.servers[0]
		f.StartMs.First = ms(demo.startTime())
		demo.stop()
		if err := demo.start(ctx); err != nil {
			return Report{}, err
		}
		f.StartMs.Second = ms(demo.startTime())
		if err := sleep(ctx, settle); err != nil {
			return Report{}, err
		}
		f.RSSMB.Demo = residentMB(demo.pid())
		demo.stop()

		bare, err := newServer(r.opts, demo.env, demo.onCrash)
		if err != nil {
			return Report{}, err
		}
		defer bare.remove()
		if err := bare.start(ctx, "--demo=false"); err != nil {
			return Report{}, err
		}
		if err := sleep(ctx, settle); err != nil {
			return Report{}, err
		}
		f.RSSMB.Serve = residentMB(bare.pid())
		r.stopMeter()
		report := r.newReport()
		report.Start = f
		return report, nil
	})
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
