package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tandian/internal/order"
)

// shared is what the tests of this package run on. The stores start at once, for RabbitMQ takes its time.
var shared struct {
	lab
	root string
}

func TestMain(m *testing.M) {
	hush()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "tandian-chaos-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		if shared.root, err = findRoot(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		s := &stores{root: shared.root, dir: filepath.Join(dir, "stores")}
		up := sync.OnceValue(func() error { return s.up(context.Background(), allStores...) })
		shared.lab = lab{dir: dir, stores: func(context.Context) (*stores, error) { return s, up() }}
		var starting sync.WaitGroup
		if wanted() {
			starting.Go(func() { _ = up() }) // whoever needs them is told
		}
		code := m.Run()
		starting.Wait()
		if err := s.down(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// wanted reports whether the production mode is to be tested: by whoever has stores of some kind.
func wanted() bool { return os.Getenv("TANDIAN_RABBITMQ_URL") != "" }

// with returns a lab of the test's own, with the program built with tags.
func with(t *testing.T, tags string) lab {
	t.Helper()
	l := shared.lab
	l.dir = t.TempDir()
	l.exe = filepath.Join(shared.dir, "tandian-"+tags)
	if err := builds[tags](); err != nil {
		t.Fatal(err)
	}
	return l
}

var builds = map[string]func() error{
	"": sync.OnceValue(func() error {
		return build(context.Background(), shared.root, filepath.Join(shared.dir, "tandian-"), "")
	}),
	"fault": sync.OnceValue(func() error {
		return build(context.Background(), shared.root, filepath.Join(shared.dir, "tandian-fault"), "fault")
	}),
}

// Check the checker: each fault, switched on in the product itself, must be caught, by the invariants that it breaks.
// Without a fault the same sales are sound. This comes first: most of it runs while RabbitMQ starts.
func TestCheckerCatchesSeededFaults(t *testing.T) {
	named := func(name string) *lever {
		return &levers[slices.IndexFunc(levers, func(l lever) bool { return l.name == name })]
	}
	// Nobody pays in the sales that are about buying, and nothing is waited for.
	bought := func(change func(p *plan)) func(p *plan) {
		return func(p *plan) {
			p.deeds = nil
			change(p)
		}
	}
	all := func(does, next string) func(p *plan) {
		return func(p *plan) {
			d := deed{does: &doings[slices.IndexFunc(doings, func(d doing) bool { return d.name == does })], then: &thens[slices.IndexFunc(thens, func(t then) bool { return t.name == next })]}
			for key := range p.deeds {
				p.deeds[key] = d
			}
		}
	}
	for fault, tc := range map[string]struct {
		broker, invariants string
		change             func(p *plan)
	}{
		"none":                    {brokerSQL, "", func(*plan) {}},
		"skip_unique":             {brokerSQL, "I2", bought(func(*plan) {})},
		"release_twice,fail_some": {brokerSQL, "I4", bought(func(*plan) {})},
		"ignore_end":              {brokerSQL, "I10", bought(func(p *plan) { p.ends = time.Second })},
		"ack_before_commit": {brokerSQL, "I6", bought(func(p *plan) {
			p.pulls = []pull{{lever: named("kill"), at: 2 * time.Second}}
		})},
		"late_money_kept": {brokerSQL, "I5", all("pay late", "keep")},
		"refund_twice":    {brokerSQL, "I5", all("pay", "refund")},
		"redeem_twice,close_early": {brokerSQL, "I3 I10", func(p *plan) {
			all("pay", "redeem twice")(p)
			for _, w := range p.wishes[:buyers/2] {
				p.deeds[w.key] = deed{does: &doings[0]}
			}
		}},
		"rollback_unknown": {brokerRabbit, "I7", bought(func(p *plan) {
			frozen := *named("freeze") // of an instance; the stores' one comes second
			frozen.onApp, frozen.pull = false, freezeStore
			p.pulls = []pull{{lever: &frozen, store: rabbitmq, at: 500 * time.Millisecond, for_: 2500 * time.Millisecond}}
		})},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			if tc.broker != brokerSQL && !wanted() {
				t.Skip(`no stores; run: eval "$(scripts/services up)"`)
			}
			p := draw(1, tc.broker, 1)
			p.stock, p.limit, p.begins, p.ends, p.pulls = buyers*2/3, 1, -time.Second, time.Hour, nil
			tc.change(p)
			window := 24 * time.Hour
			if p.deeds != nil {
				window = order.CloseEvery + shortly // a scan comes before each deadline
			}
			w, err := with(t, "fault").openTown(t.Context(), tc.broker, window, "FAILPOINT="+fault)
			defer func() {
				if err := w.close(); err != nil {
					t.Error(err)
				}
			}()
			if err != nil {
				t.Fatal(err)
			}
			v, _, err := w.run(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(v)
			for _, invariant := range strings.Fields(tc.invariants) {
				if !v.Broken(invariant) {
					t.Errorf("%q must break %s", fault, invariant)
				}
			}
			if fault == "none" && v.broken() {
				t.Error("nothing is wrong")
			}
		})
	}
}

// shortly is how long an unpaid order lives in tests: they wait for its end.
const shortly = 3 * time.Second

// A few cycles of the loop on each broker: kills, an emptied Redis, replies that are cut off, a database that dies while
// Redis is frozen, a gate with a false stock (B2, B5; make chaos does more). They were chosen to be short: no kill of
// RabbitMQ, which takes twenty seconds to start.
func TestChaosShort(t *testing.T) {
	if !wanted() {
		t.Skip(`no stores; run: eval "$(scripts/services up)"`)
	}
	l := with(t, "")
	block := func(broker string, numbers ...int) {
		var out strings.Builder
		var sum total
		o := options{seed: 7, out: &out, payWindow: shortly}
		if err := o.block(t.Context(), broker, numbers, l, &sum); err != nil {
			t.Errorf("%s: %v", broker, err)
		}
		t.Log("seed ", o.seed, "\n", out.String(), &sum)
		if sum.broken > 0 || sum.cycles < len(numbers) || sum.attempted < len(numbers)*200 || sum.acts < len(numbers)*200 || sum.paid == 0 || sum.used == 0 || sum.refunded == 0 || sum.closed == 0 {
			t.Errorf("%s: promises were broken, or little was tried", broker)
		}
	}
	var embedded sync.WaitGroup
	embedded.Go(func() { block(brokerSQL, 20, 31) }) // it shares nothing with the others
	block(brokerRabbit, 22, 28)
	block(brokerStream, 9, 21)
	embedded.Wait()
}

// A run that can't be done ends with a code of its own, which is not that of a broken promise.
func TestUnknownBroker(t *testing.T) {
	var out strings.Builder
	o := options{brokers: []string{"kafka"}, out: &out}
	if code := o.main(t.Context(), &out); code != 2 || !strings.Contains(out.String(), "kafka") {
		t.Errorf("%d %s", code, &out)
	}
}
