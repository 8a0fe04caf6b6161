// Package kvtest exists because some tests do to a Redis server what its other users must not see: they flush it, kill
// it, count its commands and cut its lines.
package kvtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/redis/rueidis"
	"github.com/rs/zerolog"
)

// patience is how long a server may take to start.
const patience = 20 * time.Second

// Server is a Redis server of one test's own. It keeps its data over a Restart.
type Server struct {
	Addr string

	t   testing.TB
	dir string
	cmd *exec.Cmd
}

// Start starts a server that ends with the test. It skips the test where there is no TANDIAN_REDIS_ADDR or no
// redis-server: a machine that runs the tests of the production mode has both.
func Start(t testing.TB) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil || os.Getenv("TANDIAN_REDIS_ADDR") == "" {
		t.Skip(`no TANDIAN_REDIS_ADDR or no redis-server; run: eval "$(scripts/services up)"`)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	s := &Server{Addr: l.Addr().String(), t: t, dir: t.TempDir()}
	check(t, l.Close())
	s.start()
	t.Cleanup(s.Kill)
	return s
}

func (s *Server) start() {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	check(s.t, err)
	s.cmd = exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always",
		"--logfile", "redis.log")
	check(s.t, s.cmd.Start())
	deadline := time.Now().Add(patience)
	for {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true})
		if err == nil {
			client.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("redis-server does not answer: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Kill ends the server with SIGKILL. Killing it twice is harmless.
func (s *Server) Kill() {
	if s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // its status says that it was killed
	}
}

// Restart kills the server, if it is running, and starts it again on the same address and data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.start()
}

// Do sends a command as an operator would, past everything under test.
func (s *Server) Do(words ...string) rueidis.RedisResult {
	s.t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true, DisableCache: true})
	check(s.t, err)
	defer client.Close()
	res := client.Do(context.Background(), client.B().Arbitrary(words...).Build())
	check(s.t, res.Error())
	return res
}

var commandCalls = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+)`)

// Calls returns how often the server has carried out each command, by its name in lower case. Connecting to ask costs
// some HELLO, CLIENT and INFO.
func (s *Server) Calls() map[string]int {
	s.t.Helper()
	text, err := s.Do("INFO", "commandstats").ToString()
	check(s.t, err)
	calls := map[string]int{}
	for _, m := range commandCalls.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[2])
		check(s.t, err)
		calls[m[1]] = n
	}
	return calls
}

// Line is a way to the server that can be cut.
type Line struct {
	Addr string

	t     testing.TB
	proxy *toxiproxy.Proxy
}

// Line opens a way to the server. It ends with the test.
func (s *Server) Line() *Line {
	s.t.Helper()
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), s.t.Name(), "127.0.0.1:0", s.Addr)
	check(s.t, p.Start())
	s.t.Cleanup(p.Stop)
	return &Line{p.Listen, s.t, p}
}

// Swallow makes everything that goes a way ("upstream", to the server, or "downstream") vanish from now on, on
// connections that stay open.
func (l *Line) Swallow(ways ...string) {
	l.t.Helper()
	for _, way := range ways {
		l.toxic(fmt.Sprintf(`{"name":"swallow-%s","type":"timeout","stream":%q,"attributes":{"timeout":0}}`, way, way))
	}
}

// Reset breaks the connections with RST, and new ones too.
func (l *Line) Reset() {
	l.t.Helper()
	l.toxic(`{"name":"reset","type":"reset_peer","stream":"downstream","attributes":{"timeout":0}}`)
}

// Heal lets everything through again.
func (l *Line) Heal() { l.proxy.Toxics.ResetToxics(context.Background()) }

func (l *Line) toxic(json string) {
	l.t.Helper()
	_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(json))
	check(l.t, err)
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
