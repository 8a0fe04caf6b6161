package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// report is what these tests read of bench's report.
type report struct {
	Accepted   int
	SoldOut    int
	Orders     struct{ Live int }
	Stock      struct{ Total, Gate, DB int64 }
	Invariants map[string]any

	Batched, Naive struct{ Orders int } // of drain
	Ratio          float64              // likewise

	Backend, Broker, Commit string
	Stores                  []string
	Instances               int
}

// bench runs the load generator on a server of its own and returns its report and exit code.
func bench(t *testing.T, path string, env []string, args ...string) (r report, code int) {
	t.Helper()
	mode := "grab"
	if !strings.HasPrefix(args[0], "-") {
		mode, args = args[0], args[1:]
	}
	cmd := exec.Command(path, append([]string{"bench", mode, "--self", "--json"}, args...)...)
	cmd.Env = append(bareEnv(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, _ := cmd.Output() // the exit code is judged by the caller
	code = cmd.ProcessState.ExitCode()
	if err := json.Unmarshal(out, &r); err != nil && code != 3 {
		t.Fatalf("bench %v: exit %d, %v\n%s\n%s", args, code, err, out, stderr.String())
	}
	return r, code
}

// The sales that every change must survive.
func TestBenchFindsNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		live int
	}{
		"ten rivals for each unit": {[]string{"--users", "5000", "--stock", "500", "--clients", "256"}, 500},
		"more units than buyers":   {[]string{"--users", "300", "--stock", "500"}, 300},
		"two for each":             {[]string{"--users", "400", "--stock", "600", "--limit", "2"}, 600},
	} {
		t.Run(name, func(t *testing.T) {
			r, code := bench(t, binary(t, ""), nil, tc.args...)
			if code != 0 || r.Invariants["ok"] != true || r.Orders.Live != tc.live || r.Stock.Gate != r.Stock.DB {
				t.Fatalf("exit %d, %+v", code, r)
			}
		})
	}
}

// storesEnv is what the environment says of the stores; scripts/services says that they may be emptied. What a killed
// instance leaves unfinished is found sooner than usual.
func storesEnv() []string {
	env := []string{"TANDIAN_SWEEP_AFTER=2s"}
	for _, v := range os.Environ() {
		for _, key := range []string{"MYSQL_DSN", "REDIS_ADDR", "RABBITMQ_URL", "MESSAGE_SECRET", "SERVICES", "SERVICE_PIDS"} {
			if strings.HasPrefix(v, "TANDIAN_"+key+"=") {
				env = append(env, v)
			}
		}
	}
	return env
}

// The same in production mode, by one instance and by two of which each is killed once. Verdicts read SQL there too.
func TestBenchFindsNothingInProduction(t *testing.T) {
	production(t) // skips where there are no stores
	for name, tc := range map[string]struct {
		args      []string
		instances int
	}{
		"one instance":              {[]string{"--users", "1500", "--stock", "700"}, 1},
		"two instances, two deaths": {[]string{"--users", "800", "--stock", "500", "--instances", "2", "--kill", "2"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			r, code := bench(t, binary(t, ""), storesEnv(), tc.args...)
			if code != 0 || r.Invariants["ok"] != true || r.Orders.Live != int(r.Stock.Total) || r.Stock.Gate != r.Stock.DB {
				t.Fatalf("exit %d, %+v", code, r)
			}
			if r.Backend != "production" || r.Broker != "rabbit" || len(r.Stores) != 3 || r.Instances != tc.instances {
				t.Errorf("%+v does not say what it ran on", r)
			}
			if err := exec.Command("git", "rev-parse", "HEAD").Run(); err == nil && len(r.Commit) < 40 {
				t.Errorf("commit %q, though it can be told", r.Commit)
			}
		})
	}
}

// The writer beats a consumer of one order at a time, and finds its own place among the rows that one has written.
func TestBenchDrainsInProduction(t *testing.T) {
	production(t)
	r, code := bench(t, binary(t, ""), storesEnv(), "drain", "--stock", "400")
	if code != 0 || r.Invariants["ok"] != true || r.Batched.Orders != 400 || r.Naive.Orders == 0 || r.Ratio < 1 {
		t.Fatalf("exit %d, %+v", code, r)
	}
}

// Check the checker: each fault, switched on in the product itself, must be reported as a violation.
func TestBenchFindsEachSeededFault(t *testing.T) {
	for fault, args := range map[string][]string{
		"skip_unique":             {"--users", "600", "--stock", "400"},
		"ack_before_commit":       {"--users", "3000", "--stock", "2000", "--rest-timeout", "20s"},
		"release_twice,fail_some": {"--users", "1000", "--stock", "600"},
		"ignore_end":              {"--users", "300", "--stock", "500"},
		"accept_without_queue":    {"--users", "1000", "--stock", "800", "--rest-timeout", "20s"},
	} {
		t.Run(fault, func(t *testing.T) {
			r, code := bench(t, binary(t, "fault"), []string{"FAILPOINT=" + fault}, args...)
			if code != 3 || r.Invariants["ok"] != false {
				t.Fatalf("the fault went unseen: exit %d, %+v", code, r)
			}
			t.Log(r.Invariants["details"])
		})
	}
	if _, code := bench(t, binary(t, "fault"), nil, "--users", "300", "--stock", "100"); code != 0 {
		t.Fatal("the same binary without a fault must pass: exit", code)
	}
}
