package demo_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tandian/internal/demo"
	"tandian/internal/shop"
)

func get(method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	demo.Pictures().ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestEveryPictureOfTheTownIsThere(t *testing.T) {
	w := newWorld(t)
	must(t, w.Seed(t.Context()))
	var paths []string
	for _, s := range w.shops(t) {
		if len(s.Pictures) < 2 {
			t.Errorf("%s has %v", s.Name, s.Pictures)
		}
		paths = append(paths, s.Pictures...)
	}
	categories, err := shop.FindCategories(t.Context(), w.db.Read)
	must(t, err)
	for _, c := range categories {
		paths = append(paths, c.Icon)
	}
	var avatars []string
	must(t, w.db.Read.NewRaw(`SELECT avatar FROM users`).Scan(t.Context(), &avatars))
	if len(avatars) != 12 {
		t.Errorf("%d users", len(avatars))
	}
	shown := map[string]bool{}
	for _, path := range append(paths, avatars...) {
		if shown[path] {
			t.Errorf("%s is used twice", path)
		}
		shown[path] = true
		if a := get("GET", path); a.Code != 200 {
			t.Errorf("%q: %d", path, a.Code)
		}
	}
	files, err := filepath.Glob("pictures/*")
	must(t, err)
	if len(files) != len(shown) {
		t.Errorf("%d files for %d pictures", len(files), len(shown))
	}
}

// A picture is well-formed, small, and neither runs nor fetches anything.
func TestPicturesAreHarmless(t *testing.T) {
	files, err := filepath.Glob("pictures/*.svg")
	must(t, err)
	for _, name := range files {
		b, err := os.ReadFile(name)
		must(t, err)
		if len(b) > 6<<10 {
			t.Errorf("%s has %d bytes", name, len(b))
		}
		if strings.Contains(string(b), "{") {
			t.Errorf("%s has a colour that was not filled in", name)
		}
		decoder := xml.NewDecoder(bytes.NewReader(b))
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			element, ok := token.(xml.StartElement)
			if !ok {
				if _, directive := token.(xml.Directive); directive {
					t.Errorf("%s has a directive", name)
				}
				continue
			}
			switch element.Name.Local {
			case "script", "foreignObject", "image", "style", "animate", "set", "a":
				t.Errorf("%s has a <%s>", name, element.Name.Local)
			}
			for _, a := range element.Attr {
				outside := strings.Contains(a.Value, "url(") && !strings.Contains(a.Value, "url(#") || a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#")
				if outside || strings.HasPrefix(a.Name.Local, "on") || strings.Contains(a.Value, "://") && a.Name.Local != "xmlns" {
					t.Errorf("%s has %s=%q", name, a.Name.Local, a.Value)
				}
			}
		}
	}
}

func TestPicturesHandler(t *testing.T) {
	a := get("GET", "/pictures/shop-01.svg")
	h := a.Header()
	if a.Code != 200 || h.Get("Content-Type") != "image/svg+xml" || h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Cache-Control"), "immutable") ||
		!strings.Contains(h.Get("Content-Security-Policy"), "sandbox") || h.Get("ETag") == "" || a.Body.Len() < 500 {
		t.Fatal(a.Code, h)
	}
	again := httptest.NewRequest("GET", "/pictures/shop-01.svg", nil)
	again.Header.Set("If-None-Match", h.Get("ETag"))
	w := httptest.NewRecorder()
	demo.Pictures().ServeHTTP(w, again)
	if w.Code != http.StatusNotModified {
		t.Error(w.Code)
	}
	for path, status := range map[string]int{"/pictures/": 404, "/pictures/nothing.svg": 404, "/pictures/../pictures.go": 404, "/pictures/%2e%2e/pictures.go": 404, "/shop-01.svg": 404} {
		if got := get("GET", path); got.Code != status {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
	if got := get("HEAD", "/pictures/shop-01.svg"); got.Code != 200 || got.Body.Len() != 0 {
		t.Error(got.Code)
	}
	if got := get("POST", "/pictures/shop-01.svg"); got.Code != 405 || got.Header().Get("Allow") == "" {
		t.Error(got.Code)
	}
}
