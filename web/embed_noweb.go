//go:build noweb

package web

import (
	"embed"
	"io/fs"
)

// dist returns an empty file system: the binary was built without the web apps.
func dist() fs.FS { return embed.FS{} }
