package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/supervise"
)

const (
	heartbeat        = 5 * time.Second // a silent server is given up after three
	dialTimeout      = 3 * time.Second
	handshakeTimeout = 10 * time.Second // a server takes three to say that a password is wrong
	writeTimeout     = 5 * time.Second
	closeTimeout     = 3 * time.Second
	answerTimeout    = 15 * time.Second // to a request; quorum queues take their time to be declared
	firstPause       = 100 * time.Millisecond
	longPause        = 5 * time.Second
)

var (
	errClosed = errors.New("rabbit: the broker is closed")
	errDown   = errors.New("rabbit: no connection")
)

// session is one connection to the server, from dialling to its loss.
type session struct {
	*amqp.Connection
	socket net.Conn
	lost   chan *amqp.Error // gets at most one and is then closed
	gone   chan struct{}    // closed when nobody serves the session any more
	asks   chan func()      // requests that the server of the session carries out
}

// within runs requests, and cuts the connection if they are not answered in time: the library waits for ever.
func (s *session) within(d time.Duration, requests func() error) error {
	defer time.AfterFunc(d, func() { _ = s.socket.Close() }).Stop()
	return requests()
}

// channel opens a channel and prepares it.
func (s *session) channel(prepare func(*amqp.Channel) error) (ch *amqp.Channel, err error) {
	err = s.within(answerTimeout, func() error {
		if ch, err = s.Channel(); err != nil {
			return fmt.Errorf("open channel: %w", err)
		}
		if err := prepare(ch); err != nil {
			return errors.Join(err, ignoreClosed(ch.Close()))
		}
		return nil
	})
	return ch, err
}

func ignoreClosed(err error) error {
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
}

// server is the name and version of the other side.
func (s *session) server() string {
	return fmt.Sprint(s.Properties["product"], " ", s.Properties["version"])
}

// link keeps one connection to the server.
type link struct {
	name string
	url  string
	log  *slog.Logger
	// serve uses a session until it is lost or useless, and says why, or until ctx ends; it calls ready when the
	// session can be used.
	serve func(ctx context.Context, s *session, ready func()) error

	mu      sync.Mutex
	current *session      // nil while down; guarded by mu
	err     error         // why it is down; guarded by mu
	changed chan struct{} // closed and replaced with each change; guarded by mu
}

func newLink(name, url string, log *slog.Logger) *link {
	return &link{name: name, url: url, log: log.With("connection", name), err: errDown, changed: make(chan struct{})}
}

// state returns the usable session, or why there is none, and a channel that is closed when that changes.
func (l *link) state() (s *session, changed <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current, l.changed, l.err
}

func (l *link) set(s *session, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.err = s, err
	close(l.changed)
	l.changed = make(chan struct{})
}

// wait returns a usable session as soon as there is one.
func (l *link) wait(ctx context.Context) (*session, error) {
	for {
		s, changed, err := l.state()
		if s != nil || errors.Is(err, errClosed) {
			return s, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

// run dials again and again until ctx ends. The log tells when the connection is lost and when it is back, not each
// attempt in between.
func (l *link) run(ctx context.Context) error {
	down := false
	for pause := firstPause; ; pause = min(2*pause, longPause) {
		err := l.once(ctx, func() { pause, down = firstPause, false })
		if ctx.Err() == nil && !down {
			l.log.WarnContext(ctx, "no connection to RabbitMQ, dialling again", "err", err)
			down = true
		}
		if !supervise.Sleep(ctx, pause) {
			l.set(nil, errClosed)
			return nil
		}
	}
}

// once serves one session.
func (l *link) once(ctx context.Context, ready func()) error {
	s, err := l.dial(ctx)
	if err != nil {
		l.set(nil, err)
		return err
	}
	err = l.serve(ctx, s, func() {
		ready()
		l.set(s, nil)
		l.log.InfoContext(ctx, "connected", "server", s.server())
	})
	l.set(nil, err)
	close(s.gone)
	_ = s.within(closeTimeout, s.Close) // it may be lost already
	return err
}

// dial opens a connection. Its errors don't show the URL, which has the password in it.
func (l *link) dial(ctx context.Context) (*session, error) {
	s := &session{gone: make(chan struct{}), asks: make(chan func())}
	stop := func() bool { return true }
	config := amqp.Config{
		Heartbeat:  heartbeat,
		Properties: amqp.NewConnectionProperties(),
		Dial: func(network, addr string) (net.Conn, error) {
			dialer := net.Dialer{Timeout: dialTimeout}
			socket, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			s.socket = socket
			stop = context.AfterFunc(ctx, func() { _ = socket.Close() })
			return timed{socket}, socket.SetDeadline(time.Now().Add(handshakeTimeout)) // the library lifts it after the handshake
		},
	}
	config.Properties.SetClientConnectionName("tandian " + l.name)
	conn, err := amqp.DialConfig(l.url, config)
	stop()
	if err != nil {
		if s.socket != nil {
			_ = s.socket.Close()
		}
		return nil, fmt.Errorf("connect to RabbitMQ: %w", err)
	}
	s.Connection = conn
	s.lost = conn.NotifyClose(make(chan *amqp.Error, 1))
	return s, nil
}

// timed bounds each write. A server that reads no more would else hold whoever writes, and the library's locks with
// them, for as long as its machine answers.
type timed struct{ net.Conn }

func (c timed) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
