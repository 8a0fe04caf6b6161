//go:build previous

package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
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
// old release. At rest, what this tree says counts: the old release may misread what the new one adds at the gate.
func TestPreviousReleaseBesideThisOne(t *testing.T) {
	w := production(t)
	before, now := previous(t), binary(t, "")
	old := w.launch(t, before, nil) // makes its own tables and the demo town
	operator := old.signIn(t, operatorPhone)
	stop(t, old)

	t.Run("accepted before, written now", func(t *testing.T) {
		entry := w.launch(t, before, nil, "--writers", "0")
		c, writer := w.relay(t, operator, entry, now)
		c.review(entry)
		c.mustHold(w.db, afterAnInstance, writer)
		stop(t, entry, writer)
	})
	t.Run("accepted now, written before", func(t *testing.T) {
		entry := w.launch(t, now, nil, "--writers", "0")
		c, writer := w.relay(t, operator, entry, before)
		c.mustHold(w.db, afterAnInstance, entry)
		c.review(writer)
		stop(t, entry, writer)
	})
	t.Run("taken over while it sells", func(t *testing.T) {
		const users, stock = 60, 20
		old := w.launch(t, before, nil, "--writers", "0") // what it accepts is on its way for long
		old.forgetful = true
		c := gather(t, old, old.newSale(t, operator, stock, 1), users)
		c.insist(c.buyers[0], func(int) *server { return old }) // has the gate opened
		next := spawn(t, []string{"FAILPOINT=before_load:stop"}, binary(t, "fault"), t.TempDir(), append(slices.Clone(w.flags), "--writers", "0")...)
		next.frozen(t) // it has seen the gate, and not put its own in the place
		each(users/2, func(i int) { c.ask(old, c.buyers[i]) })
		next.thaw(t)
		next.serves(t)
		each(users, func(i int) { c.insist(c.buyers[i], func(int) *server { return next }) })
		writer := w.launch(t, now, nil)
		c.mustHold(w.db, afterAnInstance, next, writer)
		if n := len(c.Told()); n != stock {
			t.Errorf("%d orders of %d units", n, stock)
		}
		stop(t, old, next, writer)
	})
	t.Run("one after the other, and back", func(t *testing.T) {
		const users, stock = 1200, 800
		// The old release goes on admitting while this one takes the gate over, and does not know that such an order is
		// invisible until it is written.
		launch := func(path string) *server {
			s := w.launch(t, path, nil)
			s.forgetful = path == before
			return s
		}
		var serving [2]atomic.Pointer[server]
		for i := range serving {
			serving[i].Store(launch(before))
		}
		s := serving[0].Load()
		c := gather(t, s, s.newSale(t, operator, stock, 1), users)
		c.sample(w.db)
		r := c.rush(serving[0].Load, serving[1].Load)
		for i, path := range []string{now, now, before, before, now} {
			r.pass(users / 6)
			out := serving[i%2].Load()
			serving[i%2].Store(serving[1-i%2].Load())
			stop(t, out)
			serving[i%2].Store(launch(path))
		}
		r.wait()
		c.review(serving[1].Load())
		c.mustHold(w.db, afterAnInstance, serving[0].Load())
		if n := len(c.Told()); n != stock {
			t.Errorf("%d orders of %d units", n, stock)
		}
	})
}

// relay has a crowd accepted at one instance, whose orders another writes, of the given binary.
func (w *town) relay(t *testing.T, operator string, entry *server, path string) (*crowd, *server) {
	t.Helper()
	const users = 60
	c := gather(t, entry, entry.newSale(t, operator, 2*users, 1), users)
	writer := w.launch(t, path, nil)
	each(users, func(i int) {
		if op := c.insist(c.buyers[i], func(int) *server { return entry }); op.Outcome != history.OK {
			t.Errorf("%+v", op)
		}
	})
	return c, writer
}

// review has all that was told shown to its owners by an instance, for the record.
func (c *crowd) review(s *server) {
	owners, told := c.owners(), c.Told()
	each(len(told), func(i int) {
		if !c.look(s, owners[told[i].User].token, told[i].OrderID) {
			c.t.Errorf("order %s: no answer", told[i].OrderID)
		}
	})
}

func stop(t *testing.T, instances ...*server) {
	t.Helper()
	for _, s := range instances {
		if err := s.stop(t); err != nil {
			t.Errorf("ended with %v\n%s", err, s.log)
		}
	}
}
