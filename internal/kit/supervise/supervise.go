// Package supervise exists because every goroutine needs an owner who waits for it. A Group runs named workers,
// recovers their panics, restarts them with back-off, and stops them one after the other in the reverse order of
// their start.
package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Worker runs until its context ends and then returns. An error, a panic or an early nil means it is started again.
type Worker struct {
	Name string
	Run  func(ctx context.Context) error
}

// Group owns running workers. Use New; Start and Stop may be called from one goroutine at a time.
type Group struct {
	log       *slog.Logger
	onRestart func(worker string)

	mu      sync.Mutex
	running []*member // guarded by mu
}

type member struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
}

const (
	firstPause = 100 * time.Millisecond
	longPause  = 10 * time.Second
)

// New returns an empty group. onRestart counts restarts and may be nil.
func New(log *slog.Logger, onRestart func(worker string)) *Group {
	if onRestart == nil {
		onRestart = func(string) {}
	}
	return &Group{log: log, onRestart: onRestart}
}

// Start runs the workers until Stop. They don't end with the caller's context: shutting down is staged by Stop.
func (g *Group) Start(ctx context.Context, workers ...Worker) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range workers {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		m := &member{name: w.Name, cancel: cancel, done: make(chan struct{})}
		g.running = append(g.running, m)
		go func() {
			defer close(m.done)
			g.keep(ctx, w)
		}()
	}
}

func (g *Group) keep(ctx context.Context, w Worker) {
	pause := firstPause
	for {
		began := time.Now()
		err := once(ctx, w)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > longPause {
			pause = firstPause
		}
		g.onRestart(w.Name)
		g.log.Error("worker ended, starting it again", "worker", w.Name, "err", err, "pause", pause)
		if !Sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, longPause)
	}
}

func once(ctx context.Context, w Worker) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return w.Run(ctx)
}

// Stop ends the workers in the reverse order of their start, each waited for before the next is told, until ctx
// ends; then the rest is told at once and an error names who hung. Stopping twice is harmless.
func (g *Group) Stop(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var hung []string
	for i := len(g.running) - 1; i >= 0; i-- {
		m := g.running[i]
		m.cancel()
		select {
		case <-m.done:
			continue
		case <-ctx.Done():
		}
		select {
		case <-m.done:
		default:
			hung = append(hung, m.name)
		}
	}
	g.running = nil
	if hung != nil {
		return fmt.Errorf("workers still running: %v", hung)
	}
	return nil
}

// Sleep waits for d and reports true, or false as soon as ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Every runs fn at once and then whenever wake is signalled or the interval has passed, until ctx ends. An error of
// fn is given to onError and does not end it. wake may be nil.
func Every(ctx context.Context, interval time.Duration, wake <-chan struct{}, fn func(context.Context) error, onError func(error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			onError(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-tick.C:
		}
	}
}
