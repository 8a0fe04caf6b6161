// Package api exists so that a feature writes func(ctx, *In) (*Out, error) and nothing else about HTTP: it sets up
// huma on net/http, declares routes with their sign-in need and their limits, turns errs into RFC 9457 answers and
// carries the middleware that every request passes.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/identity"
	"tandian/internal/kit/limit"
)

// Prefix stands before every path of the native API.
const Prefix = "/api/v1"

// defaultBody is the largest request body, in bytes, unless a route says otherwise.
const defaultBody = 64 << 10

// huma asks a package variable for the form of its own errors; there is one form in this program.
func init() {
	huma.NewErrorWithContext = fromHuma
	huma.NewError = func(status int, msg string, faults ...error) huma.StatusError {
		return fromHuma(nil, status, msg, faults...)
	}
}

// Options are what New needs; all fields but Away are required.
type Options struct {
	Version  string
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	Limiter  *limit.Limiter
	Now      func() time.Time
	Rand     io.Reader                              // source of request ids
	Resolve  func(r *http.Request) *identity.Caller // step one of A3: never refuses
	ClientIP func(r *http.Request) string           // the real client address
	Away     func(error) bool                       // whether an error says that a store could not do it now; nil = none does
}

// API is the server's native API: an http.Handler once all routes are registered.
type API struct {
	huma.API
	Options
	log      *slog.Logger
	mux      *http.ServeMux
	errors   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// New returns an API without routes.
func New(o Options) *API {
	mux := http.NewServeMux()
	cfg := huma.DefaultConfig("Tandian", o.Version)
	cfg.CreateHooks = nil
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "", "", "" // served by Handler, from embedded assets
	cfg.Info.Description = "Find shops, read notes, grab vouchers in flash sales. All ids are strings, all amounts are fen, all times RFC 3339."
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer", Description: "The token of POST /api/v1/auth/sessions, with or without the word Bearer"},
	}
	strict := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshalUTF8}
	cfg.Formats = map[string]huma.Format{"application/json": strict, "json": strict}
	a := &API{API: humago.New(mux, cfg), Options: o, log: o.Log, mux: mux,
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tandian_api_errors_total", Help: "Refused and failed requests by error code."}, []string{"code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tandian_http_request_duration_seconds", Help: "Time to answer by route and status class.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}}, []string{"route", "class"}),
	}
	o.Metrics.MustRegister(a.errors, a.duration)
	return a
}

// schemaName is the Go type's name without the suffix that tells wire shapes from the feature's own types.
func schemaName(t reflect.Type, hint string) string {
	return strings.ReplaceAll(huma.DefaultSchemaNamer(t, hint), "JSON", "")
}

// unmarshalUTF8 refuses what encoding/json would silently repair: bytes that are not UTF-8.
func unmarshalUTF8(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("the body is not valid UTF-8")
	}
	return json.Unmarshal(data, v)
}

// Route declares an operation.
type Route struct {
	Method, Path string // Path below Prefix, such as "/shops/{id}"
	ID           string // operation id: a verb and a noun, "list-shops"
	Tag, Summary string
	Status       int  // of success; 0 = 200, or 204 without a body
	Private      bool // needs a signed-in user (A3, step two)
	Limit        limit.Rule
	MaxBody      int64 // bytes; 0 = 64 KiB
	Errors       []*errs.Error
}

// Handle registers a route. The handler's error becomes a problem document.
func Handle[I, O any](a *API, r Route, h func(ctx context.Context, in *I) (*O, error)) {
	op := huma.Operation{Method: r.Method, Path: Prefix + r.Path, OperationID: r.ID, Summary: r.Summary, DefaultStatus: r.Status,
		MaxBodyBytes: r.MaxBody, Tags: []string{r.Tag}, Middlewares: huma.Middlewares{a.gatekeeper(r)}}
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = defaultBody
	}
	if r.Private {
		op.Security = []map[string][]string{{"token": {}}}
		op.Errors = append(op.Errors, http.StatusUnauthorized)
	}
	var codes []string
	for _, e := range r.Errors {
		op.Errors = append(op.Errors, e.Kind.Status())
		codes = append(codes, "`"+e.Code+"`: "+e.EN)
	}
	op.Description = strings.Join(codes, "\n\n")
	huma.Register(a.API, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := h(ctx, in)
		if err != nil {
			return nil, a.problem(ctx, err)
		}
		return out, nil
	})
}

// gatekeeper refuses before the body is read: without a user on private routes, and above the limits everywhere.
func (a *API) gatekeeper(r Route) func(huma.Context, func(huma.Context)) {
	limited := r.Limit != limit.Rule{}
	return func(ctx huma.Context, next func(huma.Context)) {
		req := RequestOf(ctx.Context())
		var err error
		if r.Private {
			_, err = identity.Require(ctx.Context())
		}
		if err == nil && limited {
			user := ""
			if req.Caller.User != nil {
				user = req.Caller.User.ID.String()
			}
			if wait := a.Limiter.Allow(r.ID, r.Limit, req.IP, user); wait > 0 {
				err = ErrLimit.After(wait)
			}
		}
		if err != nil {
			httpReq, w := humago.Unwrap(ctx)
			a.WriteProblem(w, httpReq, err)
			return
		}
		next(ctx)
	}
}

// OpenAPI returns the document of all registered routes, indented, with a final newline.
func (a *API) OpenAPIDocument() ([]byte, error) {
	b, err := json.MarshalIndent(a.API.OpenAPI(), "", "  ")
	return append(b, '\n'), err
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
