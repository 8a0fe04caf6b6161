package api

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"tandian/internal/kit/identity"
)

// Request is what the middleware knows about a request; it travels in the context.
type Request struct {
	ID     string
	IP     string
	Caller *identity.Caller
	accept string
	again  func() *identity.Caller
	errors *prometheus.CounterVec // nil outside of a request
}

// refused counts an answer that is an error.
func (r *Request) refused(code string) {
	if r.errors != nil {
		r.errors.WithLabelValues(code).Inc()
	}
}

// Again asks anew who the caller is: an answer that lasts longer than a session must look now and then.
func (r *Request) Again() *identity.Caller { return r.again() }

// Language is "zh" or "en".
func (r *Request) Language() string { return languageOf(r.accept) }

// LogValue shows the request in logs without anything secret.
func (r *Request) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", r.ID), slog.String("ip", r.IP))
}

type requestKey struct{}

// RequestOf returns the request of the context; outside of one an empty value, never nil.
func RequestOf(ctx context.Context) *Request {
	if r, ok := ctx.Value(requestKey{}).(*Request); ok {
		return r
	}
	return &Request{Caller: &identity.Caller{}}
}

// Handler is the whole public surface: the API, its document, and site for every other path. The chain reads from
// the outside in: request id → recover → log and metrics → cross-origin guard → session → routes.
func (a *API) Handler(site http.Handler) http.Handler {
	document := sync.OnceValues(a.OpenAPIDocument)
	a.mux.HandleFunc("GET /api/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		b, err := document()
		if err != nil {
			a.WriteProblem(w, r, err)
			return
		}
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(b)
	})
	a.mux.HandleFunc("/api/", a.noRoute)
	a.mux.Handle("/", site)
	guard := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := &Request{ID: a.requestID(r), IP: a.ClientIP(r), accept: r.Header.Get("Accept-Language"), errors: a.errors}
		w.Header().Set("X-Request-Id", req.ID)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		began := a.Now()
		sw := &statusWriter{ResponseWriter: w}
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, req))
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				a.log.Error("panic", "request", req, "panic", p, "stack", string(debug.Stack()))
				if sw.status == 0 {
					a.WriteProblem(sw, r, fmt.Errorf("panic: %v", p))
				}
			}
			a.duration.WithLabelValues(r.Pattern, class(sw.status)).Observe(a.Now().Sub(began).Seconds())
			a.log.Debug("request", "request", req, "method", r.Method, "route", r.Pattern, "status", sw.status)
		}()
		if strings.HasPrefix(r.URL.Path, "/api/") {
			w.Header().Set("Cache-Control", "no-store")
			if guard.Check(r) != nil {
				req.Caller = &identity.Caller{}
				a.WriteProblem(sw, r, ErrForeign)
				return
			}
			asked := r
			req.again = func() *identity.Caller { return a.Resolve(asked) }
			req.Caller = req.again()
			r = r.WithContext(identity.With(r.Context(), req.Caller))
		} else {
			req.Caller = &identity.Caller{}
		}
		a.mux.ServeHTTP(sw, r)
	})
}

// noRoute tells a wrong path from a wrong method.
func (a *API) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := a.mux.Handler(probe); pattern != "/api/" && pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) > 0 && !slices.Contains(allowed, r.Method) {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		a.WriteProblem(w, r, ErrNoMethod)
		return
	}
	a.WriteProblem(w, r, ErrNoSuchPath)
}

const maxRequestID = 64

// requestID takes a well-formed id from the client, so that a call can be followed through a proxy, or draws one.
func (a *API) requestID(r *http.Request) string {
	given := r.Header.Get("X-Request-Id")
	if given != "" && len(given) <= maxRequestID && strings.IndexFunc(given, notIDRune) < 0 {
		return given
	}
	var b [8]byte
	if _, err := io.ReadFull(a.Rand, b[:]); err != nil {
		return "unknown"
	}
	return hex.EncodeToString(b[:])
}

func notIDRune(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func class(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status/100) + "xx"
}

// statusWriter remembers the status; http.ResponseController reaches through it by Unwrap.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
