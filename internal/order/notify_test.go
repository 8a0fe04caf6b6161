package order

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/kit/store"
	"tandian/internal/kit/store/storetest"
)

// The example that the Standard Webhooks libraries test themselves with.
func TestWebhookSignatureOfTheSpecification(t *testing.T) {
	s, err := NewWebhookSender("http://localhost", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	got := s.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if _, err := NewWebhookSender("http://localhost", "whsec_!", time.Now); err == nil {
		t.Fatal("a secret that isn't base64 after whsec_ must be refused")
	}
}

// receiver is a webhook server whose answers the test chooses.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	answer func(w http.ResponseWriter, r *http.Request) // guarded by mu
	got    []received                                   // guarded by mu
}

// will sets the answers to come and forgets what has been received.
func (rc *receiver) will(answer func(http.ResponseWriter, *http.Request)) {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	rc.answer, rc.got = answer, nil
}

func (rc *receiver) all() []received {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return slices.Clone(rc.got)
}

type received struct {
	header http.Header
	body   []byte
}

func newReceiver(t *testing.T) *receiver {
	rc := &receiver{}
	rc.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost {
			t.Error(r.Method, err)
		}
		rc.mu.Lock()
		rc.got = append(rc.got, received{r.Header, body})
		answer := rc.answer
		rc.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(rc.Close)
	return rc
}

const webhookSecret = "a secret of the operator's"

// notifier posts to the receiver about one order in the database.
func notifier(t *testing.T, db *store.DB, url string) *Notifier {
	t.Helper()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	row := rowOf(Reservation{OrderID: 77, SaleID: 42, VoucherID: 7, UserID: 3, Amount: 4750, RequestID: "request-1", AdmittedAt: at.UnixMilli(), PayBefore: at.Add(30 * time.Minute).UnixMilli()}, at.UnixMilli())
	if _, err := db.Write.NewInsert().Model(row).Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := NewWebhookSender(url, webhookSecret, func() time.Time { return at })
	if err != nil {
		t.Fatal(err)
	}
	return &Notifier{DB: db, Sender: s, Log: slog.New(slog.DiscardHandler)}
}

func event(attempts int) []queue.Message {
	return []queue.Message{{ID: "event-1", Body: []byte(`{"v":1,"orderIds":["77"]}`), Attempts: attempts}}
}

// verdictSeen is what the notifier says of one message.
type verdictSeen struct {
	acked, requeued bool
	retry           time.Duration
	dead            error
}

func verdictOf(t *testing.T, verdicts []queue.Verdict) (v verdictSeen) {
	t.Helper()
	queue.Sort(1, verdicts, queue.Cases{Ack: func(int) { v.acked = true }, Requeue: func(int) { v.requeued = true },
		Retry: func(_ int, after time.Duration) { v.retry = after }, Dead: func(_ int, err error) { v.dead = err }})
	return v
}

// S10: signed so that openssl agrees, the same every time, and without anything private.
func TestWebhookArrives(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		rc := newReceiver(t)
		rc.will(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
		n := notifier(t, db, rc.URL)
		for attempt := range 2 {
			if v := verdictOf(t, n.Handle(t.Context(), event(attempt))); !v.acked {
				t.Fatalf("%+v", v)
			}
		}
		got := rc.all()
		first, second := got[0], got[1]
		if string(first.body) != string(second.body) || first.header.Get("webhook-id") != "event-1" || second.header.Get("webhook-id") != "event-1" {
			t.Errorf("the second attempt differs: %s %s", first.body, second.body)
		}
		var posted Notification
		if err := json.Unmarshal(first.body, &posted); err != nil || posted.ID != "event-1" || posted.Type != "order.created" || len(posted.Orders) != 1 || posted.Orders[0].OrderID != 77 ||
			posted.Orders[0].SaleID != 42 || posted.Orders[0].UserID != id.ID(3) || posted.Orders[0].Amount != 4750 {
			t.Errorf("%s (%v)", first.body, err)
		}
		if strings.Contains(string(first.body), "request-1") {
			t.Error("the buyer's key is nobody else's:", string(first.body))
		}
		signed := "event-1." + first.header.Get("webhook-timestamp") + "." + string(first.body)
		if want := "v1," + openssl(t, signed); first.header.Get("webhook-signature") != want || first.header.Get("Content-Type") != "application/json" {
			t.Errorf("%v, want %s", first.header, want)
		}
	})
}

