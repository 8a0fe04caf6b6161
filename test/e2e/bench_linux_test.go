package e2e

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Whoever reads bench's lines goes away, as head(1) does: the server that bench has started goes too.
func TestBenchWithoutAReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(binary(t, ""), "bench", "grab", "--self", "--users", "300", "--stock", "100")
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = bareEnv(), w, w, &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // with an error or without: its lines are of no use to anybody
	if err := unix.Kill(-cmd.Process.Pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Error("the server goes on", err)
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
	}
}
