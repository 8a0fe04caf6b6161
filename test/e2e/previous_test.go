//go:build previous

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"tandian/test/history"
)

// previous builds the release before this tree.
func previous(t *testing.T) string {
	t.Helper()
	root := filepath.Join("..", "..")
	commit, err := exec.Command(filepath.Join(root, "scripts", "previous-release")).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "tandian-previous")
	build := fmt.Sprintf("git -C %q archive %s | tar -x -C %q && cd %q && go build -o %q ./cmd/tandian", root, strings.TrimSpace(string(commit)), dir, dir, path)
	if out, err := exec.Command("bash", "-o", "pipefail", "-c", build).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// F81: the release before and this tree on the same stores. The one's reservations are written by the other, and the
// other way round; a sale goes on while one takes the other's place and gives it back, with this tree's tables under the
// old release.
func TestPreviousReleaseBesideThisOne(t *testing.T) {
	w := production(t)
	before, now := previous(t), binary(t, "")
	first := w.launch(t, before, nil) // makes its own tables and the demo town
	operator := first.signIn(t, operatorPhone)

	const users = 60
	for name, tc := range map[string]struct{ entry, writer string }{
		"accepted before, written now": {before, now},
		"accepted now, written before": {now, before},
	} {
		t.Run(name, func(t *testing.T) {
			if err := first.stop(t); err != nil {
				t.Fatalf("ended with %v", err)
			}
			entry := w.launch(t, tc.entry, nil, "--writers", "0")
			c := gather(t, entry, entry.newSale(t, operator, 2*users, 1), users)
			writer := w.launch(t, tc.writer, nil)
			each(users, func(i int) {
				if op := c.insist(c.buyers[i], func(int) *server { return entry }); op.Outcome != history.OK {
					t.Errorf("%+v", op)
				}
			})
			c.mustHold(w.db, afterAnInstance, entry, writer)
			first = writer
			if err := entry.stop(t); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}

	t.Run("one after the other, and back", func(t *testing.T) {
		const users, stock = 1200, 800
		if err := first.stop(t); err != nil {
			t.Fatalf("ended with %v", err)
		}
		serving := [2]atomic.Pointer[server]{}
		serving[0].Store(w.launch(t, before, nil))
		serving[1].Store(w.launch(t, before, nil))
		c := gather(t, serving[0].Load(), serving[0].Load().newSale(t, operator, stock, 1), users)
		c.sample(w.db)
		r := c.rush(serving[0].Load, serving[1].Load)
		for i, path := range []string{now, now, before, before, now} {
			r.pass(users / 6)
			old := serving[i%2].Load()
			serving[i%2].Store(serving[1-i%2].Load())
			if err := old.stop(t); err != nil {
				t.Errorf("ended with %v", err)
			}
			serving[i%2].Store(w.launch(t, path, nil))
		}
		r.wait()
		c.mustHold(w.db, afterAnInstance, serving[0].Load(), serving[1].Load())
		if n := len(c.Told()); n != stock {
			t.Errorf("%d orders of %d units", n, stock)
		}
	})
}
