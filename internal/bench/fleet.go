package bench

import (
	"context"
	"errors"
	"sync"
)

// fleet is the instances of a server that share their stores; of the embedded mode it is one.
type fleet []*server

// newFleet makes the folders of n instances; start starts them.
func newFleet(o Options, env []string, onCrash func(error)) (f fleet, err error) {
	for range o.Instances {
		s, err := newServer(o, env, onCrash)
		if err != nil {
			f.remove()
			return nil, err
		}
		f = append(f, s)
	}
	return f, nil
}

// start runs all instances with extra flags and returns once all serve. The first brings the tables up to date and
// fills them before the others look.
func (f fleet) start(ctx context.Context, flags ...string) error {
	if err := f[0].start(ctx, flags...); err != nil {
		return err
	}
	failed := make([]error, len(f))
	var wg sync.WaitGroup
	for i, s := range f[1:] {
		wg.Go(func() { failed[i] = s.start(ctx, flags...) })
	}
	wg.Wait()
	return errors.Join(failed...)
}

// stop asks all instances to end and waits until they have.
func (f fleet) stop() {
	var wg sync.WaitGroup
	for _, s := range f {
		wg.Go(s.stop)
	}
	wg.Wait()
}

// remove stops all instances and deletes their folders.
func (f fleet) remove() {
	f.stop()
	for _, s := range f {
		s.remove()
	}
}

// addresses are where the instances serve.
func (f fleet) addresses() (list []string) {
	for _, s := range f {
		list = append(list, s.address())
	}
	return list
}

func (f fleet) pids() (list []int) {
	for _, s := range f {
		list = append(list, s.pid())
	}
	return list
}

// restarts is how often instances were killed and started again.
func (f fleet) restarts() (n int) {
	for _, s := range f {
		n += s.restarts()
	}
	return n
}
