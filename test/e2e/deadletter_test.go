package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tandian/internal/kit/store"
)

// operated is a server whose database the test can reach, and the flags by which a command finds the same stores.
type operated struct {
	*server
	launch func(args ...string) *server
	db     *store.DB
	flags  []string
}

// onOperated runs a test in both modes, on each queue. The first server writes no orders: its consumer is stopped. Nothing is sent again
// meanwhile by itself, so that each order dies once.
func onOperated(t *testing.T, test func(t *testing.T, o *operated)) {
	t.Run("embedded", func(t *testing.T) {
		dir := t.TempDir()
		o := &operated{flags: []string{"--data-dir", dir}}
		o.launch = func(args ...string) *server {
			return start(t, binary(t, ""), dir, append(args, "--demo", "--dead-letter-retry", "1h", "--sweep-after", "1m")...)
		}
		o.server = o.launch("--writers", "0")
		var err error
		if o.db, err = store.OpenSQLite(t.Context(), filepath.Join(dir, "tandian.db")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = o.db.Close() })
		test(t, o)
	})
	for name, queue := range map[string]func(t *testing.T) *town{
		"rabbit":  production,
		"streams": func(t *testing.T) *town { return production(t).streaming(t) },
	} {
		t.Run(name, func(t *testing.T) {
			w := queue(t)
			o := &operated{flags: w.flags, db: w.db}
			o.launch = func(args ...string) *server {
				return w.launch(t, binary(t, ""), nil, append(args, "--dead-letter-retry", "1h", "--sweep-after", "1m")...)
			}
			o.server = o.launch("--writers", "0")
			test(t, o)
		})
	}
}

// startConsuming replaces the server by one that writes orders.
func (o *operated) startConsuming(t *testing.T) {
	t.Helper()
	if err := o.stop(t); err != nil {
		t.Fatalf("ended with %v\n%s", err, o.log)
	}
	o.server = o.launch()
}