// openssl signs independently of us.
func openssl(t *testing.T, signed string) string {
	t.Helper()
	cmd := exec.Command("openssl", "dgst", "-sha256", "-mac", "HMAC", "-macopt", "hexkey:"+hex.EncodeToString([]byte(webhookSecret)), "-binary")
	cmd.Stdin = strings.NewReader(signed)
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		t.Skip("no openssl")
	}
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(out)
}

// S10: what a receiver does wrong, and what becomes of the notification.
func TestWebhookFails(t *testing.T) {
	db := storetest.SQLite(t)
	rc := newReceiver(t)
	n := notifier(t, db, rc.URL)
	status := func(code int, header ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i+1 < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
		}
	}
	for name, tc := range map[string]struct {
		answer   func(http.ResponseWriter, *http.Request)
		attempts int
		retry    time.Duration // 0 = dead
	}{
		"500":                        {status(500), 0, time.Second},
		"500 again":                  {status(500), 3, 8 * time.Second},
		"500 for the last time":      {status(500), notifyAttempts - 1, 0},
		"404 may be mended":          {status(404), 0, time.Second},
		"503 come back in a minute":  {status(503, "Retry-After", "60"), 0, time.Minute},
		"429 come back tomorrow":     {status(429, "Retry-After", "86400"), 0, notifyLongest},
		"410 gone":                   {status(410), 0, 0},
		"a redirect is not followed": {status(307, "Location", rc.URL+"/elsewhere"), 0, time.Second},
		"the connection is cut":      {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 0, time.Second},
		"an endless answer is cut":   {endless, 0, 0}, // 200
	} {
		t.Run(name, func(t *testing.T) {
			rc.will(tc.answer)
			v := verdictOf(t, n.Handle(t.Context(), event(tc.attempts)))
			if n := len(rc.all()); n != 1 {
				t.Errorf("asked %d times", n)
			}
			switch {
			case name == "an endless answer is cut":
				if !v.acked {
					t.Errorf("%+v", v)
				}
			case v.retry != tc.retry || (tc.retry == 0) != (v.dead != nil):
				t.Errorf("%+v, want a retry after %v", v, tc.retry)
			}
			if v.dead != nil && strings.Contains(v.dead.Error(), rc.URL) {
				t.Error("the reason shows the address:", v.dead)
			}
		})
	}
}

// endless says yes and then goes on and on.
func endless(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := w.Write(make([]byte, 32<<10)); err != nil {
			return
		}
	}
}

// S10: a receiver that hangs is given up on in time; when we are stopped meanwhile no attempt is counted.
func TestWebhookHangs(t *testing.T) {
	rc := newReceiver(t)
	arrived, release := make(chan struct{}, 2), make(chan struct{})
	rc.will(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	n := notifier(t, storetest.SQLite(t), rc.URL)
	n.Sender.(*WebhookSender).client.Timeout = 50 * time.Millisecond
	if v := verdictOf(t, n.Handle(t.Context(), event(0))); v.retry != time.Second {
		t.Errorf("%+v", v)
	}
	<-arrived
	n.Sender.(*WebhookSender).client.Timeout = time.Hour
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan []queue.Verdict, 1)
	go func() { done <- n.Handle(ctx, event(0)) }()
	<-arrived
	stop()
	if v := verdictOf(t, <-done); !v.requeued {
		t.Errorf("%+v", v)
	}
	close(release)
}

// F27: an event that can't be read is a dead letter at once.
func TestUnreadableEvent(t *testing.T) {
	n := &Notifier{DB: storetest.SQLite(t), Sender: LogSender{slog.New(slog.DiscardHandler)}, Log: slog.New(slog.DiscardHandler)}
	for _, body := range []string{"", "{", `{"v":2,"orderIds":["1"]}`, `{"v":1,"orderIds":[]}`, `{"v":1,"orderIds":["-1"]}`} {
		if v := verdictOf(t, n.Handle(t.Context(), []queue.Message{{ID: "m", Body: []byte(body)}})); v.dead == nil {
			t.Errorf("%s: %+v", body, v)
		}
	}
	if v := verdictOf(t, n.Handle(t.Context(), event(0))); !v.acked {
		t.Errorf("%+v", v)
	}
}
