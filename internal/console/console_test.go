package console_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/console"
	"tandian/internal/flashsale"
	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/queue/sqlqueue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
	"tandian/internal/order"
	"tandian/internal/payment"
)

// desk is the console behind its API; the header Role says who asks.
type desk struct {
	http.Handler
	db      *store.DB
	letters *order.DeadLetters
	metrics *prometheus.Registry
}

func newDesk(t *testing.T, db *store.DB) *desk {
	t.Helper()
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	broker, gate := sqlqueue.New(db, time.Now), flashsale.NewMemoryGate(time.Now)
	writer := &order.Writer{DB: db, Now: time.Now, Log: log, Metrics: order.NewMetrics(reg), Broker: broker, Batch: 1, NewID: rand.Text, Written: func([]id.ID) {}, Ended: func() {}}
	sales := flashsale.New(flashsale.Options{DB: db, Gate: gate, Broker: broker, Tomb: writer, Now: time.Now, Log: log, Metrics: flashsale.NewMetrics(reg)})
	a := api.New(api.Options{Version: "1", Log: log, Metrics: reg, Now: time.Now, Rand: rand.Reader, Limiter: limit.New(time.Now, limit.Override{User: 1_000_000}),
		ClientIP: func(*http.Request) string { return "127.0.0.1" },
		Resolve: func(r *http.Request) *identity.Caller {
			role := identity.Role(r.Header.Get("Role"))
			if role == "" {
				return &identity.Caller{}
			}
			return &identity.Caller{User: &identity.User{ID: 9, Roles: []identity.Role{role}}}
		}})
	letters := &order.DeadLetters{DB: db, Broker: broker, Tomb: writer, Now: time.Now, Log: log, Metrics: order.NewLetterMetrics(reg), Pause: time.Minute}
	(&console.Service{
		Letters:    letters,
		Reconciler: flashsale.NewReconciler(sales, gate, 0, reg),
		Money:      payment.New(payment.Options{DB: db, Now: time.Now, Log: log, Metrics: payment.NewMetrics(reg)}),
	}).Routes(a)
	return &desk{a.Handler(http.NotFoundHandler()), db, letters, reg}
}

// do sends a request as somebody with a role, "" for nobody.
func (d *desk) do(t *testing.T, role, method, path, body string) (status int, answer map[string]any) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1/console"+path, strings.NewReader(body))
	r.Header.Set("Role", role)
	r.Header.Set("Accept-Language", "en")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s %s: %s", method, path, w.Body)
	}
	return w.Code, answer
}

