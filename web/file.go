package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

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

// source finds a file by its slash path within dist.
type source func(name string) (*file, error)

// keep examines each file once, when it is first asked for, and compresses it then.
func keep(apps fs.FS) source {
	var mu sync.Mutex
	known := map[string]func() (*file, error){} // guarded by mu
	return func(name string) (*file, error) {
		// A name that isn't there must not take room in the map.
		if _, err := fs.Stat(apps, name); err != nil {
			return nil, err
		}
		mu.Lock()
		get, ok := known[name]
		if !ok {
			get = sync.OnceValues(func() (*file, error) { return examine(apps, name, true) })
			known[name] = get
		}
		mu.Unlock()
		return get()
	}
}

// live examines a file on every request.
func live(apps fs.FS) source {
	return func(name string) (*file, error) { return examine(apps, name, false) }
}

// file is what is known about a file. Its plain content is read for each reply
// that needs it: an embedded file lies in memory already, most replies are compressed.
type file struct {
	apps        fs.FS
	name        string
	size        int
	contentType string
	etag        string // without quotes
	gzipped     []byte // nil when compression doesn't pay
}

func examine(apps fs.FS, name string, zip bool) (*file, error) {
	content, err := fs.ReadFile(apps, name)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	f := &file{apps: apps, name: name, size: len(content), etag: base64.RawURLEncoding.EncodeToString(sum[:12])}
	contentType, text := textTypes[path.Ext(name)]
	f.contentType = contentType
	if !text {
		f.contentType = http.DetectContentType(content)
	}
	if zip && text {
		f.gzipped = compress(content)
	}
	return f, nil
}

// serve answers with the file under a status.
func (f *file) serve(w http.ResponseWriter, r *http.Request, status int) {
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	if strings.HasPrefix(f.contentType, "text/html") {
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("Referrer-Policy", "same-origin")
	}
	zipped := false
	if f.gzipped != nil {
		h.Set("Vary", "Accept-Encoding")
		zipped = acceptsGzip(r.Header.Get("Accept-Encoding"))
	}
	etag, size := f.etag, f.size
	if zipped {
		etag, size = f.etag+"-gz", len(f.gzipped)
	}
	etag = `"` + etag + `"`
	h.Set("Etag", etag)
	if status == http.StatusOK && matches(r.Header.Get("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if zipped {
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	if zipped {
		_, _ = w.Write(f.gzipped) // the client went away: nobody is left to tell
		return
	}
	f.copyTo(w)
}

// copyTo sends the plain content. A file that has changed or gone since it was
// examined breaks the promised length, which the client notices.
func (f *file) copyTo(w io.Writer) {
	content, err := f.apps.Open(f.name)
	if err != nil {
		return
	}
	defer content.Close()
	_, _ = io.Copy(w, content)
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
