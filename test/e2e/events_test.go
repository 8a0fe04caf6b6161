package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The event stream gives a snapshot at once and each change after it, to the owner only, and ends when the server
// stops (S7).
func TestOrderEvents(t *testing.T) {
	dir := t.TempDir()
	held := start(t, binary(t, ""), dir, "--demo", "--writers", "0") // nothing is written yet
	operator := held.signIn(t, operatorPhone)
	saleID := held.newSale(t, operator, 5, 1)
	tokens := held.testUsers(t, 2)
	waitForJournal(t, dir, 3)
	orderID := held.must(t, 202, "POST", "/api/v1/sales/"+saleID+"/orders", tokens[0], "").Body["orderId"].(string)
	if a := held.must(t, 200, "GET", "/api/v1/orders/"+orderID, tokens[0], ""); a.Body["status"] != "queued" {
		t.Fatal(a.Text)
	}
	if a := held.must(t, 200, "GET", "/api/v1/orders", tokens[0], ""); len(a.Body["items"].([]any)) != 1 {
		t.Fatal("a queued order is in the list", a.Text)
	}
	held.must(t, 404, "GET", "/api/v1/orders/"+orderID, tokens[1], "")
	held.must(t, 404, "GET", "/api/v1/orders/"+orderID+"/events", tokens[1], "")
	held.must(t, 401, "GET", "/api/v1/orders/"+orderID, "", "")

	stream := listen(t, held, orderID, tokens[0])
	if got := stream.next(t); got != "queued" {
		t.Fatal(got)
	}
	if err := held.stop(t); err != nil {
		t.Fatal("an open stream must not hold the server up:", err)
	}
	stream.end(t)

	s := start(t, binary(t, ""), dir, "--demo")
	until(t, "the order is written after a restart", func() bool {
		return s.must(t, 200, "GET", "/api/v1/orders/"+orderID, tokens[0], "").Body["status"] == "unpaid"
	})
	second := s.must(t, 202, "POST", "/api/v1/sales/"+saleID+"/orders", tokens[1], "").Body["orderId"].(string)
	stream = listen(t, s, second, tokens[1])
	for status := stream.next(t); status != "unpaid"; status = stream.next(t) {
		if status != "queued" {
			t.Fatal(status)
		}
	}
}

// events is an open stream.
type events struct {
	status chan string // closed when the stream ends
}

func listen(t *testing.T, s *server, orderID, token string) *events {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/api/v1/orders/"+orderID+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", "tandian_session="+token) // as EventSource does
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatal(resp.Status, resp.Header)
	}
	e := &events{status: make(chan string, 16)}
	done := make(chan struct{})
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		defer close(e.status)
		defer resp.Body.Close()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var o struct{ ID, Status string }
				if json.Unmarshal([]byte(data), &o) != nil || o.ID != orderID {
					o.Status = "not the order: " + data
				}
				e.status <- o.Status
			}
		}
	}()
	return e
}

func (e *events) next(t *testing.T) string {
	t.Helper()
	select {
	case status, ok := <-e.status:
		if !ok {
			t.Fatal("the stream has ended")
		}
		return status
	case <-time.After(patience):
		t.Fatal("no event came")
		return ""
	}
}

func (e *events) end(t *testing.T) {
	t.Helper()
	for {
		select {
		case _, ok := <-e.status:
			if !ok {
				return
			}
		case <-time.After(patience):
			t.Fatal("the stream did not end")
		}
	}
}
