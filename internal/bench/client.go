package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxBody        = 1 << 20
	maxHeaders     = 200
	requestTimeout = 15 * time.Second
	// A connection that rested longer is replaced rather than reused: the server may be about to close it, and a request
	// lost that way would look like an error.
	idleReuse = 5 * time.Second
)

// target is where requests go.
type target struct {
	addr string // host:port to dial
	host string // Host header
	base string // path before /api/v1, without a slash at its end
	tls  *tls.Config
}

func newTarget(rawURL string) (target, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return target{}, fmt.Errorf("server address: %w", err)
	}
	t := target{addr: u.Host, host: u.Host, base: strings.TrimSuffix(u.Path, "/")}
	port := "80"
	if u.Scheme == "https" {
		port, t.tls = "443", &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	if u.Port() == "" {
		t.addr = net.JoinHostPort(u.Hostname(), port)
	}
	return t, nil
}

// conn is one keep-alive connection: one request at a time, answers of at most maxBody bytes, no redirects, no retries.
// It costs half of net/http's client, which matters as it shares the machine with the server it loads. Not safe for
// concurrent use.
type conn struct {
	target target
	nc     net.Conn // nil until needed and after an error
	br     *bufio.Reader
	out    []byte // the request being built, reused
	body   []byte // the last answer's body, reused
	used   time.Time
}

// response is an answer. Body is valid until the next request on the connection.
type response struct {
	status int
	date   time.Time // the server's Date header; zero when absent
	body   []byte
}

// send asks method path (below the target's base) without a body and reads the answer. Token and key may be empty.
// After an error the outcome at the server is unknown.
func (c *conn) send(method, path, token, key string) (response, error) {
	return c.sendBody(method, path, token, key, nil)
}

// sendBody is send with a JSON body.
func (c *conn) sendBody(method, path, token, key string, body []byte) (response, error) {
	b := append(c.out[:0], method...)
	b = append(append(append(b, ' '), c.target.base...), path...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), c.target.host...)
	if token != "" {
		b = append(append(b, "\r\nAuthorization: "...), token...)
	}
	if key != "" {
		b = append(append(b, "\r\nIdempotency-Key: "...), key...)
	}
	if body != nil {
		b = append(b, "\r\nContent-Type: application/json"...)
	}
	if method != http.MethodGet {
		b = strconv.AppendInt(append(b, "\r\nContent-Length: "...), int64(len(body)), 10)
	}
	c.out = append(append(b, "\r\n\r\n"...), body...)
	resp, keep, err := c.exchange(c.out)
	if err != nil || !keep {
		c.close()
	}
	return resp, err
}

func (c *conn) exchange(request []byte) (resp response, keep bool, err error) {
	now := time.Now()
	if c.nc != nil && now.Sub(c.used) > idleReuse {
		c.close()
	}
	if c.nc == nil {
		if err := c.dial(); err != nil {
			return resp, false, err
		}
	}
	if err := c.nc.SetDeadline(now.Add(requestTimeout)); err != nil {
		return resp, false, err
	}
	if _, err := c.nc.Write(request); err != nil {
		return resp, false, err
	}
	resp, keep, err = readResponse(c.br, c.body[:0])
	c.body, c.used = resp.body, now
	return resp, keep, err
}

func (c *conn) dial() error {
	nc, err := net.DialTimeout("tcp", c.target.addr, 3*time.Second)
	if err != nil {
		return err
	}
	if c.target.tls != nil {
		nc = tls.Client(nc, c.target.tls)
	}
	c.nc, c.br = nc, bufio.NewReader(nc)
	return nil
}

func (c *conn) close() {
	if c.nc != nil {
		_ = c.nc.Close() // nothing is pending on it
		c.nc = nil
	}
}

var errMalformed = errors.New("malformed HTTP response")

// readResponse reads one final answer (1xx ones are skipped) to a request that was not HEAD, and appends its body to
// buf. keep tells whether the connection may carry another request.
func readResponse(br *bufio.Reader, buf []byte) (resp response, keep bool, err error) {
	resp.body = buf
	answer := &http.Response{StatusCode: http.StatusContinue}
	for answer.StatusCode/100 == 1 {
		if answer, err = http.ReadResponse(br, nil); err != nil {
			return resp, false, err
		}
	}
	headers := 0
	for _, values := range answer.Header {
		headers += len(values)
	}
	body := bytes.NewBuffer(buf)
	if _, err = body.ReadFrom(io.LimitReader(answer.Body, maxBody+1)); err != nil {
		return resp, false, err
	}
	if answer.StatusCode < 100 || headers > maxHeaders || body.Len() > maxBody {
		return resp, false, errMalformed
	}
	date, _ := time.Parse(http.TimeFormat, answer.Header.Get("Date")) // a bad date is no date
	return response{answer.StatusCode, date, body.Bytes()}, !answer.Close, nil
}

// clients is the fixed set of connections of a run.
type clients []*conn

// newClients makes n connections, to each target in turn.
func newClients(n int, targets ...target) clients {
	cs := make(clients, n)
	for i := range cs {
		cs[i] = &conn{target: targets[i%len(targets)]}
	}
	return cs
}

// each runs fn for 0…n-1 in order of index, as many at a time as there are connections, and returns when all have
// ended. A cancelled ctx starts no more.
func (cs clients) each(ctx context.Context, n int, fn func(c *conn, i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for _, c := range cs[:min(n, len(cs))] {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				fn(c, i)
			}
		})
	}
	wg.Wait()
}

// loop runs fn for 0, 1, 2, … likewise until d is over, and returns how often.
func (cs clients) loop(ctx context.Context, d time.Duration, fn func(c *conn, i int)) int64 {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var n atomic.Int64
	cs.each(ctx, math.MaxInt, func(c *conn, i int) {
		fn(c, i)
		n.Add(1)
	})
	return n.Load()
}

// pace is an open loop: fn runs for 0…n-1, the i-th when it is due, the time due(i) after now, or as soon after as a
// connection is free. fn is told when it was due. Whoever measures from then on counts what a slow answer does to those
// behind it.
func (cs clients) pace(ctx context.Context, n int, due func(i int) time.Duration, fn func(c *conn, i int, due time.Time)) {
	start := time.Now()
	cs.each(ctx, n, func(c *conn, i int) {
		at := start.Add(due(i))
		if sleep(ctx, time.Until(at)) == nil {
			fn(c, i, at)
		}
	})
}

// evenly is a due of pace: rate a second.
func evenly(rate float64) func(int) time.Duration {
	return func(i int) time.Duration { return time.Duration(float64(i) / rate * float64(time.Second)) }
}

func (cs clients) close() {
	for _, c := range cs {
		c.close()
	}
}
