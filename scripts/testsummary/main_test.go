package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func summarize(t *testing.T, events ...string) (output, counts string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "counts")
	var out strings.Builder
	s := &summary{out: &out, written: map[key]*strings.Builder{}, failedIn: map[string]bool{}}
	if err := s.read(strings.NewReader(strings.Join(events, "\n"))); err != nil {
		t.Fatal(err)
	}
	err = s.close(file)
	b, readErr := os.ReadFile(file)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return out.String(), string(b), err
}

const (
	passA = `{"Action":"pass","Package":"p","Test":"TestA"}`
	okP   = `{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`
)

func TestSummary(t *testing.T) {
	for _, tt := range []struct {
		name   string
		events []string
		output string
		counts string
		ok     bool
	}{
		{"passes", []string{`{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}`, passA, `{"Action":"output","Package":"p","Output":"PASS\n"}`, okP, `{"Action":"pass","Package":"p"}`},
			"ok  \tp\t0.1s\n", "1 0\n", true},
		{"fails with its output, once", []string{passA, `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: bad\n"}`, `{"Action":"fail","Package":"p","Test":"TestB"}`, `{"Action":"fail","Package":"p"}`},
			"p:     b_test.go:1: bad\n", "1 1\n", false},
		{"a skip is a failure", []string{passA, `{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:1: no docker\n"}`, `{"Action":"skip","Package":"p","Test":"TestB"}`, okP},
			"p:     b_test.go:1: no docker\nok  \tp\t0.1s\n", "1 1\n", false},
		{"a package without tests is no skip", []string{passA, `{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}`, `{"Action":"skip","Package":"q"}`},
			"", "1 0\n", true},
		{"a build fails", []string{passA, `{"ImportPath":"q","Action":"build-output","Output":"q.go:1: undefined: x\n"}`, `{"ImportPath":"q","Action":"build-fail"}`, `{"Action":"fail","Package":"q","FailedBuild":"q"}`},
			"q.go:1: undefined: x\n", "1 1\n", false},
		{"nothing ran", nil, "", "0 0\n", false},
		{"words of go itself", []string{"go: downloading x", passA}, "go: downloading x\n", "1 0\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			output, counts, err := summarize(t, tt.events...)
			if output != tt.output || counts != tt.counts || (err == nil) != tt.ok {
				t.Errorf("output %q, counts %q, err %v", output, counts, err)
			}
		})
	}
}
