package bench

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// server is a child process with a temporary folder. It can be stopped or killed and started again on the same folder
// and address.
type server struct {
	opts    Options
	env     []string // besides what is inherited
	dir     string
	log     *os.File
	onCrash func(error) // called when a process ends unasked

	mu      sync.Mutex    // held while a process starts or stops
	flags   []string      // guarded by mu: of this start
	process *process      // guarded by mu: the last one started
	url     string        // guarded by mu
	kills   int           // guarded by mu
	took    time.Duration // guarded by mu: from exec to the ready file, at the last start
}

// process is one life of the server.
type process struct {
	*os.Process
	serving atomic.Bool   // to end now would be a crash
	ended   chan struct{} // closed when the process is gone
}

// newServer makes the folder; start starts a process.
func newServer(o Options, env []string, onCrash func(error)) (*server, error) {
	dir, err := os.MkdirTemp("", "tandian-bench-")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &server{opts: o, env: env, dir: dir, log: log, onCrash: onCrash}, nil
}

// start runs the server with extra flags and returns once it serves. It may be called again after stop, and then finds
// the data left by the earlier process.
func (s *server) start(ctx context.Context, flags ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flags = flags
	return s.launch(ctx)
}

// launch starts one process and waits until it serves. The caller holds mu.
func (s *server) launch(ctx context.Context) error {
	if err := os.Remove(s.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	cmd := exec.Command(s.opts.Exe, s.arguments()...)
	cmd.Env = slices.Concat(os.Environ(), s.opts.Env, s.env)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	begun := time.Now()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.opts.Exe, err)
	}
	p := &process{Process: cmd.Process, ended: make(chan struct{})}
	s.process = p
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // how it ended is in its log
		if p.serving.Load() {
			s.onCrash(&ViolationError{Broken: []string{"the server ended by itself, last saying: " + s.logTail()}})
		}
	}()
	served, err := s.awaitReady(ctx, p)
	if err != nil {
		_ = p.Kill() // it may be gone already
		<-p.ended
		if log := s.logTail(); strings.Contains(log, "unknown flag --broker") {
			return &UsageError{fmt.Errorf("this server has no choice of queues: --broker %s is not supported", s.opts.Broker)}
		}
		return fmt.Errorf("start the server: %w\n%s", err, s.logTail())
	}
	s.url, s.took = served, time.Since(begun)
	p.serving.Store(true)
	return nil
}

func (s *server) arguments() []string {
	addr := "127.0.0.1:0"
	if u, err := url.Parse(s.url); err == nil && u.Host != "" {
		addr = u.Host
	}
	args := []string{
		"serve", "--data-dir", s.dir, "--addr", addr, "--admin-addr", "127.0.0.1:0", "--ready-file", s.readyFile(),
		"--limit-global", strconv.Itoa(s.opts.LimitGlobal), "--limit-ip", strconv.Itoa(s.opts.LimitIP), "--limit-user", strconv.Itoa(s.opts.LimitUser), "--demo",
	}
	if s.opts.production() { // the embedded mode has no choice
		args = append(args, "--broker", s.opts.Broker)
	}
	return append(args, s.flags...)
}

func (s *server) readyFile() string { return filepath.Join(s.dir, "ready.json") }

// awaitReady waits for the ready file of p and returns the address in it.
func (s *server) awaitReady(ctx context.Context, p *process) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.ended:
			return "", errors.New("it ended at once")
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
		var ready struct{ URL string }
		b, err := os.ReadFile(s.readyFile())
		if err == nil && json.Unmarshal(b, &ready) == nil && ready.URL != "" {
			return ready.URL, nil
		}
	}
}

// address is where the server serves; it outlives restarts.
func (s *server) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

func (s *server) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Pid
}

// restarts is how often the server was killed and started again.
func (s *server) restarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kills
}

// startTime is how long the last start took, from exec to the ready file.
func (s *server) startTime() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.took
}

// kill ends the process without warning and starts the next. That there is no next counts as a crash.
func (s *server) kill(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills++
	s.process.serving.Store(false)
	_ = s.process.Kill() // already dead is what was wanted
	<-s.process.ended
	if err := s.launch(ctx); err != nil {
		s.onCrash(err)
	}
}

// stop asks the process to end, insists after stopTimeout, and waits.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.process
	if p == nil {
		return
	}
	p.serving.Store(false)
	_ = p.Signal(syscall.SIGTERM) // where there are no signals, the timeout is next
	select {
	case <-p.ended:
	case <-time.After(stopTimeout):
		_ = p.Kill()
		<-p.ended
	}
}

// remove stops the server and deletes its folder.
func (s *server) remove() {
	s.stop()
	_ = s.log.Close()
	_ = os.RemoveAll(s.dir)
}

// logTail is the end of what the server wrote; of a panic, its beginning.
func (s *server) logTail() string {
	const length = 2000
	b, _ := os.ReadFile(s.log.Name()) // without a log there is nothing to tell
	if i := bytes.LastIndex(b, []byte("panic:")); i >= 0 {
		return string(b[i:min(len(b), i+length)])
	}
	return string(b[max(0, len(b)-length):])
}
