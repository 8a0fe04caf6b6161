package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// api is the unhurried half of the client: set-up, console and time. The load itself goes through clients. Not safe for
// concurrent use.
type api struct {
	conn  *conn
	token string // the operator's
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

// call sends in (if any) as JSON and reads the answer into out.
func (a *api) call(ctx context.Context, method, path string, in, out any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	request := method + " " + path
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	resp, err := a.conn.sendBody(method, "/api/v1"+path, a.token, "", body)
	if err != nil && method == http.MethodGet { // the connection may stem from before a restart
		resp, err = a.conn.sendBody(method, "/api/v1"+path, a.token, "", body)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", request, err)
	case resp.status/100 != 2:
		var p problem
		_ = json.Unmarshal(resp.body, &p) // the status says enough
		return &StatusError{request, resp.status, p.Code, p.Detail}
	}
	if err := json.Unmarshal(resp.body, out); err != nil {
		return fmt.Errorf("%s: %w", request, err)
	}
	return nil
}

func (a *api) signIn(ctx context.Context, phone, password string) error {
	var session struct{ Token string }
	a.token = ""
	if err := a.call(ctx, http.MethodPost, "/auth/sessions", map[string]string{"phone": phone, "password": password}, &session); err != nil {
		return fmt.Errorf("sign the operator in: %w", err)
	}
	a.token = session.Token
	return nil
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

// hotShop returns a shop to sell and read at.
func (a *api) hotShop(ctx context.Context) (string, error) {
	var shops struct{ Items []struct{ ID string } }
	err := a.call(ctx, http.MethodGet, "/shops?limit=1", nil, &shops)
	if err == nil && len(shops.Items) == 0 {
		err = errors.New("the server has none")
	}
	if err != nil {
		return "", fmt.Errorf("find a shop: %w", err)
	}
	return shops.Items[0].ID, nil
}

// makeSale puts stock units on sale at the shop, from some time after the server's present for a length of time.
func (a *api) makeSale(ctx context.Context, shop string, stock, limit int, after, length time.Duration) (saleView, error) {
	var made struct{ ID string }
	var sale saleView
	voucher := map[string]any{"title": "bench", "subTitle": "bench", "rules": "bench", "payValue": 4750, "faceValue": 5000}
	if err := a.call(ctx, http.MethodPost, "/shops/"+shop+"/vouchers", voucher, &made); err != nil {
		return sale, fmt.Errorf("make a voucher: %w", err)
	}
	var clock struct{ Now time.Time }
	if err := a.call(ctx, http.MethodGet, "/time", nil, &clock); err != nil {
		return sale, err
	}
	begin := clock.Now.Add(after).Truncate(time.Millisecond)
	end := begin.Add(length)
	in := map[string]any{
		"stock": stock, "limitPerUser": limit,
		"beginsAt": begin.Format(time.RFC3339Nano), "endsAt": end.Format(time.RFC3339Nano),
	}
	if err := a.call(ctx, http.MethodPost, "/vouchers/"+made.ID+"/sale", in, &made); err != nil {
		return sale, fmt.Errorf("make a sale: %w", err)
	}
	return saleView{ID: made.ID, LimitPerUser: limit, BeginsAt: begin, EndsAt: end}, nil
}

// saleView is what any buyer sees of a sale. All times are by the server's clock.
type saleView struct {
	ID, Phase                    string
	LimitPerUser                 int
	BeginsAt, EndsAt, ServerTime time.Time
}

func (a *api) sale(ctx context.Context, id string) (v saleView, err error) {
	err = a.call(ctx, http.MethodGet, "/sales/"+id, nil, &v)
	return v, err
}

// saleState is the operator's view of a sale.
type saleState struct {
	Released int64
	Gate     struct {
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

// queueEmpty tells that no message waits or is in hand: an order without a row then has no future.
func (s saleState) queueEmpty() bool { return s.Queue.Ready+s.Queue.Unacked == 0 }

func (a *api) saleState(ctx context.Context, id string) (s saleState, err error) {
	err = a.call(ctx, http.MethodGet, "/console/sales/"+id, nil, &s)
	return s, err
}
