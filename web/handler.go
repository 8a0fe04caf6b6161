package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
)

// shopDir is the directory of the shopper app within dist.
const shopDir = "shop"

// contentPolicy lets a page load from its own server only. Inline styles are
// what Vue writes for bound style attributes; the data: font is Vant's icons.
const contentPolicy = "default-src 'self'; img-src 'self' data: blob:; font-src 'self' data:; " +
	"style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"

// textTypes are the types of the files worth gzip. They are fixed here because
// what package mime knows depends on the machine.
var textTypes = map[string]string{
	".css":         "text/css; charset=utf-8",
	".html":        "text/html; charset=utf-8",
	".js":          "text/javascript; charset=utf-8",
	".json":        "application/json",
	".svg":         "image/svg+xml",
	".txt":         "text/plain; charset=utf-8",
	".webmanifest": "application/manifest+json",
}

// file is one file of an app, ready to be sent.
type file struct {
	contentType string
	etag        string
	plain       []byte
	gzipped     []byte // nil when compression doesn't pay
}

// source finds the files of an app by their slash path without a leading slash.
type source func(name string) (*file, bool)

// Handler serves the shopper app at "/".
//
// A hashed file under /assets/ is cached for ever and answers 404 when it is
// missing, so that a stale page fails loudly instead of running HTML as a script.
// Any other path is a file of the app or else index.html, which the router of the
// app takes from there; both are revalidated on every use. Only GET and HEAD are answered.
//
// The embedded files are read and compressed here, once. A non-empty dir, laid
// out like web/dist, is read on every request instead, uncompressed. Without an
// app (build tag noweb, wrong dir) every path answers 404.
func Handler(dir string) http.Handler {
	if dir != "" {
		return handler{find: live(os.DirFS(dir))}
	}
	return handler{find: preload(dist())}
}

type handler struct{ find source }

func (h handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(path.Clean("/"+r.URL.Path), "/")
	hashed := strings.HasPrefix(name, "assets/")
	f, ok := h.find(name)
	if !ok && !hashed {
		f, ok = h.find("index.html")
	}
	if !ok {
		w.Header().Set("Cache-Control", "no-store")
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if hashed {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	} else {
		w.Header().Set("Cache-Control", "no-cache")
	}
	f.serve(w, r)
}

func (f *file) serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	if strings.HasPrefix(f.contentType, "text/html") {
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("Referrer-Policy", "same-origin")
	}
	body, etag := f.plain, f.etag
	if f.gzipped != nil {
		h.Set("Vary", "Accept-Encoding")
		if acceptsGzip(r.Header.Get("Accept-Encoding")) {
			body, etag = f.gzipped, f.etag+"-gz"
			h.Set("Content-Encoding", "gzip")
		}
	}
	etag = `"` + etag + `"`
	h.Set("Etag", etag)
	if matches(r.Header.Get("If-None-Match"), etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client went away: nobody is left to tell
	}
}

// acceptsGzip reads an Accept-Encoding header; a quality of zero refuses.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(part, ";")
		if strings.TrimSpace(coding) != "gzip" {
			continue
		}
		quality, found := strings.CutPrefix(strings.TrimSpace(params), "q=")
		q, err := strconv.ParseFloat(quality, 64)
		return !found || (err == nil && q > 0)
	}
	return false
}

// matches reports whether an If-None-Match header names etag.
func matches(header, etag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if tag := strings.TrimPrefix(strings.TrimSpace(part), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

// preload reads every file of the app into memory. It panics when a file that
// is listed can't be read, which embedded files never do.
func preload(apps fs.FS) source {
	files := map[string]*file{}
	err := fs.WalkDir(apps, shopDir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(apps, name)
		if err != nil {
			return err
		}
		f := newFile(name, content)
		if _, text := textTypes[path.Ext(name)]; text {
			f.gzipped = compress(content)
		}
		files[strings.TrimPrefix(name, shopDir+"/")] = f
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		panic(err)
	}
	return func(name string) (*file, bool) {
		f, ok := files[name]
		return f, ok
	}
}

// live reads the app's files anew on every request.
func live(apps fs.FS) source {
	return func(name string) (*file, bool) {
		content, err := fs.ReadFile(apps, path.Join(shopDir, name))
		if err != nil {
			return nil, false
		}
		return newFile(name, content), true
	}
}

func newFile(name string, content []byte) *file {
	contentType, text := textTypes[path.Ext(name)]
	if !text {
		contentType = http.DetectContentType(content)
	}
	sum := sha256.Sum256(content)
	return &file{contentType: contentType, etag: base64.RawURLEncoding.EncodeToString(sum[:12]), plain: content}
}

// compress returns content in gzip, or nil when that isn't smaller.
func compress(content []byte) []byte {
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err == nil {
		_, err = io.Copy(zw, bytes.NewReader(content))
	}
	if err == nil {
		err = zw.Close()
	}
	if err != nil || buf.Len() >= len(content) {
		return nil
	}
	return buf.Bytes()
}
