package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/text/language"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
	"tandian/internal/kit/limit"
)

// Errors of the HTTP layer itself.
var (
	ErrMalformed   = errs.Define("request.malformed", errs.Malformed, "请求格式不对，见 errors。", "The request can't be read; see errors.")
	ErrInvalid     = errs.Define("request.invalid", errs.Invalid, "请求内容不合要求，见 errors。", "The request is not valid; see errors.")
	ErrTooLarge    = errs.Define("request.too_large", errs.TooLarge, "请求内容太大。", "The request body is too large.")
	ErrUnsupported = errs.Define("request.unsupported_type", errs.Unsupported, "请用 application/json。", "Send application/json.")
	ErrNoSuchPath  = errs.Define("request.no_such_path", errs.NotFound, "没有这个地址，见 /docs。", "No such path; see /docs.")
	ErrNoMethod    = errs.Define("request.method_not_allowed", errs.NoMethod, "这个地址不支持该方法，见 Allow。", "This path does not take that method; see Allow.")
	ErrTimeout     = errs.Define("request.timeout", errs.Timeout, "请求发送得太慢。", "The request took too long to arrive.")
	ErrForeign     = errs.Define("request.cross_origin", errs.Forbidden, "拒绝跨站请求。", "Cross-origin requests are refused.")
	ErrAway        = errs.Define("service.unknown", errs.Unknown, "暂时无法完成，请稍后再试；如果是提交，请先看看是否已经生效。", "This can't be done right now. Try again in a moment; if it was a change, look first whether it was made.").After(2 * time.Second)
	errGone        = errs.Define("request.gone", errs.Timeout, "请求已取消。", "The request was given up.")
	ErrLimit       = errs.Define("limit.exceeded", errs.TooMany, "操作太频繁，请稍后再试。", "Too many requests; slow down.")
)

// Problem is an RFC 9457 document.
type Problem struct {
	Type         string    `json:"type" example:"/docs/errors#sale.sold_out"`
	Title        string    `json:"title" doc:"The HTTP status in words"`
	Status       int       `json:"status"`
	Detail       string    `json:"detail" doc:"For people, in the language of Accept-Language (zh default, en)"`
	Code         string    `json:"code" doc:"For programs; see docs/errors.md" example:"sale.sold_out"`
	RequestID    string    `json:"requestId"`
	RetryAfterMS int64     `json:"retryAfterMs,omitempty"`
	Errors       []Invalid `json:"errors,omitempty" doc:"What is wrong where, for request.invalid and request.malformed"`
	OrderIDs     []id.ID   `json:"orderIds,omitempty" doc:"With sale.limit_reached: the orders that hold the limit"`
	Key          string    `json:"idempotencyKey,omitempty" doc:"With sale.unknown: the key to ask again with"`
	RedeemedAt   time.Time `json:"redeemedAt,omitzero" doc:"With redeem.used: when"`
}

// Invalid is one fault of a request.
type Invalid struct {
	Location string `json:"location" example:"body.phone"`
	Message  string `json:"message"`
}

func (p *Problem) Error() string           { return p.Code }
func (p *Problem) GetStatus() int          { return p.Status }
func (*Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders adds Retry-After where the problem says when to come back.
func (p *Problem) GetHeaders() http.Header {
	if p.RetryAfterMS == 0 {
		return nil
	}
	return http.Header{"Retry-After": {strconv.Itoa(limit.Seconds(millis(p.RetryAfterMS)))}}
}

// problem turns any error into the document, logging the cause of internal ones: this is the only place that does.
func (a *API) problem(ctx context.Context, err error) *Problem {
	e, req := errs.From(err), RequestOf(ctx)
	switch {
	case ctx.Err() != nil && e.Kind == errs.Internal: // the client has gone away: nobody's fault, nobody to tell
		e = errGone
	case e.Kind == errs.Internal && a.Away != nil && a.Away(err):
		a.log.Warn("a store is away", "request", req, "err", err)
		e = ErrAway
	case e.Kind == errs.Internal:
		a.log.Error("request failed", "request", req, "err", err)
	}
	req.refused(e.Code)
	p := &Problem{Type: "/docs/errors#" + e.Code, Status: e.Kind.Status(), Detail: e.Text(req.Language()), Code: e.Code,
		RequestID: req.ID, RetryAfterMS: e.RetryAfter.Milliseconds()}
	p.Errors, _ = e.Extra[extraErrors].([]Invalid)
	p.OrderIDs, _ = e.Extra[ExtraOrderIDs].([]id.ID)
	p.Key, _ = e.Extra[ExtraKey].(string)
	p.RedeemedAt, _ = e.Extra[ExtraRedeemedAt].(time.Time)
	p.Title = http.StatusText(p.Status)
	return p
}

// WriteProblem answers a request outside of huma's reach, such as an unknown path.
func (a *API) WriteProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := a.problem(r.Context(), err)
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	if err := json.NewEncoder(w).Encode(p); err != nil {
		a.log.Debug("answer not delivered", "err", err)
	}
}

// fromHuma gives the framework's own refusals our form. Values that were sent are not echoed.
func fromHuma(ctx huma.Context, status int, msg string, faults ...error) huma.StatusError {
	base := ErrInvalid
	switch status {
	case http.StatusBadRequest, http.StatusNotAcceptable:
		base = ErrMalformed
	case http.StatusRequestEntityTooLarge:
		base = ErrTooLarge
	case http.StatusUnsupportedMediaType:
		base = ErrUnsupported
	case http.StatusRequestTimeout:
		base = ErrTimeout
	case http.StatusInternalServerError:
		base = ErrMalformed // the only one that huma raises by itself: the body could not be read to its end
	}
	req := &Request{}
	if ctx != nil {
		req = RequestOf(ctx.Context())
	}
	req.refused(base.Code)
	p := &Problem{Type: "/docs/errors#" + base.Code, Status: base.Kind.Status(), Detail: base.Text(req.Language()), Code: base.Code, RequestID: req.ID}
	p.Title = http.StatusText(p.Status)
	for _, f := range faults {
		var d huma.ErrorDetailer
		if errors.As(f, &d) {
			p.Errors = append(p.Errors, Invalid{d.ErrorDetail().Location, d.ErrorDetail().Message})
		} else if f != nil {
			p.Errors = append(p.Errors, Invalid{"body", f.Error()})
		}
	}
	if len(p.Errors) == 0 {
		p.Errors = []Invalid{{"body", msg}}
	}
	return p
}

// Faults is an error value for checks that huma's schema can't express.
func Faults(faults ...Invalid) error { return ErrInvalid.Set(extraErrors, faults) }

// Keys of errs.Error.Extra that a problem shows.
const (
	extraErrors     = "errors"
	ExtraOrderIDs   = "orderIds"       // []id.ID
	ExtraRedeemedAt = "redeemedAt"     // time.Time
	ExtraKey        = "idempotencyKey" // string
)

var languages = language.NewMatcher([]language.Tag{language.SimplifiedChinese, language.English})

func languageOf(accept string) string {
	if accept == "" {
		return "zh"
	}
	tags, _, err := language.ParseAcceptLanguage(accept)
	if err != nil || len(tags) == 0 {
		return "zh"
	}
	if _, i, confidence := languages.Match(tags...); i == 1 && confidence > language.No {
		return "en"
	}
	return "zh"
}

var _ slog.LogValuer = (*Request)(nil)
