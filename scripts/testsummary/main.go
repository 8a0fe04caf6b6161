// Command testsummary reads the output of `go test -json` from standard input and shows what matters: go test's own
// lines for packages, everything a failed test wrote, and each skipped test with its reason. A skipped test counts as
// a failure: whoever reads a green run must be able to rely on every test having run.
//
//	go test -json ./... | testsummary -counts FILE
//
// It exits with 1 when a test or a build failed, a test was skipped, or none ran, and appends "passed failed" to the
// counts file.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	counts := flag.String("counts", "", "append the numbers of passed and failed tests to this file")
	flag.Parse()
	s := &summary{out: os.Stdout, written: map[key]*strings.Builder{}, failedIn: map[string]bool{}}
	err := s.read(os.Stdin)
	if err == nil {
		err = s.close(*counts)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsummary:", err)
		os.Exit(1)
	}
}

// event is a line of test2json; build lines carry ImportPath instead of Package.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

type key struct{ pkg, test string }

type summary struct {
	out                     io.Writer
	passed, failed, skipped int
	written                 map[key]*strings.Builder // output of running tests
	failedIn                map[string]bool          // packages with a failed test
}

func (s *summary) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			s.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(s.out, "%s", line) // go itself speaking, not a test
		return
	}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(s.out, e.Output)
	case e.Test == "":
		s.pkg(e)
	default:
		s.test(e)
	}
}

// pkg handles what concerns a package as a whole.
func (s *summary) pkg(e event) {
	switch e.Action {
	case "output":
		if e.Output != "PASS\n" && !strings.HasPrefix(e.Output, "?") {
			fmt.Fprint(s.out, e.Output)
		}
	case "fail":
		if !s.failedIn[e.Package] { // it didn't build, or crashed outside of any test
			s.failed++
		}
	}
}

func (s *summary) test(e event) {
	k := key{e.Package, e.Test}
	switch e.Action {
	case "output":
		b := s.written[k]
		if b == nil {
			b = &strings.Builder{}
			s.written[k] = b
		}
		b.WriteString(e.Output)
		return
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.failedIn[e.Package] = true
		s.show(k)
	case "skip":
		s.skipped++
		s.show(k)
	default:
		return
	}
	delete(s.written, k)
}

func (s *summary) show(k key) {
	if b := s.written[k]; b != nil {
		fmt.Fprintf(s.out, "%s: %s", k.pkg, b)
	}
}

// close shows what never ended and decides.
func (s *summary) close(counts string) error {
	for k := range s.written {
		fmt.Fprintf(s.out, "%s: %s did not end\n", k.pkg, k.test)
		s.show(k)
	}
	bad := s.failed + s.skipped
	if counts != "" {
		if err := appendTo(counts, fmt.Sprintf("%d %d\n", s.passed, bad)); err != nil {
			return err
		}
	}
	switch {
	case bad > 0:
		return fmt.Errorf("%d tests failed and %d were skipped, which counts as failed", s.failed, s.skipped)
	case s.passed == 0:
		return fmt.Errorf("no test ran")
	}
	return nil
}

func appendTo(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
