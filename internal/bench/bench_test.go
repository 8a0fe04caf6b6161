package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// small are options of a run that takes seconds, against the fake server.
func small(t *testing.T, fault string) Options {
	t.Helper()
	return Options{
		Self: true, Users: 300, Stock: 120, Clients: 16, Seed: 7, RestTimeout: 30 * time.Second, TimeSlice: 100 * time.Millisecond,
		Env: []string{"FAILPOINT=" + fault}, Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}, Lang: "en",
	}
}

func TestGrabOfAHealthyServer(t *testing.T) {
	t.Parallel()
	o := small(t, "")
	o.Expect = "p99<10s,errors<0.1%,oversell=0,dup=0,lost=0"
	o.JSON, o.Out = true, t.TempDir()
	report, err := Grab(t.Context(), o)
	if err != nil {
		t.Fatal(err, report.Text())
	}
	if report.Grab.Accepted != 120 || report.Grab.Orders.Live != 120 || report.Invariants.OK != true {
		t.Errorf("sold %d, %d live, invariants %+v", report.Grab.Accepted, report.Grab.Orders.Live, report.Invariants)
	}
	if report.Grab.Planted != conflictUsers {
		t.Errorf("planted %d conflicts", report.Grab.Planted)
	}
	if f := report.Grab; f.Accepted+f.SoldOut+f.Repeat+f.Refused+f.Errors != f.Attempted {
		t.Errorf("outcomes do not add up to the attempts: %+v", f.Tally)
	}
	if report.Grab.RatioToTime == nil || report.Grab.SoldOutRatioToTime == nil {
		t.Error("a ratio is missing")
	}
	var printed map[string]any
	if err := json.Unmarshal(o.Stdout.(*bytes.Buffer).Bytes(), &printed); err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{
		"mode", "users", "stock", "attempted", "accepted", "soldOut", "repeat", "refused", "errors", "acceptRps", "writtenRps",
		"ratioToTime", "cpuRatio", "latencyMs", "drainMs", "orders", "invariants",
	} {
		if _, ok := printed[field]; !ok {
			t.Errorf("the JSON report has no %s", field)
		}
	}
	for _, name := range []string{"report.json", "report.html", "plot.svg"} {
		if _, err := os.Stat(filepath.Join(o.Out, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestGrabCatchesSeededFaults(t *testing.T) {
	for fault, caught := range map[string]func(Invariants) bool{
		"skip_unique":          func(v Invariants) bool { return v.OverLimit > 0 },
		"ack_before_commit":    func(v Invariants) bool { return v.Lost > 0 },
		"lose_and_resend":      func(v Invariants) bool { return v.Recovered > 0 && v.Lost == 0 },
		"release_twice":        func(v Invariants) bool { return !v.GateEqualsDB },
		"ignore_end":           func(v Invariants) bool { return v.OutsideWindow > 0 },
		"accept_without_queue": func(v Invariants) bool { return v.Lost > 0 },
	} {
		t.Run(fault, func(t *testing.T) {
			if testing.Short() {
				t.Skip("a run of seconds per fault")
			}
			t.Parallel()
			o := small(t, fault)
			if fault != "lose_and_resend" {
				o.RestTimeout = 3 * time.Second // lost orders never come
			}
			report, err := Grab(t.Context(), o)
			var violation *ViolationError
			if !errors.As(err, &violation) {
				t.Fatalf("err = %v, want a violation", err)
			}
			if !caught(*report.Invariants) {
				t.Errorf("not caught as what it is: %+v", report.Invariants)
			}
		})
	}
}

func TestGrabSurvivesAKilledServer(t *testing.T) {
	t.Parallel()
	o := small(t, "")
	o.Kill = 2
	report, err := Grab(t.Context(), o)
	if err != nil {
		t.Fatal(err, report.Text())
	}
	if report.Restarts != 2 {
		t.Errorf("%d restarts, want 2", report.Restarts)
	}
}

func TestGrabSeveralUnitsAtAGivenRate(t *testing.T) {
	t.Parallel()
	o := small(t, "")
	o.Limit, o.Rate, o.Users = 3, 2000, 100
	report, err := Grab(t.Context(), o)
	if err != nil {
		t.Fatal(err, report.Text())
	}
	if report.Grab.Accepted != 120 || report.Grab.RatioToTime != nil {
		t.Errorf("accepted %d, ratio %v", report.Grab.Accepted, report.Grab.RatioToTime)
	}
}

// Without the file, orders nobody was told about are found in the users' lists.
func TestGrabByAddressAlone(t *testing.T) {
	for fault, broken := range map[string]bool{"": false, "skip_unique": true, "ignore_end": true} {
		t.Run("fault="+fault, func(t *testing.T) {
			t.Parallel()
			o := small(t, fault)
			o.Exe, _ = os.Executable()
			s, err := newServer(o.withDefaults(), nil, func(err error) { t.Error(err) })
			if err != nil {
				t.Fatal(err)
			}
			defer s.remove()
			if err := s.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			o.Self, o.URL = false, s.address()
			report, err := Grab(t.Context(), o)
			var violation *ViolationError
			if got := errors.As(err, &violation); got != broken || err != nil && !got {
				t.Fatalf("err = %v, want a violation: %v\n%s", err, broken, report.Text())
			}
			if report.Grab.CPURatio != nil || report.Grab.Planted != 0 {
				t.Errorf("figures that an address cannot give: %v, %d", report.Grab.CPURatio, report.Grab.Planted)
			}
		})
	}
}

func TestMixedReadsFourTimesPerAttempt(t *testing.T) {
	t.Parallel()
	report, err := Mixed(t.Context(), small(t, ""))
	if err != nil {
		t.Fatal(err, report.Text())
	}
	if report.Grab.Reads < 4*int64(report.Grab.Users) {
		t.Errorf("%d reads for %d users", report.Grab.Reads, report.Grab.Users)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	o := small(t, "")
	o.Duration, o.Expect = time.Second, "errors=0,rps>1,ratio>0"
	report, err := Read(t.Context(), o)
	if err != nil {
		t.Fatal(err, report.Text())
	}
	if report.Read.RPS == nil || report.Read.TimeRPS == nil || report.Read.Requests == 0 {
		t.Errorf("figures are missing: %+v", report.Read)
	}
}

func TestReadAtAGivenRate(t *testing.T) {
	t.Parallel()
	o := small(t, "")
	o.Duration, o.Rate, o.TimeSlice = time.Second, 100, 300*time.Millisecond
	report, err := Read(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if n := report.Read.Requests; n < 40 || n > 70 {
		t.Errorf("%d requests in 600 ms at 100/s", n)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	o := small(t, "")
	o.Stock = 800
	report, err := Drain(t.Context(), o)
	if err != nil {
		t.Fatal(err, report.Text())
	}
	if report.Drain.Batched.Orders != 800 || report.Drain.Naive.Orders != 800 || !report.Invariants.OK {
		t.Errorf("%+v", report.Drain)
	}
	if report.Drain.Naive.RPS == nil {
		t.Error("the naive rate is missing")
	}
}

func TestSlowAnswers(t *testing.T) {
	t.Parallel()
	o := small(t, "")
	o.Duration, o.Expect = 3*time.Second, "p99ratio>0,errors=0"
	report, err := SlowAnswers(t.Context(), o)
	if err != nil {
		t.Fatal(err, report.Text())
	}
	f := report.Latency
	if f.MaxRPS == nil || f.OpenRate != *f.MaxRPS/2 || len(f.Rounds) == 0 || f.Tally.Accepted != f.Tally.Attempted {
		t.Errorf("%+v", f)
	}
	if want := int64(f.OpenRate*openSlice.Seconds()) * int64(len(f.Rounds)); f.Grab.Answered != want || f.Time.Answered != want {
		t.Errorf("%d buyers and %d questions about the time, want %d of each", f.Grab.Answered, f.Time.Answered, want)
	}
}

func TestStart(t *testing.T) {
	t.Parallel()
	report, err := Start(t.Context(), small(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	f := report.Start
	if f.StartMs.First <= 0 || f.StartMs.Second <= 0 || *f.RSSMB.Serve < 1 || *f.RSSMB.Demo < 1 {
		t.Errorf("%+v", f)
	}
}

// A server that ends by itself is a finding, whatever it was asked meanwhile.
func TestServerThatCrashes(t *testing.T) {
	t.Parallel()
	_, err := Grab(t.Context(), small(t, "crash"))
	var violation *ViolationError
	if !errors.As(err, &violation) || !strings.Contains(err.Error(), "panic: seeded") {
		t.Errorf("err = %v, want the crash", err)
	}
}

func TestCancelledRunStopsItsServer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before, err := filepath.Glob(filepath.Join(os.TempDir(), "tandian-bench-*"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Grab(ctx, small(t, "")); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v, want context.Canceled", err)
	}
	after, _ := filepath.Glob(filepath.Join(os.TempDir(), "tandian-bench-*"))
	if len(after) > len(before) {
		t.Errorf("folders left behind: %v", after)
	}
}

func TestServerThatDoesNotStart(t *testing.T) {
	o := small(t, "")
	o.Exe = "/bin/false"
	if _, err := Grab(t.Context(), o); err == nil {
		t.Error("no error")
	}
}

func TestOptionsRefused(t *testing.T) {
	for _, o := range []Options{
		{Users: -1}, {Limit: 64}, {Rate: -1}, {Duration: 2 * time.Hour}, {URL: "ftp://x"}, {URL: "http://x", Self: true},
		{URL: "http://x", Kill: 1}, {Expect: "p99"}, {Instances: 2}, {Delayed: 1}, {Broker: "rabbit"}, {Broker: "stream"},
		{Stores: Stores{MySQLDSN: "u@tcp(x)/y"}}, {URL: "http://x", Stores: Stores{MySQLDSN: "u@tcp(x)/y"}, Instances: 2},
	} {
		var usage *UsageError
		if _, err := Grab(t.Context(), o); !errors.As(err, &usage) {
			t.Errorf("%+v: %v, want a usage error", o, err)
		}
	}
}

// Stores in the environment are not for a server that was asked to be embedded.
func TestEmbeddedDespiteStores(t *testing.T) {
	t.Parallel()
	o := small(t, "")
	o.Broker, o.Stores = "sql", Stores{MySQLDSN: "u@tcp(127.0.0.1:1)/x", RedisAddr: "127.0.0.1:1", RabbitMQURL: "amqp://127.0.0.1:1/"}
	report, err := Grab(t.Context(), o)
	if err != nil {
		t.Fatal(err, report.Text())
	}
	if report.Backend != "embedded" || report.Broker != "sql" || report.Stores != nil {
		t.Errorf("%s, %s, %v", report.Backend, report.Broker, report.Stores)
	}
}

func TestBrokerThatTheServerDoesNotKnow(t *testing.T) {
	o := small(t, "")
	o.Exe, _ = os.Executable()
	o.Broker, o.Stores = "stream", Stores{MySQLDSN: "u@tcp(127.0.0.1:1)/x", RedisAddr: "127.0.0.1:1"}
	s, err := newFleet(o.withDefaults(), nil, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.remove()
	var usage *UsageError
	if err := s.start(t.Context()); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--broker stream") {
		t.Errorf("err = %v, want what is not supported", err)
	}
}
