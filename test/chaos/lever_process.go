package main

import (
	"context"
	"syscall"
)

type letGo = func(ctx context.Context) error

// killApp is kill -9, and a start when it is let go.
func killApp(_ context.Context, s *scene, p pull) (letGo, error) {
	a := s.instances[p.app]
	return func(context.Context) error { return a.launch() }, a.kill()
}

// terminateApp is one half of a rolling restart.
func terminateApp(_ context.Context, s *scene, p pull) (letGo, error) {
	a := s.instances[p.app]
	return func(context.Context) error { return a.launch() }, a.terminate()
}

func freezeApp(_ context.Context, s *scene, p pull) (letGo, error) {
	a := s.instances[p.app]
	return func(context.Context) error { return a.signal(syscall.SIGCONT) }, a.signal(syscall.SIGSTOP)
}

func freezeStore(ctx context.Context, s *scene, p pull) (letGo, error) {
	return func(ctx context.Context) error { return s.stores.do(ctx, "resume", p.store) }, s.stores.do(ctx, "pause", p.store)
}

// killStore is kill -9 of a store, which comes back on the same data.
func killStore(ctx context.Context, s *scene, p pull) (letGo, error) {
	return func(ctx context.Context) error { return s.stores.do(ctx, "up", p.store) }, s.stores.do(ctx, "kill", p.store)
}

func restartStore(ctx context.Context, s *scene, p pull) (letGo, error) {
	return nil, s.stores.do(ctx, "restart", p.store)
}
