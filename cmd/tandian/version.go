package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

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

// commit names the source of this binary as closely as can be told: by what the toolchain wrote into it, or else, when
// it runs inside the repository it was built from, by what is checked out there. Changes that are not committed show as
// "-dirty".
func commit(ctx context.Context) string {
	if b := buildInfo(); b.Commit != "" {
		if b.Modified {
			return b.Commit + "-dirty"
		}
		return b.Commit
	}
	top, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return ""
	}
	mod, err := os.ReadFile(filepath.Join(top, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module tandian\n") {
		return ""
	}
	described, _ := git(ctx, "describe", "--always", "--dirty", "--exclude=*", "--abbrev=40") // without it nothing is known
	return described
}

func git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	return strings.TrimSpace(string(out)), err
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
