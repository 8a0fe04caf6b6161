// Command benchtable turns what scripts/bench-production has measured into a table:
//
//	benchtable [-page FILE -data FILE] FOLDER
//
// The folder holds a file for each measurement (a JSON report of tandian bench, or the output of a Go benchmark) and
// beside it, named NAME.command, the command line. The table goes to standard output and, with -page, between the two
// marker lines of that page; -data is written with all figures.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const (
	begin = "<!-- figures: written by scripts/bench-production -->\n"
	end   = "<!-- end of figures -->\n"
)

func main() {
	page := flag.String("page", "", "put the table into this page")
	data := flag.String("data", "", "write all figures to this file")
	flag.Parse()
	if err := run(os.Stdout, flag.Arg(0), *page, *data); err != nil {
		fmt.Fprintln(os.Stderr, "benchtable:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, folder, page, data string) error {
	all, err := read(folder)
	if err != nil {
		return err
	}
	table := all.table()
	if _, err := io.WriteString(out, table); err != nil || page == "" {
		return err
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no lines %q and %q", page, begin, end)
	}
	encoded, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(page, []byte(before+begin+table+end+after), 0o644), os.WriteFile(data, append(encoded, '\n'), 0o644))
}

// figures are all measurements by name.
type figures map[string]measurement

// measurement is one report, flattened: "latencyMs.p99" and the like; of a Go benchmark, its metrics by unit.
type measurement struct {
	Command string             `json:"command"`
	Numbers map[string]float64 `json:"numbers"`
	Texts   map[string]string  `json:"texts,omitempty"`
}

func read(folder string) (figures, error) {
	commands, err := filepath.Glob(filepath.Join(folder, "*.command"))
	if err != nil || len(commands) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s holds no measurements", folder))
	}
	all := figures{}
	for _, file := range commands {
		command, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(file, ".command")
		body, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		m := measurement{Command: strings.TrimSpace(string(command)), Numbers: map[string]float64{}, Texts: map[string]string{}}
		if err := m.parse(body); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[filepath.Base(name)] = m
	}
	load, err := os.ReadFile(filepath.Join(folder, "load"))
	if err != nil {
		return nil, err
	}
	all["machine"] = measurement{Texts: map[string]string{"load": strings.TrimSpace(string(load))}}
	return all, nil
}

var metric = regexp.MustCompile(`([\d.e+-]+) ([^\s\d]\S*)`)

func (m measurement) parse(body []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		var report map[string]any
		if err := json.Unmarshal(body, &report); err != nil {
			return err
		}
		delete(report, "curve")
		m.flatten("", report)
		return nil
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "Benchmark") {
			for _, found := range metric.FindAllStringSubmatch(line, -1) {
				v, err := strconv.ParseFloat(found[1], 64)
				if err != nil {
					return err
				}
				m.Numbers[found[2]] = v
			}
		}
	}
	if len(m.Numbers) == 0 {
		return errors.New("no figures")
	}
	return nil
}

func (m measurement) flatten(path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			m.flatten(strings.TrimPrefix(path+"."+key, "."), inner)
		}
	case []any:
		for i, inner := range v {
			m.flatten(path+"."+strconv.Itoa(i), inner)
		}
	case float64:
		m.Numbers[path] = v
	case string:
		m.Texts[path] = v
	case bool:
		m.Texts[path] = strconv.FormatBool(v)
	}
}
