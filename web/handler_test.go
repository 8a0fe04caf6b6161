package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

const (
	page   = "<!doctype html><title>app</title>"
	script = "/assets/index-Dk3n2.js"
)

var app = fstest.MapFS{
	"shop/index.html":                {Data: []byte(page)},
	"shop/favicon.svg":               {Data: []byte("<svg/>")},
	"shop" + script:                  {Data: []byte(strings.Repeat("console.log('sale');", 200))},
	"shop/assets/_helper-B1.js":      {Data: []byte(strings.Repeat("export default 1;", 50))},
	"shop/assets/shop-C9.png":        {Data: []byte("\x89PNG\r\n\x1a\n" + strings.Repeat("\x00", 400))},
	"shop/assets/nested/tiny-A1.css": {Data: []byte("a{}")},
	"docs/index.html":                {Data: []byte("<!doctype html><title>reference</title>")},
	"docs/errors.html":               {Data: []byte("<!doctype html><title>errors</title>")},
	"docs/assets/index-E4.js":        {Data: []byte("reference()")},
}

func get(t *testing.T, h http.Handler, method, target string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPaths(t *testing.T) {
	h := handler{keep(app)}
	const forever, revalidate = "public, max-age=31536000, immutable", "no-cache"
	for _, tc := range []struct {
		name, method, target string
		status               int
		contentType, cache   string
	}{
		{"the root is the page", "GET", "/", 200, "text/html; charset=utf-8", revalidate},
		{"a route of the app is the page", "GET", "/grab/1234567890123452817", 200, "text/html; charset=utf-8", revalidate},
		{"a route with a slash at its end is the page", "GET", "/orders/", 200, "text/html; charset=utf-8", revalidate},
		{"a file that isn't there is the app's page about that", "GET", "/robots.txt", 404, "text/html; charset=utf-8", revalidate},
		{"W32: so is what others keep there", "GET", "/metrics", 404, "text/html; charset=utf-8", revalidate},
		{"and what goes on after a route", "GET", "/shop/1/2", 404, "text/html; charset=utf-8", revalidate},
		{"a plain file is itself", "GET", "/favicon.svg", 200, "image/svg+xml", revalidate},
		{"a hashed script stays for ever", "GET", script, 200, "text/javascript; charset=utf-8", forever},
		{"a name with an underscore is there", "GET", "/assets/_helper-B1.js", 200, "text/javascript; charset=utf-8", forever},
		{"a picture is sniffed", "GET", "/assets/shop-C9.png", 200, "image/png", forever},
		{"a missing hashed file is not the page", "GET", "/assets/index-old.js", 404, "text/plain; charset=utf-8", "no-store"},
		{"the directory itself is missing too", "GET", "/assets/nested", 404, "text/plain; charset=utf-8", "no-store"},
		{"dots lead nowhere", "GET", "/assets/../../../etc/passwd", 404, "text/html; charset=utf-8", revalidate},
		{"the reference", "GET", "/docs", 200, "text/html; charset=utf-8", revalidate},
		{"the reference, as a folder", "GET", "/docs/", 200, "text/html; charset=utf-8", revalidate},
		{"its script stays for ever", "GET", "/docs/assets/index-E4.js", 200, "text/javascript; charset=utf-8", forever},
		{"the errors", "GET", "/docs/errors", 200, "text/html; charset=utf-8", revalidate},
		{"the reference has no other pages", "GET", "/docs/none", 404, "text/plain; charset=utf-8", "no-store"},
		{"nor missing scripts", "GET", "/docs/assets/index-old.js", 404, "text/plain; charset=utf-8", "no-store"},
		{"HEAD is answered", "HEAD", "/", 200, "text/html; charset=utf-8", revalidate},
		{"POST is not", "POST", "/", 405, "text/plain; charset=utf-8", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp := get(t, h, tc.method, tc.target)
			if resp.StatusCode != tc.status {
				t.Errorf("status = %d, want %d", resp.StatusCode, tc.status)
			}
			if got := resp.Header.Get("Content-Type"); got != tc.contentType {
				t.Errorf("Content-Type = %q, want %q", got, tc.contentType)
			}
			if got := resp.Header.Get("Cache-Control"); got != tc.cache {
				t.Errorf("Cache-Control = %q, want %q", got, tc.cache)
			}
			if body := bodyOf(t, resp); tc.method == "HEAD" && body != "" {
				t.Errorf("HEAD answered with %d bytes", len(body))
			}
		})
	}
}