// run runs a command on the stores and returns its output and its exit code.
func (o *operated) run(t *testing.T, args ...string) (stdout string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary(t, ""), append(args, o.flags...)...)
	var out, complaints bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = bareEnv(), &out, &complaints
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if complaints.Len() > 0 {
		t.Logf("%v: %s", args, complaints.String())
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// breakOrders makes the database refuse new orders, tombstones excepted, until mend is called.
func (o *operated) breakOrders(t *testing.T) (mend func()) {
	t.Helper()
	breaks, mends := `CREATE TRIGGER broken BEFORE INSERT ON orders WHEN NEW.status <> 7 BEGIN SELECT RAISE(ABORT, 'broken on purpose'); END`, `DROP TRIGGER broken`
	if strings.HasPrefix(o.db.Name, "MySQL") {
		breaks, mends = `ALTER TABLE orders ADD CONSTRAINT broken_on_purpose CHECK (status = 7)`, `ALTER TABLE orders DROP CONSTRAINT broken_on_purpose`
	}
	exec := func(statement string) {
		t.Helper()
		if _, err := o.db.Write.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec(breaks)
	return func() { exec(mends) }
}

func (o *operated) grab(t *testing.T, saleID, token string) (orderID string) {
	t.Helper()
	return o.must(t, 202, "POST", "/api/v1/sales/"+saleID+"/orders", token, "").Body["orderId"].(string)
}

// becomes waits for an order's status.
func (o *operated) becomes(t *testing.T, orderID, token, status string) {
	t.Helper()
	until(t, "the order is "+status, func() bool {
		return o.do(t, "GET", "/api/v1/orders/"+orderID, token, "").Body["status"] == status
	})
}

// letters lists the pending dead letters of an order by the API.
func (o *operated) letters(t *testing.T, operator, query string) (all []map[string]any) {
	t.Helper()
	for _, item := range o.must(t, 200, "GET", "/api/v1/console/dead-letters?"+query, operator, "").Body["items"].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}

// S9, F27: an operator stops a consumer, breaks an order on purpose, sees it as a dead letter with its reason, mends the
// cause, replays it and sees the order written; first through the API, then through the command line.
func TestDeadLetterIsReplayedByAnOperator(t *testing.T) {
	onOperated(t, func(t *testing.T, o *operated) {
		operator := o.signIn(t, operatorPhone)
		saleID := o.newSale(t, operator, 10, 1)
		buyers := o.testUsers(t, 3)
		if len(o.flags) == 2 {
			waitForJournal(t, o.flags[1], 4)
		}
		byAPI, byCommand, ignored := o.grab(t, saleID, buyers[0]), o.grab(t, saleID, buyers[1]), o.grab(t, saleID, buyers[2])
		mend := o.breakOrders(t)
		o.startConsuming(t)
		operator = o.signIn(t, operatorPhone)
		until(t, "the three orders are dead letters", func() bool { return len(o.letters(t, operator, "state=pending")) == 3 })
		o.becomes(t, byAPI, buyers[0], "queued")
		if i := o.inspect(t, operator, saleID); i.Gate.Stock != 7 || i.Gate.Pending != 3 || i.DB.Live != 0 {
			t.Fatalf("the units stay taken: %+v", i)
		}

		l := o.letters(t, operator, "orderId="+byAPI)[0]
		reason, _ := l["reason"].(string)
		if !strings.Contains(reason, "broken") || l["attempts"] != 3.0 || l["topic"] != "voucher.order.create" || l["replayable"] != true {
			t.Fatal(l)
		}
		path := "/api/v1/console/dead-letters/" + l["id"].(string)
		detail := o.must(t, 200, "GET", path, operator, "").Body
		if r := detail["reservations"].([]any)[0].(map[string]any); r["orderId"] != byAPI || r["saleId"] != saleID || r["status"] != "queued" {
			t.Fatal(detail)
		}
		shopper := o.signIn(t, shopperPhone)
		for _, refused := range []string{"GET /console/dead-letters", "GET " + strings.TrimPrefix(path, "/api/v1"), "POST " + strings.TrimPrefix(path, "/api/v1") + "/replay"} {
			method, path, _ := strings.Cut(refused, " ")
			o.must(t, 403, method, "/api/v1"+path, shopper, "")
		}
		mend()
		if a := o.must(t, 200, "POST", path+"/replay", operator, ""); a.Body["state"] != "pending" || a.Body["sent"] != 1.0 {
			t.Fatal("sent again is not fixed yet", a.Text)
		}
		o.becomes(t, byAPI, buyers[0], "unpaid")
		until(t, "the letter is fixed", func() bool { return o.must(t, 200, "GET", path, operator, "").Body["state"] == "fixed" })
		if a := o.must(t, 409, "POST", path+"/replay", operator, ""); a.Body["code"] != "dead_letter.ended" {
			t.Fatal(a.Text)
		}

		out, code := o.run(t, "dlq", "list", "--order", byCommand, "--json")
		var list struct{ Items []struct{ ID, Reason string } }
		if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list.Items) != 1 || !strings.Contains(list.Items[0].Reason, "broken") {
			t.Fatal(code, err, out)
		}
		if out, code := o.run(t, "dlq", "show", list.Items[0].ID); code != 0 || !strings.Contains(out, byCommand) {
			t.Fatal(code, out)
		}
		if out, code := o.run(t, "dlq", "replay", "--q", "broken", "--dry-run"); code != 0 || !strings.HasPrefix(out, "2 match, 2 would be sent again") {
			t.Fatal(code, out)
		}
		if out, code := o.run(t, "dlq", "replay", list.Items[0].ID); code != 0 {
			t.Fatal(code, out)
		}
		o.becomes(t, byCommand, buyers[1], "unpaid")
		if out, code := o.run(t, "dlq", "list"); code != 0 || !strings.Contains(out, ignored) || strings.Contains(out, byAPI) {
			t.Fatal(code, out)
		}
		last := o.letters(t, operator, "orderId="+ignored)[0]["id"].(string)
		if out, code := o.run(t, "dlq", "ignore", last, "--note", "the buyer was called"); code != 0 || !strings.Contains(out, "ignored") {
			t.Fatal(code, out)
		}
		o.becomes(t, ignored, buyers[2], "failed")
		until(t, "its unit is back", func() bool {
			i := o.inspect(t, operator, saleID)
			return i.AtRest && i.Gate.Stock == 8 && i.DB.Stock == 8 && i.DB.Live == 2
		})
		if out, code := o.run(t, "dlq", "ignore", last, "--note", "again"); code != 1 {
			t.Fatal(code, out)
		}
		admin := &server{URL: o.AdminURL, log: o.log}
		for _, want := range []string{`tandian_dead_letters{state="fixed",topic="voucher.order.create"} 2`, `tandian_dead_letters{state="pending",topic="voucher.order.create"} 0`,
			`tandian_dead_letters_total{topic="voucher.order.create"} 3`} {
			until(t, want, func() bool { return strings.Contains(admin.must(t, 200, "GET", "/metrics", "", "").Text, want) })
		}
		o.reconciles(t, operator, saleID)
	})
}

// reconciles lets somebody write the stock by hand, and has it mended by the command line (P8).
func (o *operated) reconciles(t *testing.T, operator, saleID string) {
	t.Helper()
	if out, code := o.run(t, "reconcile"); code != 0 || !strings.Contains(out, "no differences") {
		t.Fatal(code, out)
	}
	if _, err := o.db.Write.ExecContext(t.Context(), `UPDATE sale SET stock = stock - 3 WHERE id = `+saleID); err != nil {
		t.Fatal(err)
	}
	out, code := o.run(t, "reconcile", "--sale", saleID, "--json")
	var run struct {
		ID    string
		Found []struct {
			Kind, Cause, Action string
			Is, ShouldBe        int64
		}
	}
	if err := json.Unmarshal([]byte(out), &run); err != nil || code != 3 || len(run.Found) != 1 || run.Found[0].Kind != "sql_stock" || run.Found[0].Is != 5 || run.Found[0].ShouldBe != 8 {
		t.Fatal(code, err, out)
	}
	shown := o.must(t, 200, "GET", "/api/v1/console/reconciliations/"+run.ID, operator, "", "Accept-Language", "zh").Body["found"].([]any)[0].(map[string]any)
	if cause, _ := shown["cause"].(string); !strings.Contains(cause, "5") || !strings.Contains(cause, "数据库库存") {
		t.Fatal(shown)
	}
	if out, code := o.run(t, "reconcile", "--apply", run.ID); code != 0 || !strings.Contains(out, "outcome: done") {
		t.Fatal(code, out)
	}
	if out, code := o.run(t, "reconcile", "--apply", run.ID); code != 1 {
		t.Fatal("a plan is used once", code, out)
	}
	if i := o.inspect(t, operator, saleID); i.DB.Stock != 8 || i.Gate.Stock != 8 {
		t.Fatalf("%+v", i)
	}
	if out, code := o.run(t, "reconcile", "--sale", saleID); code != 0 {
		t.Fatal(code, out)
	}
}

// S10: a written order is posted to the operator's webhook, again after a failure, with the same id each time.
func TestWebhookHearsOfEachOrder(t *testing.T) {
	var asked atomic.Int64
	heard := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			heard <- r.Header.Get("webhook-id")
			return
		}
		var n struct {
			ID     string
			Orders []struct{ OrderID string }
		}
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil || n.ID != r.Header.Get("webhook-id") || len(n.Orders) != 1 || !strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
			t.Errorf("%+v %v %v", n, r.Header, err)
			return
		}
		heard <- n.ID
		heard <- n.Orders[0].OrderID
	}))
	defer receiver.Close()
	s := start(t, binary(t, ""), t.TempDir(), "--demo", "--notify-webhook-url", receiver.URL, "--notify-webhook-secret", "0123456789abcdef")
	saleID := s.newSale(t, s.signIn(t, operatorPhone), 1, 1)
	orderID := s.must(t, 202, "POST", "/api/v1/sales/"+saleID+"/orders", s.signIn(t, shopperPhone), "").Body["orderId"].(string)
	next := func() string {
		select {
		case v := <-heard:
			return v
		case <-time.After(patience):
			t.Fatalf("nothing was heard\n%s", s.log)
			return ""
		}
	}
	if first, second, about := next(), next(), next(); first != second || about != orderID {
		t.Fatal(fmt.Sprint("heard ", first, second, about, ", want ", orderID))
	}
}

// W32: the command line's door is on the admin listener only, and opens with this process's token only.
func TestCommandsNeedTheToken(t *testing.T) {
	dir := t.TempDir()
	s := start(t, binary(t, ""), dir, "--demo")
	admin := &server{URL: s.AdminURL, log: s.log}
	for _, token := range []string{"", "Bearer ", "Bearer guessed", s.signIn(t, operatorPhone)} {
		if a := admin.do(t, "GET", "/api/v1/console/dead-letters", token, ""); a.Status != 401 {
			t.Errorf("%q: %d %s", token, a.Status, a.Text)
		}
	}
	if a := admin.do(t, "GET", "/api/v1/me", "", ""); a.Status != 404 {
		t.Errorf("the admin listener serves more than the console: %d %s", a.Status, a.Text)
	}
}
