package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTableInAPage(t *testing.T) {
	dir := t.TempDir()
	page, data := filepath.Join(dir, "page.md"), filepath.Join(dir, "data.json")
	for name, text := range map[string]string{
		"load": "0.10 0.20 0.30\n", "grab.command": "tandian bench grab\n", "gate.command": "go test\n", "page.md": "before\n" + begin + "obsolete" + end + "after\n",
		"grab": `{"cpuRatio":4.5,"cpuMicrosByProgram":{"redis-server":61.2},"stores":["MySQL 8","Redis 7","RabbitMQ 3"],"commit":"0123456789abcdef","machine":"m","startedAt":"2030-01-02T03:04:05Z","curve":[{"t":1}]}`,
		"gate": "goos: linux\nBenchmarkGateCompare-2 \t 50000\t 22801 alone:buyers/s\t 1.400 gain:buyers/s\t 31917 ours:buyers/s\nPASS\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(io.Discard, dir, page, data); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"before\n", "2030-01-02, commit `0123456789ab`. m. MySQL 8, Redis 7, RabbitMQ 3. Load average before the first run: 0.10 0.20 0.30.",
		"**1.40** (31917 and 22801)", "**4.50**", "redis-server 61", "`go test`", "after\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the page lacks %q:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "obsolete") {
		t.Error("the old figures are still there")
	}
	if b, err := os.ReadFile(data); err != nil || !strings.Contains(string(b), `"gain:buyers/s": 1.4`) || strings.Contains(string(b), "curve") {
		t.Errorf("%v\n%s", err, b)
	}
}

func TestPageWithoutMarkers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"load": "", "grab.command": "x", "grab": `{"cpuRatio":1}`, "page.md": "nothing"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(io.Discard, dir, filepath.Join(dir, "page.md"), filepath.Join(dir, "data")); err == nil {
		t.Error("a page that can't be filled in was taken")
	}
	if err := run(io.Discard, t.TempDir(), "", ""); err == nil {
		t.Error("an empty folder was taken")
	}
}
