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
