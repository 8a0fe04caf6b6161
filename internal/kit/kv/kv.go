// Package kv exists for the little of Redis that is shared by features: values that expire, counters and small sets.
// Sign-in codes, sessions and their limits live here. Memory serves the embedded mode; the contract suite in
// kv_test.go runs over every implementation.
//
// What was read may be remembered under a Lease, which a change breaks on every instance.
package kv

import (
	"context"
	"time"
)

// Store is safe for concurrent use. Keys and values are opaque; a ttl must be positive. Every error means "unknown":
// the command may have been carried out.
type Store interface {
	// Get returns the value and whether there is one.
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	// GetTTL is Get with the time left, 0 if the value has gone meanwhile.
	GetTTL(ctx context.Context, key string) (value []byte, left time.Duration, ok bool, err error)
	// Set writes the value and its time to live.
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	// SetNX writes only where nothing is, and reports whether it did.
	SetNX(ctx context.Context, key string, value []byte, ttl time.Duration) (bool, error)
	// Take returns the value and deletes it, as one step: of many callers one gets it.
	Take(ctx context.Context, key string) (value []byte, ok bool, err error)
	// Del deletes; absent keys are no error.
	Del(ctx context.Context, keys ...string) error
	// Touch sets the time to live of a key that exists, and reports whether it does.
	Touch(ctx context.Context, key string, ttl time.Duration) (bool, error)
	// TTL returns the time left, 0 when the key is absent.
	TTL(ctx context.Context, key string) (time.Duration, error)
	// Incr counts from 0; ttl starts with the first count and is not renewed.
	Incr(ctx context.Context, key string, ttl time.Duration) (int64, error)
	// Add puts members into a set and renews its ttl; Members lists them in any order; Remove takes some out.
	Add(ctx context.Context, key string, ttl time.Duration, members ...string) error
	Members(ctx context.Context, key string) ([]string, error)
	Remove(ctx context.Context, key string, members ...string) error

	// Lease returns a lease on the key, without asking anybody. A change made through this Store has broken it when the
	// call returns, also with an error; one made elsewhere breaks it as soon as this process hears of it. It doesn't
	// hold when that could take longer than half a second. That the key's time is up need not break it. A lease may
	// break for no reason.
	Lease(key string) Lease
}
