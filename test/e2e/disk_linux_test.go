package e2e

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"tandian/internal/kit/store"
	"tandian/test/history"
)

// F83: the embedded mode's files are cut off at their ends after a kill. The server either keeps every order that was
// told, or doesn't start and says in one line what is wrong and what to do.
func TestFilesCutOffAfterAKill(t *testing.T) {
	const buyers = 60
	dir, seed := t.TempDir(), rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := start(t, binary(t, ""), dir, "--demo")
	c := gather(t, s, s.newSale(t, s.signIn(t, operatorPhone), buyers, 1), buyers)
	each(buyers, func(i int) { c.insist(c.buyers[i], func(int) *server { return s }) })
	s.kill(t)
	told := c.Told()
	if len(told) != buyers {
		t.Fatalf("%d ids were told", len(told))
	}
	refused := 0
	for _, file := range []string{"tandian.db", "tandian.db-wal"} {
		for _, n := range []int{1, 4095, 1 + random.IntN(4096)} {
			copied := copyFiles(t, dir)
			path := filepath.Join(copied, file)
			info, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, max(0, info.Size()-int64(n)))
			}
			if err != nil {
				t.Fatal(err)
			}
			if complaint := startsOrRefuses(t, copied); complaint != "" {
				refused++
				if !strings.Contains(complaint, file) || !strings.Contains(complaint, "; restore ") || strings.Count(complaint, "\n") != 1 {
					t.Errorf("%s cut by %d: refused with\n%s", file, n, complaint)
				}
				if n != 1 {
					continue
				}
				out, code := output(t, "doctor", "--data-dir", copied, "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0")
				if code != 3 || !strings.Contains(out, "restore ") {
					t.Errorf("%s cut by %d: the doctor ends with %d\n%s", file, n, code, out)
				}
				continue
			}
			db := openSQLite(t, copied)
			for _, op := range told {
				if status := rowOf(t, db, op.OrderID); status == 0 {
					t.Errorf("%s cut by %d: order %s is lost, and nobody says so", file, n, op.OrderID)
				}
			}
		}
	}
	if refused == 0 {
		t.Error("no cut was seen")
	}
	if complaint := startsOrRefuses(t, copyFiles(t, dir)); complaint != "" {
		t.Errorf("what was not cut is refused: %s", complaint)
	}
}

// copyFiles copies a stopped server's folder.
func copyFiles(t *testing.T, dir string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// startsOrRefuses runs a server on a folder until it has written every order that waits, or returns what it complains of.
func startsOrRefuses(t *testing.T, dir string) string {
	t.Helper()
	ready := filepath.Join(dir, "ready.json")
	_ = os.Remove(ready)
	var complaint bytes.Buffer
	cmd := exec.Command(binary(t, ""), "serve", "--data-dir", dir, "--addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0", "--ready-file", ready, "--log-level", "error")
	cmd.Env, cmd.Stderr = bareEnv(), &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	gone := false
	until(t, "the server serves or gives up", func() bool {
		select {
		case <-ended:
			gone = true
			return true
		default:
			_, err := os.Stat(ready)
			return err == nil
		}
	})
	if gone {
		if cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("exit code %d", cmd.ProcessState.ExitCode())
		}
		return complaint.String()
	}
	db := openSQLite(t, dir)
	until(t, "the queue is empty", func() bool {
		n, err := db.Read.NewSelect().Table("queue_message").Where("topic = 'voucher.order.create'").Count(t.Context())
		return err == nil && n == 0
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || complaint.Len() > 0 {
		t.Errorf("ended with %v\n%s", err, complaint.String())
	}
	return ""
}

// rowOf is the status of an order's row, 0 if there is none.
func rowOf(t *testing.T, db *store.DB, orderID string) (status int) {
	t.Helper()
	if err := db.Read.NewRaw(`SELECT COALESCE(MAX(status), 0) FROM orders WHERE id = ?`, orderID).Scan(t.Context(), &status); err != nil {
		t.Fatal(err)
	}
	return status
}

// limitFiles lets no file of the server's grow beyond so many bytes: a write there fails, as on a disk that is full.
func (s *server) limitFiles(t *testing.T, most uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, nil, &old); err != nil {
		t.Fatal(err)
	}
	old.Cur = min(most, old.Max)
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_FSIZE, &old, nil); err != nil {
		t.Fatal(err)
	}
}

