//go:build fault && unix

package failpoint_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"tandian/internal/kit/failpoint"
)

// passes is what the child of these tests does.
func passes() {
	for range 3 {
		failpoint.Pass("another_place")
		failpoint.Pass("here")
		os.Stdout.WriteString("alive\n")
	}
	os.Exit(0)
}

func child(test, point string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), "FAILPOINT="+point)
	return cmd
}

// The process dies at the pass that was asked for and not before, and without a word.
func TestKill(t *testing.T) {
	if os.Getenv("FAILPOINT") != "" {
		passes()
	}
	for point, lives := range map[string]int{"here:kill": 0, "skip_unique,here:kill:3": 2, "here:kill:4": 3, "here": 3, "elsewhere:kill": 3} {
		out, err := child("TestKill", point).Output()
		if n := strings.Count(string(out), "alive"); n != lives || (err != nil) != (lives < 3) || strings.Contains(string(out), "FAIL") {
			t.Errorf("%s: passed %d times, want %d (%v)\n%s", point, n, lives, err, out)
		}
	}
}

// The process freezes at its second pass, says nothing while it is frozen, and goes on when it is continued.
func TestStop(t *testing.T) {
	if os.Getenv("FAILPOINT") != "" {
		passes()
	}
	cmd := child("TestStop", "here:stop:2")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatal("died before it froze")
	}
	var state syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
		t.Fatalf("not frozen: %v %v", state, err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < 3; n++ {
		if !lines.Scan() || lines.Text() != "alive" {
			t.Fatalf("did not go on: %q", lines.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}
