package demo

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
)

//go:embed pictures/*.svg
var files embed.FS

// pictureCSP keeps a picture that is opened by itself from running or fetching anything.
const pictureCSP = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// Pictures serves the town's pictures by their names under /pictures/. They may be kept for good.
func Pictures() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, ok := strings.CutPrefix(r.URL.Path, "/pictures/")
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
			return
		}
		picture, err := files.ReadFile("pictures/" + name)
		if !ok || err != nil {
			http.NotFound(w, r)
			return
		}
		sum := sha256.Sum256(picture)
		h := w.Header()
		h.Set("Content-Type", "image/svg+xml")
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
		h.Set("Content-Security-Policy", pictureCSP)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(picture))
	})
}

func categoryIcon(n int) string { return fmt.Sprintf("/pictures/category-%d.svg", n) }
func avatarPath(n int) string   { return fmt.Sprintf("/pictures/avatar-%02d.svg", n) }
func shopPictures(n int) []string {
	return []string{fmt.Sprintf("/pictures/shop-%02d.svg", n), fmt.Sprintf("/pictures/shop-%02d-front.svg", n)}
}
