package doctor

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
)

var (
	loads = regexp.MustCompile(`<(?:script|link)\b[^>]* (?:src|href)="(/[^"]+)"`)
	pages = []struct{ name, path string }{{"shop", "/"}, {"API reference", "/docs"}}
)

// Web examines whether a handler has the web apps and every file that their pages load. A page's script carries a hash
// of its content in its name, which tells builds apart.
func Web(site http.Handler) Examination {
	return func(ctx context.Context, r *Report) {
		var builds []string
		for _, page := range pages {
			html, status := fetch(ctx, site, page.path)
			if status != http.StatusOK {
				r.warn("web apps", fmt.Sprintf("no %s at %s", page.name, page.path), "use a binary that was built without the tag noweb, or correct --web-dir")
				return
			}
			build := ""
			for _, ref := range loads.FindAllStringSubmatch(html, -1) {
				if _, status := fetch(ctx, site, ref[1]); status != http.StatusOK {
					r.fail("web apps", fmt.Sprintf("the %s loads %s, which isn't there", page.name, ref[1]), "build them anew with make web, and then the binary")
					return
				}
				if build == "" && strings.HasSuffix(ref[1], ".js") {
					build = path.Base(ref[1])
				}
			}
			builds = append(builds, page.name+" "+build)
		}
		r.ok("web apps", "%s", strings.Join(builds, ", "))
	}
}

// fetch asks a handler without a network.
func fetch(ctx context.Context, h http.Handler, path string) (body string, status int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", http.StatusBadRequest
	}
	w := &page{header: http.Header{}, status: http.StatusOK}
	h.ServeHTTP(w, req)
	return w.body.String(), w.status
}

// page keeps a reply.
type page struct {
	header http.Header
	status int
	body   strings.Builder
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) WriteHeader(status int)      { p.status = status }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }
