package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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
	maxHeaderLines = 200
	requestTimeout = 10 * time.Second
	// A connection that rested longer is replaced rather than reused: the server
	// may be about to close it, and a request lost that way would look like an error.
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

// conn is one keep-alive connection speaking just enough HTTP/1.1 for a load
// generator: one request at a time, answers of at most maxBody bytes, no
// redirects, no retries. It costs a third of net/http's client per request.
// Not safe for concurrent use.
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

// send asks method path (below the target's base) and reads the answer. Token
// and key may be empty. After an error the outcome at the server is unknown.
func (c *conn) send(method, path, token, key string) (response, error) {
	b := append(c.out[:0], method...)
	b = append(append(append(b, ' '), c.target.base...), path...)
	b = append(append(b, " HTTP/1.1\r\nHost: "...), c.target.host...)
	if token != "" {
		b = append(append(b, "\r\nAuthorization: "...), token...)
	}
	if key != "" {
		b = append(append(b, "\r\nIdempotency-Key: "...), key...)
	}
	if method != http.MethodGet {
		b = append(b, "\r\nContent-Length: 0"...)
	}
	c.out = append(b, "\r\n\r\n"...)
	return c.do(c.out)
}

func (c *conn) do(request []byte) (response, error) {
	now := time.Now()
	if c.nc != nil && now.Sub(c.used) > idleReuse {
		c.close()
	}
	if c.nc == nil {
		if err := c.dial(); err != nil {
			return response{}, err
		}
	}
	if err := c.nc.SetDeadline(now.Add(requestTimeout)); err != nil {
		c.close()
		return response{}, err
	}
	if _, err := c.nc.Write(request); err != nil {
		c.close()
		return response{}, err
	}
	resp, keep, err := readResponse(c.br, c.body[:0])
	if err != nil || !keep {
		c.close()
	}
	c.body, c.used = resp.body, now
	return resp, err
}

func (c *conn) dial() error {
	nc, err := net.DialTimeout("tcp", c.target.addr, 3*time.Second)
	if err != nil {
		return err
	}
	if c.target.tls != nil {
		nc = tls.Client(nc, c.target.tls)
	}
	c.nc = nc
	if c.br == nil {
		c.br = bufio.NewReaderSize(nc, 8<<10)
	}
	c.br.Reset(nc)
	return nil
}

func (c *conn) close() {
	if c.nc != nil {
		_ = c.nc.Close() // nothing is pending on it
		c.nc = nil
	}
}

var errMalformed = errors.New("malformed HTTP response")

// readResponse reads one final answer (1xx ones are skipped) to a request that
// was not HEAD, and appends its body to buf. keep tells whether the connection
// may carry another request.
func readResponse(br *bufio.Reader, buf []byte) (resp response, keep bool, err error) {
	for {
		head, err := readHead(br)
		if err != nil {
			return response{body: buf}, false, err
		}
		if head.status/100 == 1 {
			continue
		}
		resp = response{status: head.status, date: head.date}
		keep = head.keep
		switch {
		case head.status == http.StatusNoContent || head.status == http.StatusNotModified:
			resp.body = buf
		case head.chunked:
			resp.body, err = readChunked(br, buf)
		case head.length >= 0:
			resp.body, err = readN(br, buf, head.length)
		default: // the body ends with the connection
			keep = false
			resp.body, err = readAll(br, buf)
		}
		return resp, keep, err
	}
}

type responseHead struct {
	status  int
	length  int // -1 unknown
	chunked bool
	keep    bool
	date    time.Time
}

func readHead(br *bufio.Reader) (h responseHead, err error) {
	line, err := readLine(br)
	if err != nil {
		return h, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.")) || line[8] != ' ' {
		return h, errMalformed
	}
	h = responseHead{length: -1, keep: line[7] == '1'}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil || h.status < 100 {
		return h, errMalformed
	}
	for range maxHeaderLines {
		if line, err = readLine(br); err != nil {
			return h, err
		}
		if len(line) == 0 {
			return h, nil
		}
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			return h, errMalformed
		}
		if err := h.set(name, bytes.TrimSpace(value)); err != nil {
			return h, err
		}
	}
	return h, errMalformed
}

func (h *responseHead) set(name, value []byte) error {
	switch {
	case bytes.EqualFold(name, []byte("Content-Length")):
		n, err := strconv.Atoi(string(value))
		if err != nil || n < 0 || n > maxBody {
			return errMalformed
		}
		h.length = n
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		h.chunked = bytes.EqualFold(value, []byte("chunked"))
	case bytes.EqualFold(name, []byte("Connection")):
		if bytes.EqualFold(value, []byte("close")) {
			h.keep = false
		}
	case bytes.EqualFold(name, []byte("Date")):
		h.date, _ = time.Parse(http.TimeFormat, string(value)) // a bad date is no date
	}
	return nil
}

// readLine returns the next line without its end. Valid until the next read.
func readLine(br *bufio.Reader) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if err != nil {
		if errors.Is(err, bufio.ErrBufferFull) {
			return nil, errMalformed
		}
		return nil, err
	}
	return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
}

func readN(br *bufio.Reader, buf []byte, n int) ([]byte, error) {
	if len(buf)+n > maxBody {
		return buf, errMalformed
	}
	at := len(buf)
	if cap(buf) < at+n {
		buf = append(make([]byte, 0, at+n), buf...)
	}
	buf = buf[:at+n]
	_, err := io.ReadFull(br, buf[at:])
	return buf, err
}

func readChunked(br *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		line, err := readLine(br)
		if err != nil {
			return buf, err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseUint(string(bytes.TrimSpace(size)), 16, 31)
		if err != nil {
			return buf, errMalformed
		}
		if n == 0 {
			break
		}
		if buf, err = readN(br, buf, int(n)); err != nil {
			return buf, err
		}
		if line, err = readLine(br); err != nil || len(line) != 0 {
			return buf, errMalformed
		}
	}
	for range maxHeaderLines { // trailers
		line, err := readLine(br)
		if err != nil || len(line) == 0 {
			return buf, err
		}
	}
	return buf, errMalformed
}

func readAll(br *bufio.Reader, buf []byte) ([]byte, error) {
	rest, err := io.ReadAll(io.LimitReader(br, maxBody+1))
	if len(rest) > maxBody {
		return buf, errMalformed
	}
	return append(buf, rest...), err
}

// clients is the fixed set of connections of a run.
type clients []*conn

func newClients(t target, n int) clients {
	cs := make(clients, n)
	for i := range cs {
		cs[i] = &conn{target: t}
	}
	return cs
}

// each runs fn for 0…n-1 in order of index, as many at a time as there are
// connections, and returns when all have ended. A cancelled ctx starts no more.
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

// loop lets every connection repeat fn until d is over or ctx ends, and returns
// when all have stopped.
func (cs clients) loop(ctx context.Context, d time.Duration, fn func(c *conn)) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var wg sync.WaitGroup
	for _, c := range cs {
		wg.Go(func() {
			for ctx.Err() == nil {
				fn(c)
			}
		})
	}
	wg.Wait()
}

func (cs clients) close() {
	for _, c := range cs {
		c.close()
	}
}