// F84: the embedded mode's disk is full while a sale runs. Buyers are told to ask again, nobody is told of an order that
// isn't on disk, what was written can still be read, and readiness says what is wrong. With room again everybody gets what
// his key means, also after a kill in between.
func TestDiskFull(t *testing.T) {
	const users, stock = 120, 90
	dir := t.TempDir()
	s := start(t, binary(t, ""), dir, "--demo", "--confirm-timeout", "500ms")
	operator := s.signIn(t, operatorPhone)
	c := gather(t, s, s.newSale(t, operator, stock, 1), users)
	waitForJournal(t, dir, users+1)
	db := openSQLite(t, dir)
	c.sample(db)
	third := func(i int, ask func(b *buyer)) { each(users/3, func(k int) { ask(c.buyers[i*users/3+k]) }) }
	third(0, func(b *buyer) { c.insist(b, func(int) *server { return s }) })
	first := c.Told()
	until(t, "the first orders are written", func() bool { return rowOf(t, db, first[len(first)-1].OrderID) != 0 })

	s.limitFiles(t, 1)
	third(1, func(b *buyer) {
		if op := c.ask(s, b); op.Outcome == history.OK || op.Code != "sale.unknown" && op.Code != "sale.busy" {
			t.Errorf("on a full disk a buyer is told %s %s", op.OrderID, op.Code)
		}
	})
	until(t, "readiness says so", func() bool {
		a := s.do(t, "GET", "/readyz", "", "")
		return a.Status == 503 && strings.Contains(a.Text, `"database":"down"`)
	})
	owner := c.owners()[first[0].User].token
	for _, path := range []string{"/healthz", "/", "/api/v1/sales", "/api/v1/shops", "/api/v1/sales/" + c.sale} {
		s.must(t, 200, "GET", path, "", "")
	}
	s.must(t, 200, "GET", "/api/v1/orders/"+first[0].OrderID, owner, "")
	for _, write := range []struct{ method, path, token, body string }{
		{"POST", "/api/v1/orders/" + first[0].OrderID + "/close", owner, ""},
		{"POST", "/api/v1/orders/" + first[0].OrderID + "/payments", owner, `{"provider":"sandbox"}`},
		{"PATCH", "/api/v1/me", owner, `{"nickname":"没写成"}`},
		{"POST", "/api/v1/sales/" + c.sale + "/stock", operator, `{"delta":5,"reason":"no room"}`},
		{"PATCH", "/api/v1/shops/1", operator, `{"name":"没写成"}`},
	} {
		a := s.do(t, write.method, write.path, write.token, write.body)
		if code, _ := a.Body["code"].(string); a.Status != 503 || code == "" {
			t.Errorf("%s %s: %d %s", write.method, write.path, a.Status, a.Text)
		}
	}
	full := s.log.String()

	s.limitFiles(t, unix.RLIM_INFINITY)
	began := time.Now()
	until(t, "the server is ready again", func() bool { return s.do(t, "GET", "/readyz", "", "").Status == 200 })
	t.Logf("ready %v after there was room", time.Since(began))
	third(1, func(b *buyer) {
		if op := c.insist(b, func(int) *server { return s }); op.Outcome != history.OK {
			t.Errorf("with room again %s is told %s", b.key, op.Code)
		}
	})

	s.limitFiles(t, 1)
	third(2, func(b *buyer) { c.ask(s, b) })
	s.kill(t)
	s = start(t, binary(t, ""), dir, "--demo")
	third(2, func(b *buyer) { c.insist(b, func(int) *server { return s }) })
	r := c.mustHold(db, afterAStore, s)
	if n := len(c.Told()); n != stock {
		t.Errorf("%d ids were told of %d units: %v", n, stock, r)
	}
	if strings.Contains(full, "panic") {
		t.Errorf("a full disk makes it panic:\n%s", full)
	}
	var verdict string
	if err := db.Read.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("the database is %s (%v)", verdict, err)
	}
}
