//go:build fault

package failpoint_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"tandian/internal/kit/failpoint"
)

// The process dies at the pass that was asked for and not before, and without a word.
func TestKill(t *testing.T) {
	if os.Getenv("FAILPOINT") != "" {
		for range 3 {
			failpoint.Kill("another_point")
			failpoint.Kill("kill_here")
			os.Stdout.WriteString("alive ")
		}
		os.Exit(0)
	}
	for point, lives := range map[string]int{"kill_here": 0, "other,kill_here:3": 2, "kill_here:4": 3} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), "FAILPOINT="+point)
		out, err := cmd.Output()
		if n := strings.Count(string(out), "alive"); n != lives || (err != nil) != (lives < 3) || strings.Contains(string(out), "FAIL") {
			t.Errorf("%s: passed %d times, want %d (%v)\n%s", point, n, lives, err, out)
		}
	}
}
