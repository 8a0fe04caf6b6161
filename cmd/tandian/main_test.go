package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandian/internal/bench"
)

// command runs a command line with an environment and returns what it wrote.
func command(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), args, &out, &errs, func(k string) (string, bool) { v, ok := env[k]; return v, ok })
	return code, out.String(), errs.String()
}

func TestMistakesOfUsage(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for _, tt := range []struct {
		name string
		env  map[string]string
		args []string
		want []string // lines on stderr
	}{
		{"unknown command", nil, []string{"sell"}, []string{"unexpected argument sell; see tandian --help"}},
		{"unknown flag", nil, []string{"serve", "--pay-windo", "1m"}, []string{`unknown flag --pay-windo, did you mean "--pay-window"?; see tandian serve --help`}},
		{"command without subcommand", nil, []string{"bench"}, []string{`expected one of "grab", "mixed", "read", "latency", "drain", ...; see tandian bench --help`}},
		{"flag that doesn't parse", nil, []string{"serve", "--writers", "many"}, []string{`--writers: expected a valid 64 bit int but got "many"; see tandian serve --help`}},
		{"settings, all at once", map[string]string{"TANDIAN_WRITERS": "many"}, []string{"serve", "--pay-window", "0s", "--log-level", "loud"}, []string{
			`--writers (TANDIAN_WRITERS, writers:) (from env TANDIAN_WRITERS): expected a valid 64 bit int but got "many"`,
			`--log-level (TANDIAN_LOG_LEVEL, log-level:): "loud" is none of [debug info warn error]`,
			`--pay-window (TANDIAN_PAY_WINDOW, pay-window:): 0s is out of range; choose 1s to 720h`,
		}},
		{"missing file", nil, []string{"config", "validate", "--config", missing}, []string{
			"--config (TANDIAN_CONFIG, config:): stat " + missing + ": no such file or directory; write one with tandian config init"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := command(t, tt.env, tt.args...)
			want := "tandian: " + strings.Join(tt.want, "\ntandian: ") + "\n"
			if code != exitUsage || stdout != "" || stderr != want {
				t.Errorf("exit code %d, stdout %q, stderr\n%swant exit code 2 and\n%s", code, stdout, stderr, want)
			}
		})
	}
}

func TestHelpGoesToStdoutAndSucceeds(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"bench", "grab", "--help"}, {"config", "--help"}} {
		code, stdout, stderr := command(t, nil, args...)
		if code != exitDone || !strings.HasPrefix(stdout, "Usage: tandian") || stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
	if _, stdout, _ := command(t, nil, "serve", "--help"); !strings.Contains(strings.Join(strings.Fields(stdout), " "), "[TANDIAN_PAY_WINDOW]") {
		t.Errorf("help must name the environment variables:\n%s", stdout)
	}
}

func TestVersionJSON(t *testing.T) {
	code, stdout, stderr := command(t, nil, "version", "--json")
	var b build
	if err := json.Unmarshal([]byte(stdout), &b); err != nil || code != exitDone || stderr != "" {
		t.Fatal(code, err, stdout, stderr)
	}
	if b.Version == "" || !strings.HasPrefix(b.Go, "go1.") || !strings.Contains(b.Platform, "/") {
		t.Errorf("incomplete: %+v", b)
	}
}

