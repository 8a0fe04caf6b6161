package config

import (
	"encoding"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// Setting is one line of `tandian config show`.
type Setting struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // secrets masked
	Origin Origin `json:"origin"`
	Env    string `json:"env"`
	Help   string `json:"-"`
}

// Settings lists every setting in the order of the struct; origin may be nil.
func (c *Config) Settings(origin func(key string) Origin) []Setting {
	var list []Setting
	for key, f := range fields(c) {
		if key == "config" {
			continue
		}
		s := Setting{Key: key, Value: show(f.value), Env: EnvName(key), Help: f.tag.Get("help")}
		if origin != nil {
			s.Origin = origin(key)
		}
		list = append(list, s)
	}
	return list
}

// Default returns the configuration of a command line without arguments, file and environment.
func Default() *Config {
	c := &Config{}
	// The error would be a default in our own tags that doesn't parse; TestDefaultIsValid stands before it.
	if err := kong.ApplyDefaults(c); err != nil {
		panic(err)
	}
	return c
}

// Template is a file with every key commented out at its default, for `tandian config init`.
func Template() string {
	var b strings.Builder
	b.WriteString("# Settings of tandian. Flags beat environment variables, which beat this file.\n" +
		"# Take the # off a line to set it; check the result with: tandian config validate --config FILE\n")
	for _, s := range Default().Settings(nil) {
		value := s.Value
		if value == "" || strings.HasPrefix(value, ":") {
			value = `"` + value + `"`
		}
		fmt.Fprintf(&b, "\n# %s (%s)\n# %s: %s\n", s.Help, s.Env, s.Key, value)
	}
	return b.String()
}

type field struct {
	value reflect.Value
	tag   reflect.StructTag
}

// fields walks the settings of a Config by key.
func fields(c *Config) iter.Seq2[string, field] {
	return func(yield func(string, field) bool) {
		v := reflect.ValueOf(c).Elem()
		for i := range v.NumField() {
			tag := v.Type().Field(i).Tag
			if !yield(tag.Get("name"), field{v.Field(i), tag}) {
				return
			}
		}
	}
}

func show(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return shortDuration(x)
	case encoding.TextMarshaler:
		b, _ := x.MarshalText() // our own types don't fail
		return string(b)
	}
	if v.Kind() == reflect.Slice {
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = show(v.Index(i))
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v.Interface())
}

// shortDuration writes 30m instead of 30m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
