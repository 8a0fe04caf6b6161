package rabbit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue"
)

// maxReturns is how many returned messages may wait to be noticed. The library drops what finds no room for five
// seconds, and a dropped return would look like success.
const maxReturns = 4096

// publisher hands messages to the server and tells what became of them.
type publisher struct {
	timeout time.Duration // from the call to the confirm
	declare func(*amqp.Channel) error
	repair  func() // told that something is missing on the server

	current atomic.Pointer[channel] // nil while there is no connection
}

// channel is a confirming channel and what is under way on it.
type channel struct {
	*amqp.Channel
	intake  chan *parcel // unbuffered: what is taken is written
	gone    <-chan struct{}
	blocked atomic.Bool

	mu       sync.Mutex
	returns  chan amqp.Return  // received from under mu
	number   int64             // of the last parcel; guarded by mu
	underWay map[int64]*parcel // guarded by mu
}

// parcel is one message on its way.
type parcel struct {
	number        int64
	exchange, key string
	message       amqp.Publishing
	returned      string // why, if it was; guarded by channel.mu

	written chan struct{} // closed when the next two are set
	confirm *amqp.DeferredConfirmation
	err     error
}

// serve is the publishing link's: it writes parcels, one at a time, until the session is lost.
func (p *publisher) serve(ctx context.Context, s *session, ready func()) error {
	ch, err := s.channel(func(ch *amqp.Channel) error {
		if err := p.declare(ch); err != nil {
			return err
		}
		return ch.Confirm(false)
	})
	if err != nil {
		return err
	}
	c := &channel{Channel: ch, intake: make(chan *parcel), gone: s.gone, underWay: map[int64]*parcel{},
		returns: ch.NotifyReturn(make(chan amqp.Return, maxReturns))}
	blocked := s.NotifyBlocked(make(chan amqp.Blocking, 8))
	lost := ch.NotifyClose(make(chan *amqp.Error, 1))
	p.current.Store(c)
	defer p.current.Store(nil)
	ready()
	for {
		intake := c.intake
		if c.blocked.Load() {
			intake = nil // the server wouldn't read it before the alarm is over
		}
		select {
		case m := <-intake:
			c.write(m)
		case b := <-blocked:
			c.blocked.Store(b.Active)
		case err := <-lost:
			return lostBecause(err)
		case <-ctx.Done():
			return nil
		}
	}
}

func lostBecause(err *amqp.Error) error {
	if err == nil { // *amqp.Error in an error would not be nil
		return errDown
	}
	return err
}

func (c *channel) write(m *parcel) {
	defer close(m.written)
	m.confirm, m.err = c.PublishWithDeferredConfirm(m.exchange, m.key, true, false, m.message)
}

// up reports whether the server takes messages, as far as is known.
func (p *publisher) up() bool {
	c := p.current.Load()
	return c != nil && !c.blocked.Load()
}

func refused(why string) error { return fmt.Errorf("%w: %s", queue.ErrRefused, why) }

var errUnconfirmed = errors.New("rabbit: no confirm in time")

// send publishes and waits for the outcome. The errors are those of queue.Broker's Publish.
func (p *publisher) send(ctx context.Context, exchange, key string, message amqp.Publishing) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := p.current.Load()
	if c == nil {
		return refused("no connection")
	}
	m := c.enter(exchange, key, message)
	defer c.leave(m)
	timeout := time.NewTimer(p.timeout)
	defer timeout.Stop()
	select {
	case c.intake <- m:
	case <-c.gone:
		return refused("the connection was lost before it was written")
	case <-timeout.C:
		return refused("the server takes nothing")
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := await(ctx, m.written, timeout.C); err != nil {
		return err
	}
	if m.err != nil {
		if errors.Is(m.err, amqp.ErrClosed) { // then it was not written to its end
			return refused("the channel was closed before it was written")
		}
		return m.err
	}
	if err := await(ctx, m.confirm.Done(), timeout.C); err != nil {
		return err
	}
	why, err := c.outcome(m)
	if why != "" {
		p.repair()
	}
	return err
}

func await(ctx context.Context, done <-chan struct{}, timeout <-chan time.Time) error {
	select {
	case <-done:
		return nil
	case <-timeout:
		return errUnconfirmed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *channel) enter(exchange, key string, message amqp.Publishing) *parcel {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	m := &parcel{number: c.number, exchange: exchange, key: key, message: message, written: make(chan struct{})}
	m.message.Headers = maps.Clone(message.Headers)
	m.message.Headers[headerPublish] = m.number // a return names its parcel: ids may be under way twice
	c.underWay[m.number] = m
	return m
}

func (c *channel) leave(m *parcel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.underWay, m.number)
	c.noticeReturns()
}

// noticeReturns marks the parcels that came back. The caller holds mu.
func (c *channel) noticeReturns() {
	for {
		select {
		case r, ok := <-c.returns:
			if !ok {
				c.returns = nil
				continue
			}
			if m := c.underWay[number(r.Headers, headerPublish)]; m != nil {
				m.returned = fmt.Sprintf("returned: %d %s", r.ReplyCode, r.ReplyText)
			}
		default:
			return
		}
	}
}

// outcome tells what a confirmation that is done means; returned is why the message came back, if it did. The server
// returns a message before it confirms it, so a return of this one is in the channel by now.
func (c *channel) outcome(m *parcel) (returned string, err error) {
	c.mu.Lock()
	c.noticeReturns()
	returned = m.returned
	c.mu.Unlock()
	switch {
	case returned != "":
		return returned, refused(returned)
	case m.confirm.Acked():
		return "", nil
	case c.IsClosed(): // the library calls what was under way then nacked
		return "", fmt.Errorf("waiting for the confirm: %w", errDown)
	}
	return "", refused("nacked")
}
