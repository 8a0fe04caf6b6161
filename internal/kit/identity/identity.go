// Package identity exists to say who is asking, in a context, without knowing how he signed in. The session
// middleware of package account puts a Caller there on every path; features read it.
package identity

import (
	"context"
	"slices"

	"tandian/internal/kit/errs"
	"tandian/internal/kit/id"
)

// Role is what a user may do beyond shopping.
type Role string

const (
	Shopper  Role = "shopper"  // everyone
	Merchant Role = "merchant" // owns shops
	Clerk    Role = "clerk"    // redeems for the shops he is bound to
	Operator Role = "operator" // runs the platform
	ReadOnly Role = "readonly" // sees what operators see
)

// User is who a session says he is: never a phone number, never a password.
type User struct {
	ID       id.ID
	Nickname string
	Avatar   string
	Roles    []Role
}

// Has reports whether the user holds any of the roles.
func (u *User) Has(roles ...Role) bool {
	return slices.ContainsFunc(roles, func(r Role) bool { return slices.Contains(u.Roles, r) })
}

// Caller is the outcome of the first step of sign-in checking (A3).
type Caller struct {
	User    *User  // nil = anonymous
	Session string // the session's public id, "" without one
	Unknown bool   // the session store could not be asked
}

var (
	ErrRequired = errs.Define("auth.required", errs.Unauthorized, "请先登录。", "Sign in first.")
	ErrUnknown  = errs.Define("auth.unknown", errs.Unavailable, "暂时无法确认登录状态，请稍后再试。",
		"Your sign-in can't be checked right now. Try again in a moment.")
	ErrForbidden = errs.Define("auth.forbidden", errs.Forbidden, "没有权限。", "You are not allowed to do this.")
)

type key struct{}

// With returns a context that carries the caller.
func With(ctx context.Context, c *Caller) context.Context { return context.WithValue(ctx, key{}, c) }

// From returns the caller; without one an anonymous caller, never nil.
func From(ctx context.Context) *Caller {
	if c, ok := ctx.Value(key{}).(*Caller); ok {
		return c
	}
	return &Caller{}
}

// Require is step two: the user, or ErrRequired without one, or ErrUnknown when it can't be told.
func Require(ctx context.Context) (*User, error) {
	c := From(ctx)
	switch {
	case c.Unknown:
		return nil, ErrUnknown
	case c.User == nil:
		return nil, ErrRequired
	}
	return c.User, nil
}

// RequireRole is Require, and ErrForbidden unless the user holds one of the roles.
func RequireRole(ctx context.Context, roles ...Role) (*User, error) {
	u, err := Require(ctx)
	if err == nil && !u.Has(roles...) {
		return nil, ErrForbidden
	}
	return u, err
}
