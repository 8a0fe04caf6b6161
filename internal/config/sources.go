package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// envPrefix starts the name of every environment variable of ours.
const envPrefix = "TANDIAN_"

// EnvName is the environment variable of a setting: "pay-window" gives "TANDIAN_PAY_WINDOW".
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, "-", "_"))
}

// Origin tells where a value came from.
type Origin struct {
	Kind   string `json:"kind"`             // "default", "file", "env" or "flag"
	Detail string `json:"detail,omitempty"` // "tandian.yaml:3", "TANDIAN_ADDR", "--addr"
}

func (o Origin) String() string { return strings.TrimSpace(o.Kind + " " + o.Detail) }

// Sources is the kong resolver for what stands outside the command line: the environment, which beats the file, and
// the file named by --config or TANDIAN_CONFIG. One Sources serves one parse.
//
// A value that can't be used doesn't end the parse: Err returns all of them together.
type Sources struct {
	lookup  func(string) (string, bool)
	keys    map[string]bool // every key of Config
	file    fileValues      // nil until loaded
	origins map[string]Origin
	faults  []error
}

var _ kong.Resolver = (*Sources)(nil)

// NewSources reads the environment through lookup, which is os.LookupEnv outside of tests. An empty variable counts
// as not set.
func NewSources(lookup func(string) (string, bool)) *Sources {
	s := &Sources{lookup: lookup, keys: map[string]bool{}, origins: map[string]Origin{}}
	for key := range fields(&Config{}) {
		s.keys[key] = true
	}
	return s
}

// Validate implements kong.Resolver. Nothing is known yet when kong calls it.
func (s *Sources) Validate(*kong.Application) error { return nil }

// Resolve implements kong.Resolver. Kong asks only for flags that the command line doesn't set.
func (s *Sources) Resolve(ctx *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !s.keys[flag.Name] {
		return nil, nil
	}
	if s.file == nil {
		s.load(s.fileName(ctx))
	}
	s.origins[flag.Name] = Origin{Kind: "default"}
	// A weaker source is only looked at when the stronger one is silent, so that a mistake which is overruled
	// anyway doesn't stop the program.
	if text, ok := s.env(flag.Name); ok {
		return s.use(flag, text, Origin{"env", EnvName(flag.Name)}), nil
	}
	if v, ok := s.file[flag.Name]; ok {
		return s.use(flag, v.text, Origin{"file", v.at}), nil
	}
	return nil, nil
}

// use returns the text for kong to parse if it parses, and notes a fault otherwise.
func (s *Sources) use(flag *kong.Flag, text string, from Origin) any {
	scratch := reflect.New(flag.Target.Type()).Elem()
	err := flag.Parse(kong.ScanFromTokens(kong.Token{Type: kong.FlagValueToken, Value: text}), scratch)
	if err != nil {
		s.faults = append(s.faults, fmt.Errorf("%s (from %s): %w", name(flag.Name), from, plain(err, flag)))
		return nil
	}
	s.origins[flag.Name] = from
	return text
}

// plain takes the flag's name off the front of kong's message, which we have said already.
func plain(err error, flag *kong.Flag) error {
	return errors.New(strings.TrimPrefix(err.Error(), flag.ShortSummary()+": "))
}

func (s *Sources) env(key string) (string, bool) {
	v, ok := s.lookup(EnvName(key))
	return v, ok && v != ""
}

// fileName looks at the command line itself: kong has traced it, but applied nothing yet.
func (s *Sources) fileName(ctx *kong.Context) string {
	for _, p := range slices.Backward(ctx.Path) {
		if p.Flag != nil && p.Flag.Name == "config" {
			return ctx.FlagValue(p.Flag).(string)
		}
	}
	v, _ := s.env("config")
	return v
}

func (s *Sources) load(file string) {
	s.file = fileValues{}
	if file == "" {
		return
	}
	data, err := readFile(file)
	if err != nil {
		s.faults = append(s.faults, fmt.Errorf("%s: %w; write one with tandian config init", name("config"), err))
		return
	}
	values, faults := parseFile(file, data, s.keys)
	s.file = values
	s.faults = append(s.faults, faults...)
}

// Origin tells where the value of a key came from in the parse that is over.
func (s *Sources) Origin(key string) Origin {
	if o, ok := s.origins[key]; ok {
		return o
	}
	return Origin{"flag", "--" + key} // kong never asked, so the command line has it
}

// Err returns every value that couldn't be used, and every unknown key of the file; nil when there is none.
func (s *Sources) Err() error { return errors.Join(s.faults...) }

// maxFile bounds what we are ready to read as settings.
const maxFile = 1 << 20

func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d of any settings file", name, info.Size(), maxFile)
	}
	return os.ReadFile(name)
}
