package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/reliability.md names tests that exist, and every lever and every actor that there is.
func TestDocumentIsTrue(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(shared.root, "docs", "reliability.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/]+)\\.(Test\\w+)`").FindAllStringSubmatch(string(document), -1)
	if len(named) < 50 {
		t.Errorf("the document names %d tests", len(named))
	}
	sources := map[string]string{} // of a package's tests
	for _, one := range named {
		pkg, test := one[1], one[2]
		if _, ok := sources[pkg]; !ok {
			sources[pkg] = testsOf(t, pkg)
		}
		if !strings.Contains(sources[pkg], "\nfunc "+test+"(t *testing.T)") {
			t.Errorf("there is no %s in %s", test, pkg)
		}
	}
	for _, l := range levers {
		if !regexp.MustCompile(`(?m)^\| ([^|]+, )?` + l.name + `(,[^|]+)? \|`).Match(document) {
			t.Errorf("the table lacks the lever %q", l.name)
		}
	}
	actors := []string{}
	for _, d := range doings {
		actors = append(actors, d.name)
	}
	for _, a := range thens {
		actors = append(actors, a.name)
	}
	for _, name := range actors {
		if !strings.Contains(string(document), "\n| "+name+" |") {
			t.Errorf("the table lacks the actor %q", name)
		}
	}
}

// testsOf is the source of a package's tests.
func testsOf(t *testing.T, pkg string) string {
	t.Helper()
	dir := filepath.Join(shared.root, "internal", pkg)
	if strings.HasPrefix(pkg, "test/") {
		dir = filepath.Join(shared.root, pkg)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString("\n")
		all.Write(b)
	}
	return all.String()
}
