package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The committed pictures are what this program draws.
func TestPicturesAreUpToDate(t *testing.T) {
	folder := t.TempDir()
	if err := run(folder); err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadDir("../pictures")
	if err != nil {
		t.Fatal(err)
	}
	if len(drawn) != len(committed) {
		t.Errorf("%d drawn, %d committed: run go generate ./internal/demo", len(drawn), len(committed))
	}
	for _, f := range drawn {
		want, _ := os.ReadFile(filepath.Join(folder, f.Name()))
		got, err := os.ReadFile(filepath.Join("../pictures", f.Name()))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what is drawn (%v): run go generate ./internal/demo", f.Name(), err)
		}
	}
}
