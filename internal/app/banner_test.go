package app

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write golden files anew")

func bannerInfo() Info {
	return Info{
		Version: "v0.1.0", Mode: "embedded", URL: "http://localhost:8080", AdminURL: "http://127.0.0.1:9090",
		Stores: []string{"SQLite 3.53.0 (WAL, synchronous=FULL)", "memory key-value store with journal", "queue in SQL"},
		Accounts: []DemoAccount{
			{"operator", "13800000001", "tandian-demo"},
			{"merchant", "13800000002", "tandian-demo"},
			{"clerk", "13800000003", "tandian-demo"},
			{"shopper", "13800000004", "tandian-demo"},
		},
	}
}

func TestBanner(t *testing.T) {
	bare := bannerInfo()
	bare.Accounts = nil
	for name, info := range map[string]Info{"banner_demo": bannerInfo(), "banner_serve": bare} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			Banner(&b, info)
			for line := range strings.Lines(b.String()) {
				if n := columns(strings.TrimSuffix(line, "\n")); n > 80 {
					t.Errorf("%d columns: %s", n, line)
				}
			}
			file := "testdata/" + name + ".golden"
			if *update {
				if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The values of all lines must start in one column, whatever the width of the words before them.
func TestBannerAligns(t *testing.T) {
	var b strings.Builder
	Banner(&b, bannerInfo())
	for _, value := range []string{"http://localhost:8080/\n", "http://localhost:8080/docs", "http://127.0.0.1:9090/metrics", "SQLite", "13800000001", "13800000004"} {
		before, _, ok := strings.Cut(b.String(), value)
		if !ok {
			t.Fatalf("no %q in\n%s", value, b.String())
		}
		if got := columns(before[strings.LastIndex(before, "\n")+1:]); got != 18 {
			t.Errorf("%q starts in column %d, want 18", value, got)
		}
	}
}
