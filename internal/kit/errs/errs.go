// Package errs exists so that one error type crosses feature borders: a stable code for programs, a text in
// Chinese and English for people, and a cause for logs only. Features define their errors as package variables;
// kit/api turns them into RFC 9457 answers.
package errs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Kind groups errors by what the caller can do about them. Each kind has one HTTP status (see Kind.Status).
type Kind int

const (
	Internal     Kind = iota // our fault; nothing the caller can do, the cause stays in the log
	Invalid                  // the request itself is wrong: mend it
	Unauthorized             // sign in first
	Forbidden                // signed in, but not allowed
	NotFound                 // no such thing, or not yours
	Conflict                 // right request, wrong state
	TooMany                  // slow down; RetryAfter says how long
	Unavailable              // certainly nothing happened; try again
	Unknown                  // it may or may not have happened; ask again with the same key
	TooLarge                 // the body is over the limit
	Unsupported              // content type not understood
	Malformed                // the request can't even be read
	NoMethod                 // the path is right, the method isn't
	Timeout                  // the request took too long to arrive
)

var statuses = map[Kind]int{
	Internal: 500, Invalid: 422, Unauthorized: 401, Forbidden: 403, NotFound: 404, Conflict: 409,
	TooMany: 429, Unavailable: 503, Unknown: 503, TooLarge: 413, Unsupported: 415,
	Malformed: 400, NoMethod: 405, Timeout: 408,
}

// Status is the only place where kinds meet HTTP.
func (k Kind) Status() int { return statuses[k] }

// Error is a value with a code. Compare with errors.Is: two errors are the same when their codes are.
type Error struct {
	Code string // "sale.sold_out": feature, dot, what; never changes once published
	Kind Kind
	ZH   string // for people; may hold fmt verbs filled by Withf
	EN   string

	RetryAfter time.Duration  // 0 = not said
	Extra      map[string]any // further members of the problem document, such as orderIds
	cause      error
	args       []any
}

// defined lists every error made by Define, for docs/errors.md and its test. It is written by package
// initialisation only.
var defined []*Error

// Define makes an error value and registers it. Call it for package variables only.
func Define(code string, kind Kind, zh, en string) *Error {
	e := &Error{Code: code, Kind: kind, ZH: zh, EN: en}
	defined = append(defined, e)
	return e
}

// All returns every defined error, sorted by code.
func All() []*Error {
	return slices.SortedFunc(slices.Values(defined), func(a, b *Error) int { return strings.Compare(a.Code, b.Code) })
}

// ErrInternal stands for any error that isn't an *Error when it reaches the edge.
var ErrInternal = Define("internal", Internal, "服务器出了点问题，请稍后再试；如果一直这样，请把请求编号告诉我们。",
	"Something went wrong on our side. Try again later; if it stays, tell us the request id.")

// Error shows code and cause: it is for logs, people get Text.
func (e *Error) Error() string {
	s := e.Code + ": " + fill(e.EN, e.args)
	if e.cause != nil {
		s += ": " + e.cause.Error()
	}
	return s
}

// Text is what a person reads; lang "en" gives English, anything else Chinese.
func (e *Error) Text(lang string) string {
	if lang == "en" {
		return fill(e.EN, e.args)
	}
	return fill(e.ZH, e.args)
}

func fill(format string, args []any) string {
	if len(args) == 0 {
		return format
	}
	return fmt.Sprintf(format, args...)
}

func (e *Error) Unwrap() error { return e.cause }

// Is makes errors.Is work by code, so that copies made by With still match.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// With returns a copy that carries a cause for the log.
func (e *Error) With(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// Withf returns a copy whose texts' verbs are filled with args.
func (e *Error) Withf(args ...any) *Error {
	c := *e
	c.args = args
	return &c
}

// After returns a copy that tells the caller when to try again.
func (e *Error) After(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// Set returns a copy with a further member of the problem document.
func (e *Error) Set(key string, value any) *Error {
	c := *e
	c.Extra = maps.Clone(e.Extra)
	if c.Extra == nil {
		c.Extra = map[string]any{}
	}
	c.Extra[key] = value
	return &c
}

// From returns the *Error inside err, or ErrInternal carrying err as its cause.
func From(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return ErrInternal.With(err)
}

// Wrap adds the function's name and arguments to *errp, once per function, in a defer.
func Wrap(errp *error, format string, args ...any) {
	if *errp != nil {
		*errp = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *errp)
	}
}