// letter keeps a dead letter and returns its id.
func (d *desk) letter(t *testing.T, n int, body []byte, reason string) (letterID string) {
	t.Helper()
	m := queue.Message{ID: fmt.Sprintf("order-6660478731078860%02d", n), Body: body}
	if err := order.KeepDeadLetter(t.Context(), d.db, order.TopicCreate, m, errors.New(reason), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := d.db.Read.NewRaw(`SELECT CAST(MAX(id) AS CHAR) FROM dead_letter`).Scan(t.Context(), &letterID); err != nil {
		t.Fatal(err)
	}
	return letterID
}

func reservation(t *testing.T, n int) []byte {
	t.Helper()
	body, err := order.Encode([]order.Reservation{{OrderID: id.ID(666047873107886000 + n), SaleID: 42, VoucherID: 7, UserID: 3, Amount: 4750, RequestID: "secret-key",
		AdmittedAt: time.Now().UnixMilli(), PayBefore: time.Now().Add(time.Hour).UnixMilli()}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Operators act, read-only ones look, nobody else sees anything.
func TestWhoMayWhat(t *testing.T) {
	d := newDesk(t, storetest.SQLite(t))
	letterID := d.letter(t, 1, reservation(t, 1), "CHECK")
	looks := []string{"GET /dead-letters", "GET /dead-letters/" + letterID, "GET /reconciliations", "GET /reconciliations/1", "GET /reconciliations/money"}
	acts := []string{"POST /reconciliations {}", "POST /reconciliations/1/apply", "POST /dead-letters/replay {\"dryRun\":true}", "POST /dead-letters/" + letterID + "/replay",
		"POST /dead-letters/" + letterID + "/ignore {\"note\":\"n\"}"}
	for role, want := range map[identity.Role][2]int{"": {401, 401}, identity.Shopper: {403, 403}, identity.Merchant: {403, 403}, identity.Clerk: {403, 403}, identity.ReadOnly: {0, 403}, identity.Operator: {0, 0}} {
		for i, requests := range [][]string{looks, acts} {
			for _, request := range requests {
				parts := append(strings.SplitN(request, " ", 3), "")
				status, answer := d.do(t, string(role), parts[0], parts[1], parts[2])
				if refused := status == 401 || status == 403; want[i] == 0 && refused || want[i] != 0 && status != want[i] {
					t.Errorf("%q, %s: %d %v", role, request, status, answer)
				}
			}
		}
	}
}

// A command leaves new letters to the servers: what it took in would be counted by metrics that nobody asks for.
func TestNewLettersAreLeftToTheServers(t *testing.T) {
	d := newDesk(t, storetest.SQLite(t))
	d.letter(t, 1, reservation(t, 1), "CHECK failed")
	died := func() float64 {
		t.Helper()
		families, err := d.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		n := 0.0
		for _, f := range families {
			for _, m := range f.Metric {
				if f.GetName() == "tandian_dead_letters_total" {
					n += m.Counter.GetValue()
				}
			}
		}
		return n
	}
	for _, step := range []struct {
		leave      time.Duration
		seen, died int
	}{{time.Hour, 0, 0}, {0, 1, 1}, {time.Hour, 1, 1}} {
		d.letters.Leave = step.leave
		_, answer := d.do(t, "operator", "GET", "/dead-letters", "")
		if n := len(answer["items"].([]any)); n != step.seen || died() != float64(step.died) {
			t.Errorf("%+v: %d seen, %v counted", step, n, died())
		}
	}
}

// A page neither repeats nor drops letters, and each filter narrows.
func TestLetterPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		d := newDesk(t, db)
		for n := range 7 {
			d.letter(t, n, reservation(t, n), "CHECK failed")
		}
		d.letter(t, 8, []byte("{"), "unreadable")
		seen, cursor := map[string]bool{}, ""
		for page := 0; page == 0 || cursor != ""; page++ {
			_, answer := d.do(t, "readonly", "GET", "/dead-letters?limit=3&cursor="+cursor, "")
			for _, item := range answer["items"].([]any) {
				seen[item.(map[string]any)["id"].(string)] = true
			}
			cursor, _ = answer["nextCursor"].(string)
		}
		if len(seen) != 8 {
			t.Errorf("%d letters seen", len(seen))
		}
		for query, want := range map[string]int{"state=pending": 8, "state=fixed": 0, "q=check": 7, "q=%25": 0, "topic=voucher.order.create": 8, "topic=other": 0,
			"orderId=666047873107886003": 1, "orderId=1": 0} {
			if _, answer := d.do(t, "readonly", "GET", "/dead-letters?"+query, ""); len(answer["items"].([]any)) != want {
				t.Errorf("%s: %v, want %d", query, answer, want)
			}
		}
		if status, answer := d.do(t, "readonly", "GET", "/dead-letters?cursor=x", ""); status != 422 {
			t.Errorf("%d %v", status, answer)
		}
		if status, answer := d.do(t, "operator", "GET", "/dead-letters/999", ""); status != 404 || answer["code"] != "dead_letter.not_found" {
			t.Errorf("%d %v", status, answer)
		}
	})
}

// What a letter shows: the reservation without the buyer's key, an order that exists by its status, nothing of a
// stranger's message that might be a phone or a token.
func TestWhatALetterShows(t *testing.T) {
	d := newDesk(t, storetest.SQLite(t))
	letterID := d.letter(t, 1, reservation(t, 1), "CHECK")
	status, answer := d.do(t, "readonly", "GET", "/dead-letters/"+letterID, "")
	text := fmt.Sprint(answer)
	if r, _ := answer["reservations"].([]any); status != 200 || len(r) != 1 || r[0].(map[string]any)["status"] != "queued" || answer["messageId"] != "order-666047873107886001" || strings.Contains(text, "secret-key") {
		t.Errorf("%d %v", status, answer)
	}
	strange := d.letter(t, 2, []byte(`{"phone":"13812345678","token":"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"`), "forged")
	_, answer = d.do(t, "readonly", "GET", "/dead-letters/"+strange, "")
	if text := fmt.Sprint(answer); strings.Contains(text, "13812345678") || strings.Contains(text, "ABCDEFGHIJKLMNOPQRST") || answer["replayable"] != false || answer["raw"] == nil {
		t.Error(text)
	}
	if status, answer := d.do(t, "operator", "POST", "/dead-letters/"+strange+"/replay", ""); status != 409 || answer["code"] != "dead_letter.not_ours" {
		t.Errorf("%d %v", status, answer)
	}
	if status, answer := d.do(t, "operator", "POST", "/dead-letters/"+strange+"/ignore", `{"note":"a\u202eb"}`); status != 422 {
		t.Errorf("W23: %d %v", status, answer)
	}
	if status, answer := d.do(t, "operator", "POST", "/dead-letters/"+strange+"/ignore", `{"note":"nobody's"}`); status != 200 || answer["state"] != "ignored" || answer["actorId"] != "9" {
		t.Errorf("%d %v", status, answer)
	}
}

// Each kind of difference, and its step, is said in both languages and with both numbers.
func TestEachDifferenceIsSaid(t *testing.T) {
	d := newDesk(t, storetest.SQLite(t))
	var found []flashsale.Difference
	for _, k := range flashsale.Kinds() {
		found = append(found, flashsale.Difference{SaleID: 42, Kind: k, Is: 123, ShouldBe: 456, Action: flashsale.ActReload})
	}
	body, err := json.Marshal(flashsale.Report{At: time.Now(), Differences: found, Accounts: []flashsale.Account{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Exec(context.WithoutCancel(t.Context()), d.db.Write, `INSERT INTO reconciliation (at, actor_id, sales, differences, report) VALUES (1, 0, 1, ?, ?)`, len(found), body); err != nil {
		t.Fatal(err)
	}
	_, answer := d.do(t, "readonly", "GET", "/reconciliations/1", "")
	said := answer["found"].([]any)
	if len(said) != len(flashsale.Kinds()) {
		t.Fatal(answer)
	}
	for _, item := range said {
		f := item.(map[string]any)
		if cause, _ := f["cause"].(string); !strings.Contains(cause, "123") || !strings.Contains(cause, "456") || strings.Contains(cause, "%!") || f["step"] == "" {
			t.Errorf("%v", f)
		}
	}
}
