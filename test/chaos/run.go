package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"tandian/test/history"
)

// options are what a run is to do.
type options struct {
	brokers      []string
	cycles, from int
	seed         uint64
	stores       string // folder; "" = of this run
	out          io.Writer
}

// errBroken means that the product has broken a promise; what it was has been printed.
var errBroken = errors.New("a promise was broken")

// total sums up.
type total struct {
	cycles, attempted, ok, fail, info, recovered, lost, ghost, duplicated, broken int
	slowest                                                                       time.Duration
}

func (t *total) add(v *verdict) {
	t.cycles++
	t.attempted += v.Attempted
	t.ok += v.OK
	t.fail += v.Fail
	t.info += v.Info
	t.recovered += v.Recovered
	t.lost += v.Lost
	t.ghost += v.Ghost
	t.duplicated += v.Duplicated
	t.slowest = max(t.slowest, v.world.Rest)
	if v.broken() {
		t.broken++
	}
}

func (t *total) String() string {
	return fmt.Sprintf("%d cycles: attempted %d ok %d fail %d info %d recovered %d lost %d ghost %d duplicated %d; slowest to rest %.1f s; %d cycles broken",
		t.cycles, t.attempted, t.ok, t.fail, t.info, t.recovered, t.lost, t.ghost, t.duplicated, t.slowest.Seconds(), t.broken)
}

// run does all cycles. It returns errBroken if one of them was.
func (o *options) run(ctx context.Context) (err error) {
	root, err := findRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tandian-chaos-")
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = os.RemoveAll(dir)
		} else {
			fmt.Fprintln(o.out, "logs and histories are in", dir)
		}
	}()
	fmt.Fprintf(o.out, "seed %d, commit %s\n", o.seed, commit(ctx, root))
	exe := filepath.Join(dir, "tandian")
	if err := build(ctx, root, exe, ""); err != nil {
		return err
	}
	s, done, err := o.openStores(ctx, root, dir)
	defer func() { err = errors.Join(err, done(context.WithoutCancel(ctx))) }()
	if err != nil {
		return err
	}
	began, all := time.Now(), map[string]*total{}
	for i, broker := range o.brokers {
		share := o.cycles / len(o.brokers)
		if i < o.cycles%len(o.brokers) {
			share++
		}
		all[broker] = &total{}
		if err := o.block(ctx, broker, share, dir, exe, s, all[broker]); err != nil {
			return err
		}
	}
	broken := 0
	for _, broker := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(o.out, "%s: %s\n", broker, all[broker])
		broken += all[broker].broken
	}
	fmt.Fprintf(o.out, "seed %d, commit %s, %s\n", o.seed, commit(ctx, root), time.Since(began).Round(time.Second))
	if broken > 0 {
		return errBroken
	}
	return nil
}

// openStores starts what the brokers need. done must be called in any case.
func (o *options) openStores(ctx context.Context, root, dir string) (s *stores, done func(context.Context) error, err error) {
	s = &stores{root: root, dir: o.stores}
	done = s.down
	if s.dir != "" {
		done = func(context.Context) error { return nil }
	} else {
		s.dir = filepath.Join(dir, "stores")
	}
	if !slices.ContainsFunc(o.brokers, func(b string) bool { return b != brokerSQL }) {
		return s, func(context.Context) error { return nil }, nil
	}
	return s, done, s.up(ctx, redis, mariadb, rabbitmq)
}

// block does the cycles of one broker, and looks in the end whether anything has moved in its sales since.
func (o *options) block(ctx context.Context, broker string, n int, dir, exe string, s *stores, sum *total) (err error) {
	if n == 0 {
		return nil
	}
	w, err := openTown(ctx, broker, dir, exe, s)
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return err
	}
	var past []*verdict
	for i := range n {
		v, h, err := w.run(ctx, draw(o.seed, broker, o.from+i))
		if err != nil {
			return fmt.Errorf("cycle %d %s: %w", o.from+i, broker, errors.Join(err, keep(w.dir, o.from+i, h)))
		}
		fmt.Fprintln(o.out, v)
		sum.add(v)
		past = append(past, v)
		if v.broken() {
			fmt.Fprintf(o.out, "%s  again: make chaos N=1 SEED=%d BROKER=%s FROM=%d\n", v.stories(h), o.seed, broker, v.plan.cycle)
			if err := keep(w.dir, v.plan.cycle, h); err != nil {
				return err
			}
		}
	}
	for _, v := range past {
		if moved, err := w.moved(ctx, v); err != nil {
			return err
		} else if moved != "" {
			fmt.Fprintf(o.out, "cycle %d %s: after all was at rest, %s\n", v.plan.cycle, broker, moved)
			sum.broken++
		}
	}
	return nil
}

// moved compares a sale's rows with those that were judged, and tells of the first difference.
func (w *town) moved(ctx context.Context, v *verdict) (string, error) {
	var now history.World
	if err := now.ReadSale(ctx, w.db, v.sale); err != nil {
		return "", err
	}
	for id, row := range now.Rows {
		if before, ok := v.world.Rows[id]; !ok || before != row {
			return fmt.Sprintf("order %s of sale %s became %+v, was %+v", id, v.sale, row, before), nil
		}
	}
	if now, before := now.Sales[v.sale], v.world.Sales[v.sale]; now.Stock != before.Stock {
		return fmt.Sprintf("the stock of sale %s became %d, was %d", v.sale, now.Stock, before.Stock), nil
	}
	return "", nil
}

var orderID = regexp.MustCompile(`\b\d{15,}\b`)

// stories are the whole histories of the orders that the violations name.
func (v *verdict) stories(h *history.History) string {
	const most = 10
	var b strings.Builder
	told := map[string]bool{}
	for _, one := range v.Violations {
		for _, id := range orderID.FindAllString(one.Text, -1) {
			if !told[id] && len(told) < most {
				told[id] = true
				b.WriteString(h.About(v.world, id))
			}
		}
	}
	return b.String()
}

// keep writes a cycle's history beside the logs.
func keep(dir string, cycle int, h *history.History) error {
	if h == nil {
		return nil
	}
	b, err := json.MarshalIndent(h.Ops(), "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, fmt.Sprintf("history-%d.json", cycle)), b, 0o600)
}

// commit names what is tested.
func commit(ctx context.Context, root string) string {
	git := func(args ...string) string {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	name := git("rev-parse", "--short", "HEAD")
	if name == "" {
		return "unknown"
	}
	if git("status", "--porcelain", "--untracked-files=no") != "" {
		name += " with changes"
	}
	return name
}
