package bench

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func testConn(t *testing.T, url string) *conn {
	t.Helper()
	target, err := newTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{target: target}
	t.Cleanup(c.close)
	return c
}

func TestConnAgainstNetHTTP(t *testing.T) {
	var connections atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("/length", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") })
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, r *http.Request) {
		for _, part := range []string{"one ", strings.Repeat("x", 20_000), " two"} {
			io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/empty", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/early", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, "final")
	})
	mux.HandleFunc("/close", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		io.WriteString(w, "bye")
	})
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Header.Get("Authorization")+" "+r.Header.Get("Idempotency-Key")+" "+r.Header.Get("Content-Length"))
	})
	srv := httptest.NewUnstartedServer(mux)
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	srv.Start()
	defer srv.Close()
	c := testConn(t, srv.URL)
	for _, tt := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/length", 200, "hello"},
		{"GET", "/chunked", 200, "one " + strings.Repeat("x", 20_000) + " two"},
		{"GET", "/empty", 204, ""},
		{"GET", "/early", 202, "final"},
		{"POST", "/echo", 200, "token key 0"},
		{"GET", "/missing", 404, "404 page not found\n"},
		{"GET", "/length", 200, "hello"},
	} {
		resp, err := c.send(tt.method, tt.path, "token", "key")
		if err != nil || resp.status != tt.status || string(resp.body) != tt.body {
			t.Errorf("%s %s = %d %q, %v", tt.method, tt.path, resp.status, resp.body, err)
		}
		if time.Since(resp.date) > time.Minute {
			t.Errorf("%s: date %v", tt.path, resp.date)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for keep-alive requests", n)
	}
	for range 2 {
		if resp, err := c.send("GET", "/close", "", ""); err != nil || string(resp.body) != "bye" {
			t.Errorf("close: %q, %v", resp.body, err)
		}
	}
	if n := connections.Load(); n != 2 {
		t.Errorf("%d connections after one was closed by the server, want 2", n)
	}
}

func TestConnOverTLS(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "safe") }))
	defer srv.Close()
	c := testConn(t, srv.URL)
	c.target.tls.RootCAs = srv.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	if resp, err := c.send("GET", "/", "", ""); err != nil || string(resp.body) != "safe" {
		t.Errorf("%q, %v", resp.body, err)
	}
}

func TestConnRedialsAfterAnError(t *testing.T) {
	var hung atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hung.CompareAndSwap(false, true) {
			nc, _, _ := w.(http.Hijacker).Hijack()
			nc.Close()
		}
	}))
	defer srv.Close()
	c := testConn(t, srv.URL)
	if _, err := c.send("GET", "/", "", ""); err == nil {
		t.Error("no error for a connection that was cut")
	}
	if resp, err := c.send("GET", "/", "", ""); err != nil || resp.status != 200 {
		t.Errorf("%d, %v", resp.status, err)
	}
}

func TestReadResponse(t *testing.T) {
	for _, tt := range []struct {
		name, raw string
		status    int // 0: an error is wanted
		body      string
		keep      bool
	}{
		{"continue first", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", true},
		{"until the end", "HTTP/1.1 200 OK\r\n\r\nall", 200, "all", false},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok", false},
		{"no reason phrase", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", 200, "", true},
		{"odd case and space", "HTTP/1.1 200 OK\r\ncontent-LENGTH:  2 \r\n\r\nok", 200, "ok", true},
		{"chunk extension and trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: y\r\n\r\n", 200, "ok", true},
		{"cut body", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", 0, "", false},
		{"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok", 0, "", false},
		{"chunk without its end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokay\r\n0\r\n\r\n", 0, "", false},
		{"huge chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\nok", 0, "", false},
		{"huge length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", 0, "", false},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 0, "", false},
		{"not HTTP", "220 mail.example ESMTP ready\r\n", 0, "", false},
		{"header without colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", 0, "", false},
		{"endless line", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 100_000), 0, "", false},
		{"endless headers", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 300) + "\r\n", 0, "", false},
		{"nothing", "", 0, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			resp, keep, err := readResponse(bufio.NewReaderSize(strings.NewReader(tt.raw), 8<<10), nil)
			if tt.status == 0 {
				if err == nil {
					t.Errorf("accepted: %d %q", resp.status, resp.body)
				}
				return
			}
			if err != nil || resp.status != tt.status || string(resp.body) != tt.body || keep != tt.keep {
				t.Errorf("%d %q keep=%v, %v", resp.status, resp.body, keep, err)
			}
		})
	}
}

// No answer, however broken, may crash the reader or grow without bound.
func FuzzReadResponse(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"))
	f.Add([]byte("HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		resp, _, err := readResponse(bufio.NewReaderSize(bytes.NewReader(raw), 8<<10), nil)
		if err == nil && (resp.status < 200 || resp.status > 999 || len(resp.body) > maxBody) {
			t.Errorf("accepted %d with %d bytes", resp.status, len(resp.body))
		}
	})
}

func TestEachRunsEveryIndexOnce(t *testing.T) {
	cs := newClients(8, target{})
	var counts [1000]atomic.Int32
	cs.each(t.Context(), len(counts), func(_ *conn, i int) { counts[i].Add(1) })
	for i := range counts {
		if n := counts[i].Load(); n != 1 {
			t.Fatalf("index %d ran %d times", i, n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ran atomic.Int32
	cs.each(ctx, 1000, func(*conn, int) { ran.Add(1); cancel() })
	if n := ran.Load(); n > 8 {
		t.Errorf("%d jobs ran after the cancel", n)
	}
}

func BenchmarkReadResponse(b *testing.B) {
	const raw = "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n" +
		"Content-Length: 45\r\n\r\n{\"orderId\":\"123456789012345\",\"status\":\"queu\"}"
	b.ReportAllocs()
	r := strings.NewReader(raw)
	br := bufio.NewReader(r)
	var buf []byte
	for b.Loop() {
		r.Reset(raw)
		br.Reset(r)
		resp, _, err := readResponse(br, buf[:0])
		if err != nil {
			b.Fatal(err)
		}
		buf = resp.body
	}
}

// A slow answer delays those behind it on the only connection; they are told when they were due, not when they left.
func TestPaceCountsFromWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var due, left []time.Duration
		newClients(1, target{}).pace(t.Context(), 4, evenly(10), func(_ *conn, i int, at time.Time) {
			due, left = append(due, at.Sub(start)), append(left, time.Since(start))
			if i == 0 {
				time.Sleep(250 * time.Millisecond)
			}
		})
		ms := time.Millisecond
		if want := []time.Duration{0, 100 * ms, 200 * ms, 300 * ms}; !slices.Equal(due, want) {
			t.Errorf("due %v, want %v", due, want)
		}
		if want := []time.Duration{0, 250 * ms, 250 * ms, 300 * ms}; !slices.Equal(left, want) {
			t.Errorf("left %v, want %v", left, want)
		}
	})
}

func TestConnectionsAreSpreadOverTheServers(t *testing.T) {
	a, b := target{addr: "a"}, target{addr: "b"}
	var got []string
	for _, c := range newClients(5, a, b) {
		got = append(got, c.target.addr)
	}
	if want := []string{"a", "b", "a", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}
