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
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	maxRestarts  = 10
	startTimeout = 60 * time.Second
	stopTimeout  = 20 * time.Second
)

// server is a child process serving from a temporary folder. Should it die it
// is started again on the same folder and address, at most maxRestarts times:
// what a crash loses must show in the judgement, not in a failed run.
type server struct {
	opts Options
	dir  string
	log  *os.File

	mu       sync.Mutex
	args     []string      // guarded by mu: arguments of this start
	process  *os.Process   // guarded by mu
	url      string        // guarded by mu
	restarts int           // guarded by mu
	kills    int           // guarded by mu: restarts that kill asked for
	crash    string        // guarded by mu: end of the log when the process last ended unasked
	stopping bool          // guarded by mu
	watched  chan struct{} // closed when no process is left and none will be started
}

// newServer makes the folder; start starts the process.
func newServer(o Options) (*server, error) {
	dir, err := os.MkdirTemp("", "tandian-bench-")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &server{opts: o, dir: dir, log: log}, nil
}

// start runs the server with extra flags and returns once it serves. It may be
// called again after stop, and then finds the data left by the earlier process.
func (s *server) start(ctx context.Context, extra ...string) error {
	args := []string{
		"serve", "--demo", "--data-dir", s.dir,
		"--limit-global", strconv.Itoa(s.opts.LimitGlobal), "--limit-ip", strconv.Itoa(s.opts.LimitIP), "--limit-user", strconv.Itoa(s.opts.LimitUser),
		"--ready-file", s.readyFile(),
	}
	if s.opts.Broker != "" {
		args = append(args, "--broker", s.opts.Broker)
	}
	s.mu.Lock()
	s.args, s.stopping, s.url, s.watched = append(args, extra...), false, "", make(chan struct{})
	s.mu.Unlock()
	exited, err := s.launch(ctx)
	if err != nil {
		close(s.watched)
		return err
	}
	go s.watch(context.WithoutCancel(ctx), exited)
	return nil
}

// watch restarts a process that ends by itself. It owns watched.
func (s *server) watch(ctx context.Context, exited <-chan error) {
	defer close(s.watched)
	for {
		<-exited
		s.mu.Lock()
		again := !s.stopping && s.restarts < maxRestarts
		if again {
			s.restarts++
			if s.restarts > s.kills {
				s.crash = s.logTail()
			}
		}
		s.mu.Unlock()
		if !again {
			return
		}
		var err error
		if exited, err = s.launch(ctx); err != nil {
			return
		}
	}
}

// launch starts one process and waits until it serves. The channel returned
// delivers the process's end.
func (s *server) launch(ctx context.Context) (<-chan error, error) {
	if err := os.Remove(s.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil, errors.New("the server is being stopped")
	}
	addr := "127.0.0.1:0"
	if u, err := url.Parse(s.url); err == nil && u.Host != "" {
		addr = u.Host
	}
	cmd := exec.Command(s.opts.Exe, append(s.args, "--addr", addr, "--admin-addr", "127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), s.opts.Env...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.opts.Exe, err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	s.process = cmd.Process
	served, err := s.awaitReady(ctx, exited)
	if err != nil {
		_ = cmd.Process.Kill() // it may be gone already
		return nil, fmt.Errorf("start the server: %w\n%s", err, s.logTail())
	}
	s.url = served
	return exited, nil
}

// awaitReady polls the ready file of the process just started.
func (s *server) awaitReady(ctx context.Context, exited <-chan error) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-exited:
			return "", fmt.Errorf("it ended at once: %v", err)
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

func (s *server) readyFile() string { return filepath.Join(s.dir, "ready.json") }

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

func (s *server) restarted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restarts
}

// crashes is how often the process ended unasked, and what it last said.
func (s *server) crashes() (n int, said string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(s.restarts-s.kills, 0), s.crash
}

// kill ends the process without warning; watch starts the next.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kills++
	_ = s.process.Kill() // already dead is what was wanted
}

// stop asks the process to end, insists after stopTimeout, and waits.
func (s *server) stop() {
	s.mu.Lock()
	s.stopping = true
	process, watched := s.process, s.watched
	s.mu.Unlock()
	if process == nil {
		return
	}
	if err := process.Signal(syscall.SIGTERM); err != nil {
		_ = process.Kill()
	}
	timeout := time.NewTimer(stopTimeout)
	defer timeout.Stop()
	select {
	case <-watched:
	case <-timeout.C:
		_ = process.Kill()
		<-watched
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
	b, err := os.ReadFile(s.log.Name())
	if err != nil {
		return ""
	}
	if i := bytes.LastIndex(b, []byte("panic:")); i >= 0 {
		return string(b[i:min(len(b), i+length)])
	}
	return string(b[max(0, len(b)-length):])
}
