package app

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tandian/internal/account"
	"tandian/internal/config"
	"tandian/internal/kit/id"
)

// BenchmarkHandler measures what a request costs between the HTTP server and the stores: the clock's as the floor, a
// refused grab as the answer that most buyers of a sale get.
func BenchmarkHandler(b *testing.B) {
	a := open(b, func(c *config.Config) { c.Demo, c.LimitIP, c.LimitUser = true, 1<<30, 1<<30 })
	user, err := a.accounts.Ensure(b.Context(), account.Profile{Phone: "13900000000", Nickname: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	token, _, err := a.accounts.Issue(b.Context(), user, "bench", "127.0.0.1")
	if err != nil {
		b.Fatal(err)
	}
	past := a.clock.now().Add(-time.Hour)
	var voucherID id.ID
	if err := a.backend.db.Write.NewRaw(`INSERT INTO voucher (shop_id, title, pay_value, face_value, created_at, updated_at) VALUES (1, 'v', 1, 1, 1, 1) RETURNING id`).Scan(b.Context(), &voucherID); err != nil {
		b.Fatal(err)
	}
	sale, err := a.sales.Open(b.Context(), voucherID, 1, past, past.Add(time.Minute), 1)
	if err != nil {
		b.Fatal(err)
	}
	h := a.publicHandler()
	for name, newRequest := range map[string]func() *http.Request{
		"time": func() *http.Request { return httptest.NewRequest("GET", "/api/v1/time", nil) },
		"refused grab": func() *http.Request {
			r := httptest.NewRequest("POST", "/api/v1/sales/"+sale.ID.String()+"/orders", strings.NewReader(""))
			r.Header.Set("Authorization", token)
			r.Header.Set("Idempotency-Key", "0123456789abcdef0123456789abcdef")
			return r
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, newRequest())
				if w.Code >= 500 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}
