// Package id exists because 64-bit ids lose digits in JavaScript: an ID travels as a JSON string. It also draws
// order ids (S2) from leased blocks, so that an id costs no round trip.
package id

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// ID is a positive 64-bit row id. JSON: written as a string, read from a string or a number.
type ID int64

func (i ID) String() string { return strconv.FormatInt(int64(i), 10) }

// Parse reads a positive decimal id without sign or leading zeros.
func Parse(s string) (ID, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 || strconv.FormatInt(n, 10) != s {
		return 0, fmt.Errorf("%q is not an id: want 1 to 19 digits", clip(s))
	}
	return ID(n), nil
}

func clip(s string) string {
	if len(s) > 24 {
		return s[:24] + "…"
	}
	return s
}

// MarshalText makes ID a JSON string, also as a map key.
func (i ID) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(i), 10), nil }

// UnmarshalText reads what MarshalText writes; huma uses it for path and query parameters.
func (i *ID) UnmarshalText(b []byte) error {
	v, err := Parse(string(b))
	*i = v
	return err
}

// UnmarshalJSON accepts "42" and 42.
func (i *ID) UnmarshalJSON(b []byte) error {
	return i.UnmarshalText(bytes.Trim(b, `"`))
}

// Schema tells OpenAPI what travels: a string of digits. The pattern keeps 0, signs and 20 digits out before any
// code of ours runs; the last digits of the 19-digit range are checked by Parse.
func (ID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: "^[1-9][0-9]{0,18}$", PatternDescription: "decimal id",
		Description: "64-bit id as a decimal string", Examples: []any{"42"}}
}

var _ huma.SchemaProvider = ID(0)

// Param is an ID in a path or a query: huma reads named integers as numbers, a struct as text.
type Param struct{ ID }
