package api

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"tandian/internal/kit/errs"
)

// ErrCursor answers a cursor that this server did not make.
var ErrCursor = errs.Define("request.bad_cursor", errs.Invalid, "分页位置无效，请从第一页重新开始。", "The cursor is not valid; start again from the first page.")

// Page is the query of a list.
type Page struct {
	Cursor string `query:"cursor" maxLength:"512" doc:"nextCursor of the page before; absent = the first page"`
	Limit  int    `query:"limit" minimum:"1" maximum:"50" default:"20" doc:"Items a page"`
}

// List is the answer of a list. NextCursor is absent on the last page.
type List[T any] struct {
	Items      []T    `json:"items" nullable:"false"`
	NextCursor string `json:"nextCursor,omitempty"`
}

// EncodeCursor makes an opaque cursor of the last item's sort values; DecodeCursor reads it back into the same
// shape, or leaves v alone for the first page. It returns ErrCursor for anything else.
func EncodeCursor(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // cursors are structs of numbers and strings
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeCursor reads what EncodeCursor made.
func DecodeCursor(cursor string, v any) error {
	if cursor == "" {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return ErrCursor.With(err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return ErrCursor.With(err)
	}
	return nil
}

// Cut turns limit+1 fetched rows into a page: the extra row only tells that there is more.
func Cut[T any](rows []T, limit int, cursor func(last T) any) List[T] {
	if len(rows) <= limit {
		return List[T]{Items: append([]T{}, rows...)}
	}
	rows = rows[:limit]
	return List[T]{Items: rows, NextCursor: EncodeCursor(cursor(rows[limit-1]))}
}

// CleanText checks text that people will read: valid UTF-8, between min and max characters, no control characters
// but line breaks and tabs, and none of the marks that reverse the direction of what follows (W23). It returns an
// ErrInvalid that names the location.
func CleanText(location, s string, min, max int) error {
	fault := func(format string, args ...any) error { return Faults(Invalid{location, fmt.Sprintf(format, args...)}) }
	if !utf8.ValidString(s) {
		return fault("not valid UTF-8")
	}
	if n := utf8.RuneCountInString(s); n < min || n > max {
		return fault("%d characters, want %d to %d", n, min, max)
	}
	for _, r := range s {
		if r != '\n' && r != '\r' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return fault("character %U is not allowed", r)
		}
	}
	return nil
}

// Zone is where the shops are: all times go out with its offset.
var Zone = time.FixedZone("Asia/Shanghai", 8*60*60)

// Wire returns t as it goes out: milliseconds, in the shops' zone.
func Wire(t time.Time) time.Time { return t.In(Zone).Truncate(time.Millisecond) }
