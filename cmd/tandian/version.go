package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"tandian/internal/app"
)

type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Modified bool   `json:"modified"`       // built from a tree with changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildInfo reads what the toolchain wrote into the binary.
func buildInfo() build {
	b := build{Version: app.Version(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

type versionCommand struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *versionCommand) Run(p *program) error {
	b := buildInfo()
	if c.JSON {
		return printJSON(p.stdout, b)
	}
	_, err := fmt.Fprintf(p.stdout, "tandian %s (%s, %s)\n", b.Version, b.Go, b.Platform)
	return err
}
