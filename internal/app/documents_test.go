package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tandian/internal/config"
	"tandian/internal/kit/errs"
)

// open starts an App on a folder of its own and free ports.
func open(t testing.TB, change func(*config.Config)) *App {
	t.Helper()
	cfg := config.Default()
	cfg.DataDir, cfg.Addr, cfg.AdminAddr = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0"
	if change != nil {
		change(cfg)
	}
	a, err := New(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("%s is stale; run: go test ./internal/app -run Document -update", filepath.Base(path))
	}
}

func TestOpenAPIDocument(t *testing.T) {
	doc, err := open(t, nil).OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join("..", "..", "api", "openapi.json"), doc)
}

// Every error that can reach a person: unique, in both languages, listed in docs/errors.md.
func TestErrorsDocument(t *testing.T) {
	var table strings.Builder
	table.WriteString("\n| code | status | 中文 | English |\n|---|---|---|---|\n")
	seen := map[string]bool{}
	for _, e := range errs.All() {
		if strings.HasPrefix(e.Code, "test.") {
			continue
		}
		if seen[e.Code] || e.ZH == "" || e.EN == "" || !strings.Contains(e.Code+".", ".") || strings.ToLower(e.Code) != e.Code {
			t.Errorf("%s: must be unique, lower case and in both languages", e.Code)
		}
		seen[e.Code] = true
		fmt.Fprintf(&table, "| `%s` | %d | %s | %s |\n", e.Code, e.Kind.Status(), e.ZH, e.EN)
	}
	path := filepath.Join("..", "..", "docs", "errors.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(page), "<!-- generated -->")
	if !found {
		t.Fatal("docs/errors.md has lost its mark")
	}
	golden(t, path, []byte(head+"<!-- generated -->\n"+table.String()+"\n<!-- end -->\n"))
}

// The READMEs prove each promise by tests that exist, and both by the same ones.
func TestReadmesNameTestsThatExist(t *testing.T) {
	root := filepath.Join("..", "..")
	proof := regexp.MustCompile("`([a-z/0-9]+)` (Test\\w+(?:, Test\\w+)*)")
	var named [2][]string
	for i, file := range []string{"README.md", "README.zh.md"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range proof.FindAllStringSubmatch(string(text), -1) {
			for _, test := range strings.Split(m[2], ", ") {
				named[i] = append(named[i], m[1]+" "+test)
				if !hasTest(t, root, m[1], test) {
					t.Errorf("%s: there is no %s in %s", file, test, m[1])
				}
			}
		}
	}
	if len(named[0]) < 30 || !slices.Equal(named[0], named[1]) {
		t.Errorf("the READMEs name different tests:\n%v\n%v", named[0], named[1])
	}
}

func hasTest(t *testing.T, root, pkg, test string) bool {
	t.Helper()
	if !strings.HasPrefix(pkg, "test/") {
		pkg = "internal/" + pkg
	}
	files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		source, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(source), "\nfunc "+test+"(t *testing.T)")
	})
}

// Every link from one of our pages to a file leads somewhere.
func TestDocumentLinks(t *testing.T) {
	root := filepath.Join("..", "..")
	link := regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
	seen := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/adr/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range link.FindAllStringSubmatch(string(text), -1) {
				seen++
				if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
					t.Errorf("%s: %v", page, err)
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d links seen", seen)
	}
}
