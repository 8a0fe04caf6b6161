package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"
)

// api is the unhurried half of the client: set-up, console and time. The load
// itself goes through clients.
type api struct {
	base  string
	http  *http.Client
	token string // the operator's
}

func newAPI(base string) *api {
	return &api{base: strings.TrimSuffix(base, "/") + "/api/v1", http: &http.Client{
		Timeout:   60 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 4, IdleConnTimeout: 4 * time.Second},
		// The figures and tokens asked for live at the address given, nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// StatusError is an answer other than 2xx.
type StatusError struct {
	Request string
	Status  int
	Code    string // of the problem document
	Detail  string
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %d %s %s", e.Request, e.Status, e.Code, e.Detail)
}

// call sends in (if any) as JSON and reads the answer into out (if any).
func (a *api) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.token != "" {
		req.Header.Set("Authorization", a.token)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return &StatusError{method + " " + path, resp.StatusCode, jsonField(b, "code"), jsonField(b, "detail")}
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (a *api) signIn(ctx context.Context, phone, password string) error {
	var session struct{ Token string }
	in := map[string]string{"phone": phone, "password": password}
	a.token = ""
	if err := a.call(ctx, http.MethodPost, "/auth/sessions", in, &session); err != nil {
		return fmt.Errorf("sign the operator in: %w", err)
	}
	a.token = session.Token
	return nil
}

// clockOffset is the server's clock minus ours, good to half the shortest of a
// few round trips.
func (a *api) clockOffset(ctx context.Context) (offset time.Duration, err error) {
	best := time.Duration(math.MaxInt64)
	for range 8 {
		var answer struct{ Now time.Time }
		start := time.Now()
		if err := a.call(ctx, http.MethodGet, "/time", nil, &answer); err != nil {
			return 0, err
		}
		if took := time.Since(start); took < best {
			best, offset = took, answer.Now.Sub(start.Add(took/2))
		}
	}
	return offset, nil
}

// testUsers makes n users and returns their tokens.
func (a *api) testUsers(ctx context.Context, n int) ([]string, error) {
	const atOnce = 5000
	tokens := make([]string, 0, n)
	for len(tokens) < n {
		var answer struct{ Tokens []string }
		want := min(atOnce, n-len(tokens))
		if err := a.call(ctx, http.MethodPost, "/console/test-users", map[string]int{"count": want}, &answer); err != nil {
			return nil, fmt.Errorf("make test users (the server needs demo data or --allow-test-users): %w", err)
		}
		if len(answer.Tokens) != want {
			return nil, fmt.Errorf("make test users: got %d of %d", len(answer.Tokens), want)
		}
		tokens = append(tokens, answer.Tokens...)
	}
	return tokens, nil
}

// sale is one flash sale made for a run.
type sale struct {
	id         string
	stock      int
	limit      int
	begin, end time.Time // by the server's clock
}

// hotShop returns a shop to sell and read at.
func (a *api) hotShop(ctx context.Context) (string, error) {
	var shops struct{ Items []struct{ ID string } }
	if err := a.call(ctx, http.MethodGet, "/shops?limit=1", nil, &shops); err != nil {
		return "", fmt.Errorf("find a shop: %w", err)
	}
	if len(shops.Items) == 0 {
		return "", fmt.Errorf("find a shop: the server has none")
	}
	return shops.Items[0].ID, nil
}

// makeSale creates a voucher at the shop and puts it on sale.
func (a *api) makeSale(ctx context.Context, shop, title string, s sale) (sale, error) {
	var made struct{ ID string }
	voucher := map[string]any{"title": title, "subTitle": "bench", "rules": "bench", "payValue": 4750, "faceValue": 5000}
	if err := a.call(ctx, http.MethodPost, "/shops/"+shop+"/vouchers", voucher, &made); err != nil {
		return s, fmt.Errorf("make a voucher: %w", err)
	}
	in := map[string]any{
		"stock": s.stock, "limitPerUser": s.limit,
		"beginsAt": s.begin.Format(time.RFC3339Nano), "endsAt": s.end.Format(time.RFC3339Nano),
	}
	if err := a.call(ctx, http.MethodPost, "/vouchers/"+made.ID+"/sale", in, &made); err != nil {
		return s, fmt.Errorf("make a sale: %w", err)
	}
	s.id = made.ID
	return s, nil
}

// saleState is the operator's view of a sale.
type saleState struct {
	LimitPerUser int
	Released     int64
	Gate         struct {
		Loaded                 bool
		Stock, Pending, Orders int64
	}
	DB struct {
		Stock, Live, Failed int64
		OverLimit           int
	}
	Queue    struct{ Ready, Unacked int64 }
	Releases int64
	AtRest   bool
}

func (a *api) saleState(ctx context.Context, id string) (saleState, error) {
	var s saleState
	err := a.call(ctx, http.MethodGet, "/console/sales/"+id, nil, &s)
	return s, err
}
