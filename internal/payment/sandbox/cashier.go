package sandbox

import (
	"crypto/hmac"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tandian/internal/kit/api"
	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/kit/store"
)

// Path is where the cashier is; everything below it is the sandbox's.
const Path = "/sandbox/"

//go:embed cashier.html cashier.css cashier.js
var files embed.FS

var page = template.Must(template.ParseFS(files, "cashier.html"))

// policy lets the page load its own style and script, and nothing else; nothing is inline.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const maxForm = 4 << 10 // bytes

func (s *Sandbox) routes() {
	s.site = http.NewServeMux()
	s.site.HandleFunc("GET "+Path+"pay/{id}", s.withTrade(s.show))
	s.site.HandleFunc("POST "+Path+"pay/{id}", s.withTrade(s.act))
	for _, name := range []string{"cashier.css", "cashier.js"} {
		s.site.HandleFunc("GET "+Path+name, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, files, name)
		})
	}
}

// ServeHTTP implements http.Handler for the paths below Path.
func (s *Sandbox) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.site.ServeHTTP(w, r) }

// address is the cashier's page of a payment, with the key that opens it.
func (s *Sandbox) address(paymentID id.ID) string {
	return Path + "pay/" + paymentID.String() + "?" + url.Values{"k": {s.key(paymentID)}}.Encode()
}

// withTrade finds the trade for those who have its key. Others can't tell whether there is one.
func (s *Sandbox) withTrade(next func(http.ResponseWriter, *http.Request, *trade)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "no-referrer") // the address is the key
		w.Header().Set("Content-Security-Policy", policy)
		paymentID, err := id.Parse(r.PathValue("id"))
		if err != nil || !hmac.Equal([]byte(r.URL.Query().Get("k")), []byte(s.key(paymentID))) {
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		t, err := findTrade(r.Context(), s.DB, paymentID)
		switch {
		case err != nil:
			s.fail(w, r, err)
		case t == nil:
			http.Error(w, "not found", http.StatusNotFound)
		default:
			next(w, r, t)
		}
	}
}

func (s *Sandbox) fail(w http.ResponseWriter, r *http.Request, err error) {
	s.Log.ErrorContext(r.Context(), "sandbox cashier", "err", err)
	http.Error(w, "try again", http.StatusServiceUnavailable)
}

// view is what the page shows.
type view struct {
	Lang     string
	Text     map[string]string
	State    string // open, paid, closed, failed, expired or onItsWay
	Address  string // of the page itself
	About    string
	Amount   money.Fen
	TradeNo  string
	Deadline string // wall clock of the shops
	LeftMS   int64
	ReturnTo string
}

// Times of the page are those of the shops.
const deadlineForm = "15:04:05"

func (s *Sandbox) view(r *http.Request, t *trade) view {
	now := store.Millis(s.Now())
	lang := api.RequestOf(r.Context()).Language()
	if asked := r.URL.Query().Get("lang"); asked == "en" || asked == "zh" {
		lang = asked
	}
	v := view{Lang: lang, Text: texts[lang], State: stateNames[t.stands(now)], Address: s.address(t.PaymentID), About: t.About, Amount: t.Amount, TradeNo: t.TradeNo,
		Deadline: api.Wire(store.Time(t.ExpiresAt)).Format(deadlineForm), LeftMS: max(0, t.ExpiresAt-now), ReturnTo: t.ReturnTo}
	if r.URL.Query().Has("lang") {
		v.Address += "&lang=" + lang
	}
	if v.State != stateNames[paid] && t.PaidAt != nil {
		v.State = "onItsWay"
	} else if v.State == stateNames[open] && now >= t.ExpiresAt {
		v.State = "expired"
	}
	return v
}

func (s *Sandbox) show(w http.ResponseWriter, r *http.Request, t *trade) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := page.Execute(w, s.view(r, t)); err != nil {
		s.Log.DebugContext(r.Context(), "cashier page not delivered", "err", err)
	}
}

// What a buyer may do at the cashier.
const (
	actPay    = "pay"
	actFail   = "fail"
	actLate   = "late"   // the money arrives after the deadline
	actSilent = "silent" // paid, and nobody calls back
)

// lateBy is how long after the deadline late money arrives.
const lateBy = time.Second

// choice is what was chosen at the cashier, as a form or as JSON.
type choice struct {
	Action  string `json:"action"`
	Refunds string `json:"refunds"` // how refunds will go
}

// act carries out a choice. Of several at once one counts; each is answered with how the trade stands then.
func (s *Sandbox) act(w http.ResponseWriter, r *http.Request, t *trade) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	asJSON := strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
	var c choice
	if asJSON {
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			http.Error(w, "not a choice", http.StatusBadRequest)
			return
		}
	} else {
		c = choice{r.PostFormValue("action"), r.PostFormValue("refunds")}
	}
	if !slices.Contains([]string{actPay, actFail, actLate, actSilent}, c.Action) || !slices.Contains([]string{refundsAtOnce, refundsSlow, refundsUnknown, refundsRefused}, c.Refunds) {
		http.Error(w, "not a choice", http.StatusBadRequest)
		return
	}
	if err := s.choose(r, t, c); err != nil {
		s.fail(w, r, err)
		return
	}
	if !asJSON {
		http.Redirect(w, r, s.view(r, t).Address, http.StatusSeeOther)
		return
	}
	t, err := findTrade(r.Context(), s.DB, t.PaymentID)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"state": s.view(r, t).State, "tradeNo": t.TradeNo})
}

func (s *Sandbox) choose(r *http.Request, t *trade, c choice) error {
	now := store.Millis(s.Now())
	if t.stands(now) != open || now >= t.ExpiresAt {
		return nil // the answer shows how it stands
	}
	var err error
	switch c.Action {
	case actPay:
		_, err = payTrade(r.Context(), s.DB, t.PaymentID, paid, now, &now, c.Refunds, now)
	case actSilent:
		_, err = payTrade(r.Context(), s.DB, t.PaymentID, paid, now, nil, c.Refunds, now)
	case actLate:
		at := t.ExpiresAt + lateBy.Milliseconds()
		_, err = payTrade(r.Context(), s.DB, t.PaymentID, open, at, &at, c.Refunds, now)
	case actFail:
		_, err = failTrade(r.Context(), s.DB, t.PaymentID, now)
	}
	s.wake()
	return err
}