// The router of the app and the server agree on which addresses there are.
func TestPagesAreThoseOfTheRouter(t *testing.T) {
	source, err := os.ReadFile("shop/src/router.ts")
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, m := range regexp.MustCompile(`path: '([^']*)'`).FindAllStringSubmatch(string(source), -1) {
		if m[1] != "/404" && !strings.Contains(m[1], "(") { // the page that says that there is none
			routes = append(routes, regexp.MustCompile(`:\w+`).ReplaceAllString(m[1], "*"))
		}
	}
	if !slices.Equal(routes, pages) {
		t.Errorf("the router has %q, the server %q", routes, pages)
	}
}

func TestPages(t *testing.T) {
	h := handler{keep(app)}
	for target, want := range map[string]string{"/": "app", "/docs": "reference", "/docs/": "reference", "/docs/errors": "errors"} {
		if got := bodyOf(t, get(t, h, "GET", target)); !strings.Contains(got, "<title>"+want) {
			t.Errorf("%s = %q", target, got)
		}
	}
}

// countingFS counts how often each file is opened.
type countingFS struct {
	fstest.MapFS
	mu    sync.Mutex
	opens map[string]int // guarded by mu
}

func (c *countingFS) Open(name string) (fs.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opens[name]++
	return c.MapFS.Open(name)
}

func (c *countingFS) ReadFile(name string) ([]byte, error) {
	f, err := c.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// TestFilesAreExaminedOnDemand keeps the start cheap: nothing is read before it is asked for, and nothing twice.
func TestFilesAreExaminedOnDemand(t *testing.T) {
	apps := &countingFS{MapFS: app, opens: map[string]int{}}
	h := handler{keep(apps)}
	if len(apps.opens) > 0 {
		t.Errorf("read at start: %v", apps.opens)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { get(t, h, "GET", script, "Accept-Encoding", "gzip") })
	}
	wg.Wait()
	if got := apps.opens["shop"+script]; got != 1 {
		t.Errorf("the script was read %d times", got)
	}
	if got := len(apps.opens); got != 1 {
		t.Errorf("%d files read for one", got)
	}
}

func TestCompression(t *testing.T) {
	h := handler{keep(app)}

	t.Run("a script travels compressed and arrives whole", func(t *testing.T) {
		resp := get(t, h, "GET", script, "Accept-Encoding", "br, gzip")
		if got := resp.Header.Get("Content-Encoding"); got != "gzip" {
			t.Fatalf("Content-Encoding = %q", got)
		}
		if resp.ContentLength >= int64(len(app["shop"+script].Data)) {
			t.Errorf("%d bytes on the wire, no fewer than the file", resp.ContentLength)
		}
		zr, err := gzip.NewReader(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(zr)
		if err != nil || string(plain) != string(app["shop"+script].Data) {
			t.Errorf("unpacked to %d bytes, error %v", len(plain), err)
		}
	})

	for _, tc := range []struct{ name, target, accept string }{
		{"nobody asked", script, ""},
		{"only others asked for", script, "br, deflate"},
		{"refused", script, "gzip;q=0, br"},
		{"a picture", "/assets/shop-C9.png", "gzip"},
		{"not worth it", "/assets/nested/tiny-A1.css", "gzip"},
	} {
		t.Run("plain: "+tc.name, func(t *testing.T) {
			resp := get(t, h, "GET", tc.target, "Accept-Encoding", tc.accept)
			if got := resp.Header.Get("Content-Encoding"); got != "" {
				t.Errorf("Content-Encoding = %q", got)
			}
			if bodyOf(t, resp) != string(app["shop"+tc.target].Data) {
				t.Error("not the file")
			}
		})
	}

	t.Run("caches keep both forms apart", func(t *testing.T) {
		zipped, plain := get(t, h, "GET", script, "Accept-Encoding", "gzip"), get(t, h, "GET", script)
		if zipped.Header.Get("Etag") == plain.Header.Get("Etag") {
			t.Error("the same ETag for different bytes")
		}
		for _, resp := range []*http.Response{zipped, plain} {
			if got := resp.Header.Get("Vary"); got != "Accept-Encoding" {
				t.Errorf("Vary = %q", got)
			}
		}
	})
}

func TestRevalidation(t *testing.T) {
	h := handler{keep(app)}
	etag := get(t, h, "GET", "/").Header.Get("Etag")
	for _, tc := range []struct {
		name, ifNoneMatch string
		status            int
	}{
		{"unchanged", etag, 304},
		{"unchanged, through a proxy that weakened it", `"other", W/` + etag, 304},
		{"changed", `"other"`, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			resp := get(t, h, "GET", "/sale/42", "If-None-Match", tc.ifNoneMatch)
			if resp.StatusCode != tc.status {
				t.Errorf("status = %d, want %d", resp.StatusCode, tc.status)
			}
			if body := bodyOf(t, resp); (body == "") != (tc.status == 304) {
				t.Errorf("body %q", body)
			}
		})
	}
}

