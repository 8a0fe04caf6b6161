package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Threshold is one condition of --expect, such as p99<80ms.
type Threshold struct {
	Text   string  // as written
	Metric string  // canonical name
	Op     string  // <, <=, >, >=, =
	Value  float64 // in the metric's unit; milliseconds for times
	Share  bool    // Value is a share of all attempts (written with %)
}

// Check is a threshold and what was measured.
type Check struct {
	Text   string   `json:"text"`
	Actual *float64 `json:"actual"` // nil: not measured, which never passes
	OK     bool     `json:"ok"`
}

type metricKind uint8

const (
	number metricKind = iota
	milliseconds
	share // may be written as a share of all attempts
)

// metrics lists what --expect may name.
var metrics = map[string]metricKind{
	"p50": milliseconds, "p95": milliseconds, "p99": milliseconds, "max": milliseconds, "drain": milliseconds,
	"errors": share, "refused": share, "oversell": number, "overlimit": number, "dup": number, "lost": number, "ghost": number,
	"accept": number, "written": number, "rps": number, "ratio": number, "cpu": number, "soldoutcpu": number, "p99ratio": number,
}

// ParseExpect reads a comma-separated list of thresholds. The empty list is valid.
func ParseExpect(list string) ([]Threshold, error) {
	var out []Threshold
	for _, text := range strings.Split(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			continue
		}
		t, err := parseThreshold(text)
		if err != nil {
			return nil, fmt.Errorf("--expect %q: %w", text, err)
		}
		out = append(out, t)
	}
	return out, nil
}

func parseThreshold(text string) (Threshold, error) {
	i := strings.IndexAny(text, "<>=")
	if i <= 0 {
		return Threshold{}, fmt.Errorf("want metric, comparison, value")
	}
	t := Threshold{Text: text, Metric: strings.ToLower(strings.TrimSpace(text[:i])), Op: text[i : i+1]}
	rest := text[i+1:]
	if t.Op != "=" && strings.HasPrefix(rest, "=") {
		t.Op, rest = t.Op+"=", rest[1:]
	}
	kind, ok := metrics[t.Metric]
	if !ok {
		return Threshold{}, fmt.Errorf("unknown metric %q", t.Metric)
	}
	rest = strings.TrimSpace(rest)
	if kind == milliseconds {
		d, err := time.ParseDuration(rest)
		if err != nil {
			return Threshold{}, fmt.Errorf("want a duration such as 80ms")
		}
		t.Value = float64(d) / float64(time.Millisecond)
		return t, nil
	}
	if s, found := strings.CutSuffix(rest, "%"); found && kind == share {
		t.Share, rest = true, s
	}
	value, err := strconv.ParseFloat(rest, 64)
	if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
		return Threshold{}, fmt.Errorf("want a number")
	}
	if t.Value = value; t.Share {
		t.Value /= 100
	}
	return t, nil
}

// of is n, or its share of total if the threshold is one.
func (t Threshold) of(n, total int) *float64 {
	v := float64(n)
	if t.Share {
		v /= float64(max(total, 1))
	}
	return &v
}

// check compares a measured value with the threshold.
func (t Threshold) check(actual *float64) Check {
	c := Check{Text: t.Text, Actual: actual}
	if actual == nil {
		return c
	}
	switch a := *actual; t.Op {
	case "<":
		c.OK = a < t.Value
	case "<=":
		c.OK = a <= t.Value
	case ">":
		c.OK = a > t.Value
	case ">=":
		c.OK = a >= t.Value
	case "=":
		c.OK = a == t.Value
	}
	return c
}

// ViolationError says that a run went through but showed a broken invariant or missed a threshold.
type ViolationError struct {
	Broken []string // one line each
}

func (e *ViolationError) Error() string {
	return "bench: " + strings.Join(e.Broken, "; ")
}
