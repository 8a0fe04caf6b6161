package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// fileValues are the values of a file by key, as text, the way a flag would carry them.
type fileValues map[string]fileValue

type fileValue struct {
	text string
	at   string // "tandian.yaml:3"
}

// parseFile reads a YAML mapping of known keys to plain values or lists of them. What it can't use it reports by line
// and leaves out; the rest is returned all the same.
func parseFile(file string, data []byte, known map[string]bool) (fileValues, []error) {
	values := fileValues{}
	entries, err := mapping(data)
	if err != nil {
		return values, []error{fmt.Errorf("%s: %w", file, err)}
	}
	var faults []error
	for _, e := range entries {
		token := e.Key.GetToken()
		key, at := token.Value, fmt.Sprintf("%s:%d", file, token.Position.Line)
		_, twice := values[key]
		text, ok := scalar(e.Value)
		switch {
		case !known[key] || key == "config":
			faults = append(faults, fmt.Errorf("%s: unknown key %q; %s", at, key, suggest(key, known)))
		case twice:
			faults = append(faults, fmt.Errorf("%s: key %q is there twice (first at %s); keep one", at, key, values[key].at))
		case !ok:
			faults = append(faults, fmt.Errorf("%s: key %q has no plain value; write %s: VALUE or take the line out", at, key, key))
		default:
			values[key] = fileValue{text, at}
		}
	}
	return values, faults
}

// mapping returns the entries of the only document; an empty file has none.
func mapping(data []byte) ([]*ast.MappingValueNode, error) {
	f, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, fmt.Errorf("not YAML: %s", firstLine(err.Error()))
	}
	var body ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			return nil, fmt.Errorf("more than one YAML document; keep one")
		}
		body = doc.Body
	}
	switch node := body.(type) {
	case nil, *ast.NullNode:
		return nil, nil
	case *ast.MappingNode:
		return node.Values, nil
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{node}, nil
	}
	return nil, fmt.Errorf("line %d: want KEY: VALUE lines, such as addr: \":8080\"", body.GetToken().Position.Line)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// scalar returns a plain value, or a list of them with commas between, as a flag takes it.
func scalar(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	case *ast.SequenceNode:
		parts := make([]string, len(v.Values))
		for i, item := range v.Values {
			var ok bool
			if _, list := item.(*ast.SequenceNode); list {
				return "", false
			}
			if parts[i], ok = scalar(item); !ok {
				return "", false
			}
		}
		return kong.JoinEscaped(parts, ','), true
	}
	return "", false
}

// suggest names the key that was probably meant, or all of them.
func suggest(key string, known map[string]bool) string {
	flat := func(s string) string {
		return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(s))
	}
	keys := slices.Sorted(maps.Keys(known))
	for _, k := range keys {
		if k != "config" && flat(k) == flat(key) {
			return fmt.Sprintf("did you mean %q?", k)
		}
	}
	return "tandian config init lists the keys"
}