func TestPageMayLoadFromItsOwnServerOnly(t *testing.T) {
	h := handler{keep(app)}
	if got := get(t, h, "GET", "/").Header.Get("Content-Security-Policy"); !strings.Contains(got, "default-src 'self'") {
		t.Errorf("Content-Security-Policy = %q", got)
	}
}

func TestLiveDirectory(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		file := filepath.Join(dir, "shop", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("index.html", "first")
	h := Handler(dir)
	if got := bodyOf(t, get(t, h, "GET", "/sale/1")); got != "first" {
		t.Errorf("page = %q", got)
	}
	write("index.html", "second")
	if got := bodyOf(t, get(t, h, "GET", "/sale/1")); got != "second" {
		t.Errorf("page after the change = %q", got)
	}
	if got := get(t, h, "GET", "/assets/none.js").StatusCode; got != 404 {
		t.Errorf("missing asset: status = %d", got)
	}
}

func TestWithoutAnAppNothingIsThere(t *testing.T) {
	for name, h := range map[string]http.Handler{
		"built without": handler{keep(fstest.MapFS{})},
		"wrong dir":     Handler(filepath.Join(t.TempDir(), "none")),
	} {
		t.Run(name, func(t *testing.T) {
			if got := get(t, h, "GET", "/").StatusCode; got != 404 {
				t.Errorf("status = %d", got)
			}
		})
	}
}

// TestEmbeddedApp holds what is committed in dist against its own references.
func TestEmbeddedApp(t *testing.T) {
	if _, err := fs.Stat(dist(), shopDir); err != nil {
		t.Skip("built with the tag noweb")
	}
	h := Handler("")
	loads := regexp.MustCompile(`<(?:script|link)\b[^>]* (?:src|href)="(/[^"]+)"`)
	for _, page := range []string{"/", "/docs", "/docs/errors"} {
		html := bodyOf(t, get(t, h, "GET", page))
		refs := loads.FindAllStringSubmatch(html, -1)
		if len(refs) < 2 {
			t.Errorf("%s loads nothing:\n%s", page, html)
		}
		for _, ref := range refs {
			resp := get(t, h, "GET", ref[1])
			if resp.StatusCode != 200 || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
				t.Errorf("%s: status %d, %s", ref[1], resp.StatusCode, resp.Header.Get("Content-Type"))
			}
		}
	}
}

// TestEveryErrorHasAnAnchor holds the page that the type of each problem points to against the list it is made from.
func TestEveryErrorHasAnAnchor(t *testing.T) {
	if _, err := fs.Stat(dist(), docsDir); err != nil {
		t.Skip("built with the tag noweb")
	}
	list, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	html := bodyOf(t, get(t, Handler(""), "GET", "/docs/errors"))
	codes := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(list), -1)
	if len(codes) == 0 {
		t.Fatal("no codes in docs/errors.md")
	}
	for _, code := range codes {
		if !strings.Contains(html, `id="`+code[1]+`"`) {
			t.Errorf("%s has no anchor: rebuild web/dist (make web)", code[1])
		}
	}
}

// TestAppLoadsNothingForeign looks for what a browser would fetch: the names in
// comments and in XML namespaces are never asked for.
func TestAppLoadsNothingForeign(t *testing.T) {
	foreign := regexp.MustCompile(`(?:url\(|src=|href=|import\(|from|fetch\()\s*["']?(?:https?:)?//[\w.-]+`)
	err := fs.WalkDir(dist(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(dist(), name)
		if err != nil {
			return err
		}
		// A megabyte is too much for the expression: it sees only what stands around "//".
		for at := 0; ; at += 2 {
			next := bytes.Index(content[at:], []byte("//"))
			if next < 0 {
				return nil
			}
			at += next
			if found := foreign.Find(content[max(0, at-20):min(len(content), at+40)]); found != nil {
				t.Errorf("%s: %s", name, found)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestShopperAppFitsItsBudget keeps the whole app, all routes included, below
// 200 kB on the wire.
func TestShopperAppFitsItsBudget(t *testing.T) {
	const budget = 200_000
	total := 0
	err := fs.WalkDir(dist(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasPrefix(name, shopDir+"/") {
			return err
		}
		content, err := fs.ReadFile(dist(), name)
		if zipped := compress(content); zipped != nil {
			content = zipped
		}
		total += len(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of %d bytes", total, budget)
	if total > budget {
		t.Errorf("%d bytes, more than %d", total, budget)
	}
}
