package config

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

func known() map[string]bool { return NewSources(nil).keys }

func TestParseFile(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     map[string]string
		fault    string // what the faults contain, "" = none
	}{
		{"empty", "", nil, ""},
		{"comments only", "# nothing\n\n# here\n", nil, ""},
		{"explicit nothing", "---\n", nil, ""},
		{"one key", "addr: ':1'\n", map[string]string{"addr": ":1"}, ""},
		{"scalars as text", "writers: 0x10\nwriter-batch: 1_0\ndemo: yes\npay-window: 1h30m\nid-block: +5\n",
			map[string]string{"writers": "0x10", "writer-batch": "1_0", "demo": "yes", "pay-window": "1h30m", "id-block": "+5"}, ""},
		{"block text", "ready-file: >-\n  /run/tandian\n", map[string]string{"ready-file": "/run/tandian"}, ""},
		{"list", "trusted-proxies:\n  - 10.0.0.0/8\n  - ::1/128\n", map[string]string{"trusted-proxies": "10.0.0.0/8,::1/128"}, ""},
		{"comma in a list item", "trusted-proxies: ['a,b', c]\n", map[string]string{"trusted-proxies": `a\,b,c`}, ""},
		{"unknown key", "addr: ':1'\npay-windows: 1m\n", map[string]string{"addr": ":1"}, `f.yaml:2: unknown key "pay-windows"`},
		{"snake case", "pay_window: 1m\n", nil, `f.yaml:1: unknown key "pay_window"; did you mean "pay-window"?`},
		{"camel case", "payWindow: 1m\n", nil, `did you mean "pay-window"?`},
		{"a file can't name a file", "config: other.yaml\n", nil, `f.yaml:1: unknown key "config"`},
		{"twice", "demo: true\naddr: ':1'\ndemo: false\n", map[string]string{"addr": ":1", "demo": "true"}, `f.yaml:3: key "demo" is there twice (first at f.yaml:1); keep one`},
		{"no value", "addr:\ndemo: true\n", map[string]string{"demo": "true"}, `f.yaml:1: key "addr" has no plain value`},
		{"nested", "addr:\n  host: x\n", nil, `f.yaml:1: key "addr" has no plain value`},
		{"list in a list", "trusted-proxies: [[a]]\n", nil, `key "trusted-proxies" has no plain value`},
		{"a list", "- addr\n", nil, "f.yaml: line 1: want KEY: VALUE lines"},
		{"a word", "hello\n", nil, "want KEY: VALUE lines"},
		{"two documents", "demo: true\n---\ndemo: false\n", nil, "more than one YAML document"},
		{"broken", "addr: [\n", nil, "f.yaml: not YAML"},
		{"alias", "addr: &a ':1'\nadmin-addr: *a\n", nil, `key "admin-addr" has no plain value`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			values, faults := parseFile("f.yaml", []byte(tt.in), known())
			got := map[string]string{}
			for k, v := range values {
				got[k] = v.text
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("values %v, want %v", got, tt.want)
			}
			if text := fmt.Sprint(faults); tt.fault == "" && faults != nil || !strings.Contains(text, tt.fault) {
				t.Errorf("faults %q, want %q", text, tt.fault)
			}
		})
	}
}

// Whatever stands in the file: no panic, only known keys, and faults of one line each.
func FuzzParseFile(f *testing.F) {
	for _, s := range []string{"", "addr: ':1'", "a: [1, {b: c}]", "? x\n: y", "&a *a", "<<: *b", "!!binary x", "%YAML 1.2\n---\n", "addr: |\n  x", "\"", "{", "- -", "a: b: c", "\xff", "addr: \"\\u"} {
		f.Add([]byte(s))
	}
	keys := known()
	f.Fuzz(func(t *testing.T, data []byte) {
		values, faults := parseFile("f.yaml", data, keys)
		for key, v := range values {
			if !keys[key] || v.at == "" {
				t.Errorf("key %q at %q", key, v.at)
			}
		}
		for _, fault := range faults {
			if strings.Contains(fault.Error(), "\n") {
				t.Errorf("a fault of several lines: %q", fault)
			}
		}
	})
}
