package web

import (
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
)

// The directories of the apps within dist.
const (
	shopDir = "shop"
	docsDir = "docs"
)

// contentPolicy lets a page load from its own server only. Inline styles are
// what Vue writes for bound style attributes; the data: font is Vant's icons.
const contentPolicy = "default-src 'self'; img-src 'self' data: blob:; font-src 'self' data:; " +
	"style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"

// Handler serves the shopper app at "/" and the API reference at "/docs".
//
// A hashed file under /assets/ or /docs/assets/ is cached for ever and answers
// 404 when it is missing, so that a stale page fails loudly instead of running
// HTML as a script. Any other path outside /docs is a file of the shopper app or
// else its index.html, whose router takes it from there; these are revalidated
// on every use. Where the app has no page either, it says so with the status 404.
// Only GET and HEAD are answered.
//
// An embedded file is compressed when it is first asked for, so that nothing is
// spent at start. A non-empty dir, laid out like web/dist, is read on every
// request instead, uncompressed. Without apps (build tag noweb, wrong dir) every
// path answers 404.
func Handler(dir string) http.Handler {
	if dir != "" {
		return handler{live(os.DirFS(dir))}
	}
	return handler{keep(dist())}
}

// pages are the addresses in the router of the shopper app (shop/src/router.ts), as patterns of path.Match.
var pages = []string{"/", "/shop/*", "/sale/*", "/grab/*", "/pay/*", "/orders", "/order/*", "/verify", "/login", "/me"}

type handler struct{ find source }

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	name, fallback, hashed := resolve(r.URL.Path)
	status := http.StatusOK
	f, err := h.find(name)
	if err != nil && fallback != "" {
		f, err = h.find(fallback)
		if !isPage(r.URL.Path) {
			status = http.StatusNotFound
		}
	}
	if err != nil {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if hashed {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		w.Header().Set("Cache-Control", "no-cache")
	}
	f.serve(w, r, status)
}

func isPage(requested string) bool {
	return slices.ContainsFunc(pages, func(pattern string) bool {
		ok, err := path.Match(pattern, path.Clean("/"+requested))
		return ok && err == nil
	})
}

// resolve turns the path of a request into the file's name within dist, what to
// send when there is no such file (empty: nothing), and whether the name holds a
// hash of the content.
func resolve(requested string) (name, fallback string, hashed bool) {
	name = strings.TrimPrefix(path.Clean("/"+requested), "/")
	switch name {
	case docsDir:
		return docsDir + "/index.html", "", false
	case docsDir + "/errors":
		return docsDir + "/errors.html", "", false
	}
	if strings.HasPrefix(name, docsDir+"/") {
		return name, "", strings.HasPrefix(name, docsDir+"/assets/")
	}
	if strings.HasPrefix(name, "assets/") {
		return path.Join(shopDir, name), "", true
	}
	return path.Join(shopDir, name), shopDir + "/index.html", false
}
