package app

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tandian/internal/console"
	"tandian/internal/demo"
	"tandian/internal/kit/api"
	"tandian/internal/payment/sandbox"
	"tandian/web"
)

// routes registers every feature's operations. The middleware is api.Handler's chain.
func (a *App) routes() {
	type timeOutput struct {
		Body struct {
			Now time.Time `json:"now"`
		}
	}
	api.Handle(a.api, api.Route{Method: http.MethodGet, Path: "/time", ID: "get-time", Tag: "meta", Summary: "The server's clock"},
		func(context.Context, *struct{}) (*timeOutput, error) {
			out := &timeOutput{}
			out.Body.Now = api.Wire(a.clock.now())
			return out, nil
		})
	a.accounts.Routes(a.api)
	a.shops.Routes(a.api)
	a.vouchers.Routes(a.api)
	a.sales.Routes(a.api)
	a.orders.Routes(a.api)
	a.redeemer.Routes(a.api)
	a.payments.Routes(a.api)
	(&console.Service{Letters: a.letters, Reconciler: a.compare, Money: a.payments}).Routes(a.api)
}

// publicHandler is the public listener: API, pictures, health, and the web apps for everything else.
func (a *App) publicHandler() http.Handler {
	site := http.NewServeMux()
	site.Handle("/", web.Handler(a.cfg.WebDir))
	site.Handle("/pictures/", demo.Pictures())
	if a.sandbox != nil {
		site.Handle(sandbox.Path, a.sandbox)
	}
	a.health(site)
	return a.api.Handler(site)
}

// adminHandler is the admin listener: what must not be on the public one (W32).
func (a *App) adminHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle(api.Prefix+"/console/", a.operators)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	a.health(mux)
	return mux
}

// health adds liveness (the process answers, whatever its stores do) and readiness (it can sell).
func (a *App) health(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.Handle("GET /readyz", a.readiness)
}
