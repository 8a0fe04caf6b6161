//go:build !noweb

package web

import (
	"embed"
	"io/fs"
)

// The built apps. "all:" keeps the files whose name starts with an underscore,
// which the bundler makes and a plain pattern would leave out.
//
//go:embed all:dist
var embedded embed.FS

// dist returns the built apps: one directory for each app.
func dist() fs.FS {
	sub, err := fs.Sub(embedded, "dist")
	if err != nil {
		panic(err) // only for an invalid path, and this one is a constant
	}
	return sub
}
