package app

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// law says which of our packages each may import; "kit" stands for all of kit. A package that is not listed is an
// offence too, so that a new one has to take its place in the house.
var law = map[string][]string{
	"cmd/tandian":        {"internal/app", "internal/config", "internal/bench", "internal/doctor"},
	"internal/app":       {"internal/config", "internal/schema", "internal/doctor", "internal/console", "internal/demo", "internal/payment", "internal/payment/sandbox", "internal/flashsale", "internal/order", "internal/voucher", "internal/shop", "internal/account", "web", "kit"},
	"internal/console":   {"internal/payment", "internal/flashsale", "internal/order", "internal/voucher", "internal/shop", "internal/account", "kit"},
	"internal/demo":      {"internal/flashsale", "internal/order", "internal/voucher", "internal/shop", "internal/account", "kit"},
	"internal/payment":   {"internal/order", "kit"},
	"internal/flashsale": {"internal/order", "internal/voucher", "kit"},
	"internal/order":     {"internal/voucher", "kit"},
	"internal/voucher":   {"kit"},
	"internal/shop":      {"kit"},
	"internal/account":   {"kit"},
	"internal/config":    {},
	"internal/schema":    {},
	"internal/bench":     {},
	"internal/doctor":    {"internal/config", "internal/schema", "kit"},
	"web":                {},

	"internal/payment/sandbox": {"internal/payment", "kit"},

	// The cellar, from the ground up.
	"internal/kit/errs":            {},
	"internal/kit/failpoint":       {},
	"internal/kit/limit":           {},
	"internal/kit/money":           {},
	"internal/kit/supervise":       {},
	"internal/kit/id":              {},
	"internal/kit/identity":        {"internal/kit/errs", "internal/kit/id"},
	"internal/kit/store":           {"internal/kit/id"},
	"internal/kit/store/storetest": {"internal/kit/store", "internal/schema"}, // for tests only: opens migrated databases
	"internal/kit/audit":           {"internal/kit/id", "internal/kit/store"},
	"internal/kit/kv":              {"internal/kit/store"},
	"internal/kit/kv/kvtest":       {}, // for tests only: Redis servers of their own
	"internal/kit/queue":           {},
	"internal/kit/queue/queuetest": {"internal/kit/queue"},
	"internal/kit/queue/sqlqueue":  {"internal/kit/queue", "internal/kit/store", "internal/kit/supervise"},
	"internal/kit/queue/rabbit":    {"internal/kit/queue", "internal/kit/supervise"},
	"internal/kit/queue/stream":    {"internal/kit/queue", "internal/kit/supervise"},
	"internal/kit/api":             {"internal/kit/errs", "internal/kit/id", "internal/kit/identity", "internal/kit/limit"},
}

// Tests may reach further (a whole path is tested where it begins), but not upward into app.
func TestImportLaw(t *testing.T) {
	root := filepath.Join("..", "..")
	edges := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if d.Name() == "node_modules" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		rel, _ := filepath.Rel(root, path)
		pkg := filepath.ToSlash(filepath.Dir(rel))
		if strings.HasPrefix(pkg, "test/") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			imported, ours := strings.CutPrefix(imported, "tandian/")
			if !ours || imported == pkg {
				continue
			}
			edges++
			if offence := judge(pkg, imported, strings.HasSuffix(path, "_test.go")); offence != "" {
				t.Errorf("%s: %s → %s: %s", rel, pkg, imported, offence)
			}
		}
		return nil
	})
	if err != nil || edges < 50 {
		t.Fatalf("only %d edges seen: %v", edges, err)
	}
}

func judge(pkg, imported string, test bool) string {
	allowed, known := law[pkg]
	switch {
	case !known:
		return "this package has no place in the law"
	case slices.Contains(allowed, imported):
		return ""
	case strings.HasPrefix(imported, "internal/kit/") && slices.Contains(allowed, "kit"):
		return ""
	case test && imported != "internal/app" && pkg != "internal/bench":
		return ""
	}
	return "not allowed"
}

func TestLawSeesOffences(t *testing.T) {
	for _, edge := range [][2]string{{"internal/order", "internal/flashsale"}, {"internal/kit/errs", "internal/kit/api"}, {"internal/shop", "internal/voucher"},
		{"internal/new", "internal/kit/errs"}, {"internal/bench", "internal/kit/id"}, {"internal/kit/store", "internal/order"}} {
		if judge(edge[0], edge[1], false) == "" {
			t.Errorf("%s → %s went unseen", edge[0], edge[1])
		}
	}
	if judge("internal/voucher", "internal/app", true) == "" {
		t.Error("not even a test may import app from below")
	}
}
