package main

import (
	"cmp"
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
	payWindow    time.Duration // how long an unpaid order lives
	stores       string        // folder; "" = of this run
	out          io.Writer
}

// errBroken means that the product has broken a promise; what it was has been printed.
var errBroken = errors.New("a promise was broken")

// total sums up.
type total struct {
	cycles, attempted, ok, fail, info, recovered, lost, ghost, duplicated, broken int
	acts, paid, used, refunded, closed                                            int
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
	t.acts += v.Acted
	t.paid += v.Ends["paid"]
	t.used += v.Ends["used"]
	t.refunded += v.Ends["refunded"]
	t.closed += v.Ends["closed"]
	t.slowest = max(t.slowest, v.world.Rest)
	if v.broken() {
		t.broken++
	}
}

func (t *total) String() string {
	return fmt.Sprintf("%d cycles: attempted %d ok %d fail %d info %d recovered %d lost %d ghost %d duplicated %d; acts %d paid %d used %d refunded %d closed %d; slowest to rest %.1f s; %d cycles broken",
		t.cycles, t.attempted, t.ok, t.fail, t.info, t.recovered, t.lost, t.ghost, t.duplicated, t.acts, t.paid, t.used, t.refunded, t.closed, t.slowest.Seconds(), t.broken)
}

// lab is what cycles run on.
type lab struct {
	dir, exe string
	stores   func(ctx context.Context) (*stores, error) // started when first asked for
}

// run does all cycles on a lab of its own. It returns errBroken if one of them was.
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
	l := lab{dir: dir, exe: filepath.Join(dir, "tandian")}
	fmt.Fprintf(o.out, "seed %d, commit %s\n", o.seed, commit(ctx, root))
	if err := build(ctx, root, l.exe, ""); err != nil {
		return err
	}
	s := &stores{root: root, dir: cmp.Or(o.stores, filepath.Join(dir, "stores"))}
	l.stores = func(ctx context.Context) (*stores, error) { return s, s.up(ctx, allStores...) }
	if o.stores == "" {
		defer func() { err = errors.Join(err, s.down(context.WithoutCancel(ctx))) }()
	}
	began := time.Now()
	err = o.loop(ctx, l)
	fmt.Fprintf(o.out, "seed %d, commit %s, %s\n", o.seed, commit(ctx, root), time.Since(began).Round(time.Second))
	return err
}

// loop shares the cycles out to the brokers and sums up. It returns errBroken if a cycle was.
func (o *options) loop(ctx context.Context, l lab) error {
	broken := 0
	var sums []string
	for i, broker := range o.brokers {
		var numbers []int
		for k := i; k < o.cycles; k += len(o.brokers) {
			numbers = append(numbers, o.from+len(numbers))
		}
		var sum total
		if err := o.block(ctx, broker, numbers, l, &sum); err != nil {
			return err
		}
		broken += sum.broken
		sums = append(sums, broker+": "+sum.String())
	}
	fmt.Fprintln(o.out, strings.Join(sums, "\n"))
	if broken > 0 {
		return errBroken
	}
	return nil
}

// block does the cycles of one broker that have these numbers, and looks in the end whether anything has moved in their
// sales since.
func (o *options) block(ctx context.Context, broker string, numbers []int, l lab, sum *total) (err error) {
	if len(numbers) == 0 {
		return nil
	}
	w, err := l.openTown(ctx, broker, o.payWindow)
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return err
	}
	var past []*verdict
	for _, number := range numbers {
		v, h, err := w.run(ctx, draw(o.seed, broker, number))
		if err != nil {
			return fmt.Errorf("cycle %d %s: %w", number, broker, errors.Join(err, keep(w.dir, number, h)))
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
		if before, ok := v.world.Rows[id]; !ok || before != row || !slices.Equal(v.world.Moves[id], now.Moves[id]) {
			return fmt.Sprintf("order %s of sale %s became %+v after %+v, was %+v after %+v", id, v.sale, row, now.Moves[id], before, v.world.Moves[id]), nil
		}
	}
	if !maps.Equal(now.Payments, v.world.Payments) || !slices.Equal(now.Paybacks, v.world.Paybacks) || !maps.Equal(now.Trades, v.world.Trades) {
		return fmt.Sprintf("money of sale %s has moved", v.sale), nil
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
	b, err := json.MarshalIndent(map[string]any{"ops": h.Ops(), "acts": h.Acts()}, "", " ")
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
