package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// instance is the program as a child process, which may die and come back at the same address and on the same folder.
type instance struct {
	name string // app1, app2
	path string
	dir  string
	args []string
	env  []string

	mu    sync.Mutex
	life  *life    // guarded by mu
	base  string   // guarded by mu: its URL, the same in all lives
	falls []string // guarded by mu: ends that nobody asked for
}

// life is one process.
type life struct {
	*os.Process
	wanted bool // guarded by the instance's mu: its end isn't asked for
	ended  chan struct{}
	err    error // how it ended; read after ended
}

const (
	startWithin = 90 * time.Second // a store that it needs may be away
	drainWithin = 15 * time.Second // the product's own promise (B9)
)

// launch starts a process. It doesn't wait until it serves.
func (a *instance) launch() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := os.MkdirAll(a.dir, 0o750); err != nil {
		return err
	}
	if err := os.Remove(a.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	addr := "127.0.0.1:0"
	if u, err := url.Parse(a.base); err == nil && u.Host != "" {
		addr = u.Host
	}
	args := []string{"serve", "--data-dir", a.dir, "--addr", addr, "--admin-addr", "127.0.0.1:0", "--ready-file", a.readyFile(), "--demo"}
	cmd := exec.Command(a.path, append(args, a.args...)...)
	log, err := os.OpenFile(a.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr, cmd.Env = log, log, append(bareEnv(), a.env...)
	if err := cmd.Start(); err != nil {
		return err
	}
	l := &life{Process: cmd.Process, wanted: true, ended: make(chan struct{})}
	a.life = l
	go func() {
		defer close(l.ended)
		l.err = cmd.Wait()
		a.mu.Lock()
		defer a.mu.Unlock()
		if l.wanted {
			a.falls = append(a.falls, fmt.Sprintf("%s ended by itself: %v", a.name, l.err))
		}
	}()
	return nil
}

func (a *instance) readyFile() string { return filepath.Join(a.dir, "ready.json") }
func (a *instance) logFile() string   { return filepath.Join(a.dir, "server.log") }

// serves waits until the last launch serves.
func (a *instance) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	for {
		var ready struct{ URL string }
		b, err := os.ReadFile(a.readyFile())
		if err == nil && json.Unmarshal(b, &ready) == nil && ready.URL != "" {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.base = ready.URL
			return nil
		}
		select {
		case <-a.current().ended:
			return fmt.Errorf("%s ended while it started: %w\n%s", a.name, a.current().err, a.tail())
		default:
		}
		if wait(ctx, 10*time.Millisecond) != nil {
			return fmt.Errorf("%s does not serve after %v\n%s", a.name, startWithin, a.tail())
		}
	}
}

func (a *instance) current() *life {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.life
}

// url is where it serves, or did.
func (a *instance) url() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.base
}

// unwanted says that the end of the current life is asked for, and returns it.
func (a *instance) unwanted() *life {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.life.wanted = false
	return a.life
}

// kill is SIGKILL: nothing is flushed, nothing is said.
func (a *instance) kill() error {
	l := a.unwanted()
	if err := l.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-l.ended
	return nil
}

// terminate asks it to drain and end. One that doesn't is a fall.
func (a *instance) terminate() error {
	l := a.unwanted()
	if err := l.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-l.ended:
		return nil
	case <-time.After(drainWithin + 5*time.Second):
	}
	a.mu.Lock()
	a.falls = append(a.falls, fmt.Sprintf("%s has not drained in %v", a.name, drainWithin))
	a.mu.Unlock()
	return a.kill()
}

func (a *instance) signal(s syscall.Signal) error { return a.current().Signal(s) }

// troubles are the ends that nobody asked for and the panics since the last call.
func (a *instance) troubles() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.falls
	a.falls = nil
	if log, err := os.ReadFile(a.logFile()); err == nil {
		if i := bytes.Index(log, []byte("panic")); i >= 0 {
			found = append(found, fmt.Sprintf("%s panicked, see %s:\n%s", a.name, a.logFile(), log[max(0, i-500):min(len(log), i+4<<10)]))
		}
	}
	return found
}

// tail is the end of its log.
func (a *instance) tail() string {
	b, err := os.ReadFile(a.logFile())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-4<<10):])
}

// bareEnv is the environment without settings of the product: all that is wanted is said by flags.
func bareEnv() (env []string) {
	for _, s := range os.Environ() {
		if !strings.HasPrefix(s, "TANDIAN_") {
			env = append(env, s)
		}
	}
	return env
}
