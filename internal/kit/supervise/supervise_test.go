package supervise

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestRestartsWithBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var restarts atomic.Int32
		g := New(quiet(), func(string) { restarts.Add(1) })
		var starts []time.Duration
		began := time.Now()
		g.Start(t.Context(), Worker{"moody", func(ctx context.Context) error {
			starts = append(starts, time.Since(began))
			switch len(starts) {
			case 1:
				panic("once")
			case 2:
				return errors.New("twice")
			}
			<-ctx.Done()
			return nil
		}})
		time.Sleep(time.Second)
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{0, firstPause, 3 * firstPause}; !slices.Equal(starts, want) || restarts.Load() != 2 {
			t.Fatalf("started at %v, want %v; %d restarts", starts, want, restarts.Load())
		}
	})
}

func TestStopsInReverseOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(quiet(), nil)
		var ended []string
		worker := func(name string) Worker {
			return Worker{name, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(time.Second) // draining
				ended = append(ended, name)
				return nil
			}}
		}
		g.Start(t.Context(), worker("writer"), worker("intake"), worker("listener"))
		if err := g.Stop(t.Context()); err != nil || !slices.Equal(ended, []string{"listener", "intake", "writer"}) {
			t.Fatal(ended, err)
		}
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal("a second Stop must be harmless", err)
		}
	})
}

func TestStopNamesWhoHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(quiet(), nil)
		release := make(chan struct{})
		g.Start(t.Context(), Worker{"deaf", func(context.Context) error { <-release; return nil }})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Stop(ctx); err == nil {
			t.Fatal("want an error that names the worker")
		}
		close(release)
	})
}

func TestEveryRunsOnTickAndWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake, done := make(chan struct{}), make(chan struct{})
		var runs, failures atomic.Int32
		go func() {
			defer close(done)
			_ = Every(ctx, time.Second, wake, func(context.Context) error { runs.Add(1); return errors.New("no") }, func(error) { failures.Add(1) })
		}()
		synctest.Wait()
		wake <- struct{}{}
		time.Sleep(2500 * time.Millisecond)
		cancel()
		<-done
		if runs.Load() != 4 || failures.Load() != 4 {
			t.Fatalf("%d runs, %d failures; want 4 and 4 (start, wake, two ticks)", runs.Load(), failures.Load())
		}
	})
}
