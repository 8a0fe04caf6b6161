package identity

import (
	"context"
	"errors"
	"testing"
)

func TestRequire(t *testing.T) {
	user := &User{ID: 7, Roles: []Role{Shopper, Clerk}}
	for _, tc := range []struct {
		name   string
		caller *Caller
		want   error
	}{
		{"nobody", &Caller{}, ErrRequired},
		{"store silent", &Caller{Unknown: true}, ErrUnknown},
		{"signed in", &Caller{User: user}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Require(With(context.Background(), tc.caller)); !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
		})
	}
	if _, err := Require(context.Background()); !errors.Is(err, ErrRequired) {
		t.Fatal("a context without a caller is anonymous")
	}
	ctx := With(context.Background(), &Caller{User: user})
	if _, err := RequireRole(ctx, Operator); !errors.Is(err, ErrForbidden) {
		t.Fatal("a missing role must be refused", err)
	}
	if _, err := RequireRole(ctx, Operator, Clerk); err != nil {
		t.Fatal(err)
	}
}