func TestConfigShowTellsOrigins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tandian.yaml")
	if code, _, stderr := command(t, nil, "config", "init", "--out", file); code != exitDone {
		t.Fatal(stderr)
	}
	if code, _, stderr := command(t, nil, "config", "init", "--out", file); code != exitFailed || !strings.Contains(stderr, "exists already") {
		t.Fatalf("init must not overwrite: exit code %d, %s", code, stderr)
	}
	if err := os.WriteFile(file, []byte("writers: 2\nlog-level: warn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"TANDIAN_CONFIG": file, "TANDIAN_LOG_LEVEL": "debug"}
	code, table, stderr := command(t, env, "config", "show", "--pay-window", "5m")
	if code != exitDone {
		t.Fatal(code, stderr)
	}
	for _, want := range [][]string{
		{"writers", "2", "file", file + ":1"}, {"log-level", "debug", "env", "TANDIAN_LOG_LEVEL"}, {"pay-window", "5m", "flag", "--pay-window"}, {"addr", ":8080", "default"},
	} {
		found := false
		for line := range strings.Lines(table) {
			found = found || strings.Join(strings.Fields(line), " ") == strings.Join(want, " ")
		}
		if !found {
			t.Errorf("no line %v in\n%s", want, table)
		}
	}
	code, stdout, _ := command(t, env, "config", "show", "--json", "--pay-window", "5m")
	var list []struct {
		Key, Value, Env string
		Origin          struct{ Kind, Detail string }
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != exitDone || len(list) < 20 {
		t.Fatal(code, err, stdout)
	}
}

func TestConfigShowShowsWhatIsWrongToo(t *testing.T) {
	code, stdout, stderr := command(t, map[string]string{"TANDIAN_PAY_WINDOW": "0s"}, "config", "show")
	if code != exitUsage || !strings.Contains(stdout, "env TANDIAN_PAY_WINDOW") || !strings.Contains(stderr, "out of range") {
		t.Fatal(code, stdout, stderr)
	}
}

func TestConfigValidate(t *testing.T) {
	if code, stdout, stderr := command(t, nil, "config", "validate"); code != exitDone || stdout != "settings are valid\n" {
		t.Fatal(code, stdout, stderr)
	}
}

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{
		0: nil,
		1: errors.New("x"),
		2: fmt.Errorf("wrapped: %w", usageError{errors.New("x")}),
		3: fmt.Errorf("wrapped: %w", &bench.ViolationError{Broken: []string{"oversold 1"}}),
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: exit code %d, want %d", err, got, want)
		}
	}
}

func TestTakenPortIsExplained(t *testing.T) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = net.Listen("tcp", l.Addr().String())
	got := explain(fmt.Errorf("start: %w", err))
	if strings.Contains(got, "\n") || !strings.HasPrefix(got, fmt.Sprintf("%d ", port)) || !strings.Contains(got, "占用；试 --addr :") {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat("/proc/net/tcp"); err == nil && !strings.Contains(got, fmt.Sprintf("被 pid %d(", os.Getpid())) {
		t.Errorf("we hold the port ourselves and can see it: %q", got)
	}
}

func TestTakenAdminPortNamesItsFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = net.Listen("tcp", l.Addr().String())
	if got := explain(err); !strings.Contains(got, "试 --admin-addr 127.0.0.1:") {
		t.Errorf("got %q", got)
	}
}

// A process file system made by hand: the owner, a stranger, and a socket of another port.
func TestPortOwner(t *testing.T) {
	proc := t.TempDir()
	file := func(name, content string) {
		name = filepath.Join(proc, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	file("net/tcp", `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0 100 0 0 10 0
   1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 778 1 0 100 0 0 10 0
   2: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 779 1 0 100 0 0 10 0
`)
	for pid, socket := range map[string]string{"12": "778", "34": "777", "56": "779"} {
		file(pid+"/comm", "program-"+pid+"\n")
		dir := filepath.Join(proc, pid, "fd")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink("socket:["+socket+"]", filepath.Join(dir, "3"))); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := portOwner(proc, 8080); !ok || got != (owner{34, "program-34"}) {
		t.Errorf("got %+v %v", got, ok)
	}
	if got, ok := portOwner(proc, 8082); ok {
		t.Errorf("nobody listens on 8082, got %+v", got)
	}
	if got, ok := portOwner(filepath.Join(proc, "none"), 8080); ok {
		t.Errorf("without a process file system nobody is found, got %+v", got)
	}
}

func TestReachable(t *testing.T) {
	for in, want := range map[string]string{":9090": "localhost:9090", "0.0.0.0:9090": "localhost:9090", "[::]:9090": "localhost:9090", "127.0.0.1:9090": "127.0.0.1:9090", "db1:1": "db1:1"} {
		if got := reachable(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

func TestHealthcheckWithoutServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := command(t, nil, "healthcheck", "--admin-addr", addr)
	if code != exitFailed || stdout != "" || !strings.Contains(stderr, "is the server running with this --admin-addr?") {
		t.Error(code, stdout, stderr)
	}
}

func TestInterruptedContextEndsACommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs strings.Builder
	none := func(string) (string, bool) { return "", false }
	if code := run(ctx, []string{"healthcheck"}, &out, &errs, none); code != exitFailed {
		t.Error(code, out.String(), errs.String())
	}
}
