// Package e2e tests the whole program from outside: the real binary as a child process, over HTTP.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait for an event.
const patience = 60 * time.Second

// binary builds the program once for each set of build tags.
var binary = func() func(t *testing.T, tags string) string {
	var mu sync.Mutex
	built := map[string]string{}
	return func(t *testing.T, tags string) string {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if path, ok := built[tags]; ok {
			return path
		}
		path := filepath.Join(buildDir, "tandian-"+tags)
		out, err := exec.Command("go", "build", "-tags", tags, "-o", path, "tandian/cmd/tandian").CombinedOutput()
		if err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		built[tags] = path
		return path
	}
}()

var buildDir string

func TestMain(m *testing.M) {
	code := func() int {
		dir, err := os.MkdirTemp("", "tandian-e2e-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		buildDir = dir
		code := m.Run()
		if err := own.down(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}()
	os.Exit(code)
}

// server is a running child.
type server struct {
	URL, AdminURL string
	forgetful     bool   // it may say "not found" of an order that it can't see for a moment
	ready         string // the file in which it says where it listens
	cmd           *exec.Cmd
	ended         chan error
	log           logFile
}

// logFile is what the child prints, as a path: fmt shows its content.
type logFile string

func (f logFile) String() string {
	b, err := os.ReadFile(string(f))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// start runs the binary on a data folder and waits until it serves.
func start(t *testing.T, path, dir string, args ...string) *server {
	t.Helper()
	return startWith(t, nil, path, dir, args...)
}

// startWith is start with additions to the environment.
func startWith(t *testing.T, env []string, path, dir string, args ...string) *server {
	t.Helper()
	s := spawn(t, env, path, dir, args...)
	s.serves(t)
	return s
}

// spawn starts the binary on a data folder.
func spawn(t *testing.T, env []string, path, dir string, args ...string) *server {
	t.Helper()
	ready := filepath.Join(dir, "ready.json")
	_ = os.Remove(ready)
	s := &server{ready: ready, log: logFile(filepath.Join(dir, "server.log")), ended: make(chan error, 1)}
	s.cmd = exec.Command(path, append([]string{"serve", "--data-dir", dir, "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--ready-file", ready,
		"--limit-ip", "1000000", "--limit-user", "100000"}, args...)...)
	out, err := os.OpenFile(string(s.log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env = out, out, append(bareEnv(), env...)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() { _ = s.cmd.Process.Kill() })
	return s
}

// serves waits until the server does.
func (s *server) serves(t *testing.T) {
	t.Helper()
	until(t, "the server serves", func() bool {
		select {
		case err := <-s.ended:
			t.Fatalf("the server ended: %v\n%s", err, s.log)
		default:
		}
		b, err := os.ReadFile(s.ready)
		return err == nil && json.Unmarshal(b, s) == nil && s.URL != ""
	})
}

// bareEnv is the environment without settings of the product: a test says all that it wants by flags.
func bareEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "TANDIAN_") })
}

// kill is SIGKILL: nothing is flushed, nothing is said.
func (s *server) kill(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-s.ended
}

// stop asks the server to drain and end; it returns how it ended.
func (s *server) stop(t *testing.T) error {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-s.ended:
		return err
	case <-time.After(patience):
		t.Fatalf("the server did not end\n%s", s.log)
		return nil
	}
}

// until polls for an event.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !happened() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain: %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// answer is an HTTP response, read whole.
type answer struct {
	Status int
	Header http.Header
	Text   string
	Body   map[string]any
}

var client = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// try sends one request; an error means that no answer came.
func (s *server) try(method, path, token, body string, header ...string) (answer, error) {
	return s.request(context.Background(), method, path, token, body, header...)
}

// request is try that waits until ctx ends at most.
func (s *server) request(ctx context.Context, method, path, token, body string, header ...string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{Status: resp.StatusCode, Header: resp.Header, Text: string(b)}
	_ = json.Unmarshal(b, &a.Body)
	return a, nil
}

// do is try for a server that must answer.
func (s *server) do(t *testing.T, method, path, token, body string, header ...string) answer {
	t.Helper()
	a, err := s.try(method, path, token, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", method, path, err, s.log)
	}
	return a
}

// must is do with the status that must come.
func (s *server) must(t *testing.T, status int, method, path, token, body string, header ...string) answer {
	t.Helper()
	a := s.do(t, method, path, token, body, header...)
	if a.Status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, a.Status, a.Text, status)
	}
	return a
}

func (s *server) signIn(t *testing.T, phone string) (token string) {
	t.Helper()
	a := s.must(t, 201, "POST", "/api/v1/auth/sessions", "", fmt.Sprintf(`{"phone":%q,"password":"tandian-demo"}`, phone))
	return a.Body["token"].(string)
}

const (
	operatorPhone = "13800000001"
	merchantPhone = "13800000002"
	shopperPhone  = "13800000004"
)

// testUsers makes signed-in users.
func (s *server) testUsers(t *testing.T, n int) (tokens []string) {
	t.Helper()
	a := s.must(t, 200, "POST", "/api/v1/console/test-users", "", fmt.Sprintf(`{"count":%d}`, n))
	for _, token := range a.Body["tokens"].([]any) {
		tokens = append(tokens, token.(string))
	}
	return tokens
}

// newSale puts a new voucher up, live from now on for an hour.
func (s *server) newSale(t *testing.T, operator string, stock, limit int) (saleID string) {
	t.Helper()
	shops := s.must(t, 200, "GET", "/api/v1/shops?limit=1", "", "")
	return s.newSaleOf(t, operator, shops.Body["items"].([]any)[0].(map[string]any)["id"].(string), stock, limit)
}

// newSaleOf is newSale for a shop.
func (s *server) newSaleOf(t *testing.T, operator, shopID string, stock, limit int) (saleID string) {
	t.Helper()
	v := s.must(t, 201, "POST", "/api/v1/shops/"+shopID+"/vouchers", operator, `{"title":"测试券","payValue":4750,"faceValue":10000}`)
	now := time.Now()
	sale := s.must(t, 201, "POST", "/api/v1/vouchers/"+v.Body["id"].(string)+"/sale", operator,
		fmt.Sprintf(`{"stock":%d,"beginsAt":%q,"endsAt":%q,"limitPerUser":%d}`, stock, now.Add(-time.Second).Format(time.RFC3339Nano), now.Add(time.Hour).Format(time.RFC3339Nano), limit))
	return sale.Body["id"].(string)
}

// inspection is the operator's view of a sale.
type inspection struct {
	Released int64
	AtRest   bool
	Gate     struct {
		Loaded                 bool
		Stock, Pending, Orders int64
	}
	DB struct{ Stock, Live, Failed, OverLimit int64 }
}

func (s *server) inspect(t *testing.T, operator, saleID string) (i inspection) {
	t.Helper()
	a := s.must(t, 200, "GET", "/api/v1/console/sales/"+saleID, operator, "")
	if err := json.Unmarshal([]byte(a.Text), &i); err != nil {
		t.Fatal(err)
	}
	return i
}

// output runs the binary to its end and returns what it printed and its exit code.
func output(t *testing.T, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t, ""), args...)
	cmd.Env = bareEnv()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}
