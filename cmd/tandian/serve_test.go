package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// embedded is the environment of a server on free ports and a folder of its own.
func embedded(t *testing.T) map[string]string {
	return map[string]string{"TANDIAN_ADDR": "127.0.0.1:0", "TANDIAN_ADMIN_ADDR": "127.0.0.1:0", "TANDIAN_DATA_DIR": t.TempDir(), "TANDIAN_LOG_LEVEL": "error"}
}

// Without a command the demo runs: it prints where, serves there, and ends cleanly when told to.
func TestAloneItRunsTheDemo(t *testing.T) {
	env := embedded(t)
	env["TANDIAN_READY_FILE"] = filepath.Join(t.TempDir(), "ready")
	out, in := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var errs strings.Builder
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, nil, in, &errs, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
		_ = in.Close() // a pipe's never fails
		ended <- code
	}()
	var url string
	var banner strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		fmt.Fprintln(&banner, lines.Text())
		if f := strings.Fields(lines.Text()); len(f) == 3 && f[1] == "shop" {
			url = f[2]
		}
		if strings.Contains(lines.Text(), "Ctrl-C") {
			break
		}
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // ends with the pipe
	if url == "" || !strings.Contains(banner.String(), "13800000001") {
		stop()
		t.Fatalf("exit code %d, banner\n%s\nstderr\n%s", <-ended, banner.String(), errs.String())
	}
	for path, want := range map[string]string{"": "<html", "api/v1/time": `"now"`, "api/openapi.json": `"openapi"`} {
		res, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if res.Body.Close() != nil || err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("GET /%s: %s %v, want %q", path, res.Status, err, want)
		}
	}
	stop()
	if code := <-ended; code != exitDone || errs.String() != "" {
		t.Errorf("exit code %d, stderr %q", code, errs.String())
	}
	var ready struct{ URL string }
	if b, err := os.ReadFile(env["TANDIAN_READY_FILE"]); err != nil || json.Unmarshal(b, &ready) != nil || ready.URL+"/" != url {
		t.Errorf("ready file %q (%v), want the URL %s", b, err, url)
	}
}

func TestServeOnATakenPortEndsInOneLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	env := embedded(t)
	env["TANDIAN_ADDR"] = l.Addr().String()
	code, stdout, stderr := command(t, env, "serve")
	if code != exitFailed || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "占用") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
}

func TestSeedTwiceIsHarmless(t *testing.T) {
	env := embedded(t)
	for range 2 {
		code, stdout, stderr := command(t, env, "seed")
		if code != exitDone || !strings.Contains(stdout, "4 demo accounts") {
			t.Fatal(code, stdout, stderr)
		}
	}
}

func TestOpenAPIIsTheCommittedFile(t *testing.T) {
	want, err := os.ReadFile("../../api/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t, nil, "openapi")
	if code != exitDone || stderr != "" || !json.Valid([]byte(stdout)) {
		t.Fatal(code, stderr)
	}
	if stdout != string(want) {
		t.Error("api/openapi.json is out of date: make openapi")
	}
	file := filepath.Join(t.TempDir(), "o.json")
	if code, _, stderr := command(t, nil, "openapi", "--out", file); code != exitDone {
		t.Fatal(stderr)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != stdout {
		t.Errorf("--out must write the same document: %v", err)
	}
}

func TestHealthcheck(t *testing.T) {
	var status atomic.Int32
	status.Store(http.StatusOK)
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(int(status.Load()))
		fmt.Fprintln(w, "says so")
	}))
	defer admin.Close()
	addr := admin.Listener.Addr().String()
	if code, stdout, stderr := command(t, nil, "healthcheck", "--admin-addr", addr); code != exitDone || stdout != "ready\n" {
		t.Error(code, stdout, stderr)
	}
	status.Store(http.StatusServiceUnavailable)
	if code, _, stderr := command(t, nil, "healthcheck", "--admin-addr", addr); code != exitFailed || !strings.Contains(stderr, "answers 503 Service Unavailable: says so") {
		t.Error(code, stderr)
	}
	code, stdout, _ := command(t, nil, "healthcheck", "--admin-addr", addr, "--json")
	var answer struct {
		Ready  bool
		Status int
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || code != exitFailed || answer.Ready || answer.Status != 503 {
		t.Error(code, stdout, err)
	}
}
