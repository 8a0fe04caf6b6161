package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"tandian/internal/kit/queue/rabbit"
)

const amqpDialTimeout = 2 * time.Second

// RabbitMQ examines a RabbitMQ server: whether it lets us in, whether we may do there what the topology asks for, and
// whether it confirms a message.
func RabbitMQ(url string, topology rabbit.Topology) Examination {
	return func(ctx context.Context, r *Report) {
		uri, err := amqp.ParseURI(url)
		if err != nil {
			r.fail("rabbitmq", "--rabbitmq-url can't be read", "write amqp://user:password@host:port/vhost") // the cause shows the password
			return
		}
		e := &rabbitExamination{Report: r, uri: uri, topology: topology}
		conn, stop, err := dialAMQP(ctx, url)
		if err != nil {
			r.add(e.unreachable(err))
			return
		}
		defer stop()
		e.conn = conn
		for _, step := range []func(context.Context) error{e.server, e.queues, e.permissions} {
			if err := step(ctx); err != nil {
				r.add(e.unreachable(err))
				return
			}
		}
	}
}

// dialAMQP connects; when ctx ends the socket is closed, because the library would wait for ever.
func dialAMQP(ctx context.Context, url string) (conn *amqp.Connection, stop func(), err error) {
	unwatch := func() bool { return true }
	config := amqp.Config{Heartbeat: 5 * time.Second, Properties: amqp.NewConnectionProperties(), Dial: func(network, addr string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: amqpDialTimeout}
		socket, err := dialer.DialContext(ctx, network, addr)
		if err == nil {
			unwatch = context.AfterFunc(ctx, func() { _ = socket.Close() })
		}
		return socket, err
	}}
	config.Properties.SetClientConnectionName("tandian doctor")
	conn, err = amqp.DialConfig(url, config)
	if err != nil {
		unwatch()
		return nil, nil, errors.Join(ctx.Err(), err)
	}
	return conn, func() { _ = conn.CloseDeadline(time.Now().Add(time.Second)); unwatch() }, nil
}

type rabbitExamination struct {
	*Report
	uri      amqp.URI
	topology rabbit.Topology
	conn     *amqp.Connection
}

// unreachable explains why RabbitMQ gave no answer.
func (e *rabbitExamination) unreachable(err error) Finding {
	f := Finding{Check: "rabbitmq", Status: Failed}
	at := fmt.Sprintf("RabbitMQ at %s", net.JoinHostPort(e.uri.Host, fmt.Sprint(e.uri.Port)))
	var refusal *amqp.Error
	switch {
	case errors.Is(err, amqp.ErrCredentials), errors.Is(err, amqp.ErrSASL):
		f.Found, f.Remedy = at+" refuses user "+e.uri.Username+" with this password", "correct --rabbitmq-url, or rabbitmqctl change_password; guest may come from the server's own machine only"
	case errors.As(err, &refusal) && refusal.Code == amqp.NotAllowed: // it isn't there, or not for this user
		f.Found = fmt.Sprintf("%s has no vhost %q for user %s", at, e.uri.Vhost, e.uri.Username)
		f.Remedy = fmt.Sprintf("rabbitmqctl add_vhost '%s'; %s", e.uri.Vhost, e.grant())
	case errors.As(err, &refusal) && refusal.Code == amqp.AccessRefused:
		f.Check, f.Found, f.Remedy = "rabbitmq permissions", refusal.Reason, e.grant()
	default:
		f.Passing = true
		f.Found, f.Remedy = at+" gives no answer: "+cause(err), "start the server, or correct host and port in --rabbitmq-url"
	}
	return f
}

func (e *rabbitExamination) grant() string {
	return fmt.Sprintf("rabbitmqctl set_permissions -p '%s' '%s' '.*' '.*' '.*'", e.uri.Vhost, e.uri.Username)
}

func (e *rabbitExamination) server(context.Context) error {
	product, version := fmt.Sprint(e.conn.Properties["product"]), fmt.Sprint(e.conn.Properties["version"])
	found := fmt.Sprintf("%s %s at %s, vhost %s, user %s", product, version, net.JoinHostPort(e.uri.Host, fmt.Sprint(e.uri.Port)), e.uri.Vhost, e.uri.Username)
	if product == "RabbitMQ" && !atLeast(version, 3, 10) {
		e.fail("rabbitmq", found+": too old", "upgrade to RabbitMQ 3.10 or newer")
	} else {
		e.ok("rabbitmq", "%s", found)
	}
	return nil
}

// permissions sends a message through an exchange and a queue of its own, which go away with the connection. Their
// names begin like ours, in case that only such names are allowed.
func (e *rabbitExamination) permissions(ctx context.Context) error {
	blocked := e.conn.NotifyBlocked(make(chan amqp.Blocking, 2))
	ch, err := e.conn.Channel()
	if err != nil {
		return err
	}
	// The channel ends with the connection: a server with an alarm would not even read that it is closed.
	scratch := ".doctor." + rand.Text()
	exchange, queue := e.topology.DeadExchange+scratch, e.topology.DeadQueue+scratch
	err = errors.Join(
		ch.ExchangeDeclare(exchange, amqp.ExchangeDirect, false, true, false, false, nil),
		second(ch.QueueDeclare(queue, false, true, true, false, nil)),
		ch.QueueBind(queue, queue, exchange, false, nil),
		ch.Confirm(false))
	if err != nil {
		return err
	}
	lost := ch.NotifyClose(make(chan *amqp.Error, 1))
	for _, by := range []string{exchange, ""} {
		confirm, err := ch.PublishWithDeferredConfirmWithContext(ctx, by, queue, true, false, amqp.Publishing{})
		if err != nil {
			return err
		}
		select {
		case <-confirm.Done():
		case alarm := <-blocked:
			e.warn("rabbitmq alarm", "the server takes no messages: "+alarm.Reason+"; nothing can be bought meanwhile", "free memory or disk on its machine, or move its watermark")
			return nil
		case err := <-lost:
			return closedBecause(err)
		case <-ctx.Done():
			return ctx.Err()
		}
		if _, _, err := ch.Get(queue, true); err != nil {
			return err
		}
	}
	e.ok("rabbitmq permissions", "configure, write and read; messages are confirmed")
	return nil
}

func second[T any](_ T, err error) error { return err }

func closedBecause(err *amqp.Error) error {
	if err == nil { // *amqp.Error in an error would not be nil
		return amqp.ErrClosed
	}
	return err
}

// queues looks which of our queues are there. Whoever serves makes those that aren't.
func (e *rabbitExamination) queues(context.Context) error {
	names := []string{e.topology.DeadQueue}
	for _, route := range e.topology.Routes {
		names = append(names, route.Queue)
	}
	var there, waiting int
	for _, name := range names {
		ch, err := e.conn.Channel() // a queue that isn't there costs the channel
		if err != nil {
			return err
		}
		q, err := ch.QueueDeclarePassive(name, true, false, false, false, nil)
		var refusal *amqp.Error
		switch {
		case err == nil:
			there++
			waiting += q.Messages
			_ = ch.Close()
		case errors.As(err, &refusal) && refusal.Code == amqp.NotFound:
		default:
			return err
		}
	}
	e.ok("rabbitmq queues", "%d of %d are there, with %d messages; serve makes the others", there, len(names), waiting)
	return nil
}
