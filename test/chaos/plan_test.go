package main

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tandian/internal/order"
	"tandian/test/history"
)

// The same seed, broker and number give the same cycle; another number gives another.
func TestDrawIsRepeatable(t *testing.T) {
	for _, broker := range brokers {
		a, b, c := draw(7, broker, 3), draw(7, broker, 3), draw(7, broker, 4)
		if a.levers() != b.levers() || !slices.Equal(a.wishes, b.wishes) || !maps.Equal(a.deeds, b.deeds) || a.stock != b.stock {
			t.Errorf("%s: drawn differently: %s, %s", broker, a.levers(), b.levers())
		}
		if slices.Equal(a.wishes, c.wishes) || maps.Equal(a.deeds, c.deeds) {
			t.Errorf("%s: the next cycle is the same", broker)
		}
	}
}

// Every cycle has enough buyers and at least one lever; no two levers pull at the same; a store is emptied only while
// all others hold what they have (reliability's "one store at a time"); every lever and every actor has its turn.
func TestDrawKeepsTheRules(t *testing.T) {
	pulled, done := map[string]bool{}, map[string]bool{}
	for cycle := range 800 {
		p := draw(11, brokers[cycle%len(brokers)], cycle)
		if len(p.wishes) < 200 || len(p.pulls) < 1 || len(p.pulls) > 3 || p.stock < 1 || p.ends <= p.begins {
			t.Fatalf("%+v", p)
		}
		for _, w := range p.wishes {
			first, again := p.deeds[w.key], p.deeds[w.key+anew]
			if again.anew || !again.does.ends && !again.does.brings || len(w.key+anew) > order.MaxRequestID {
				t.Fatalf("%v, and then %v", first, again)
			}
			done[first.does.name], done[first.then.name] = true, true
		}
		targets := map[string]bool{}
		for _, one := range p.pulls {
			if targets[one.target()] || !strings.Contains(one.lever.brokers, p.broker) || one.app >= instances(p.broker) {
				t.Errorf("%s: %s", p.broker, p.levers())
			}
			targets[one.target()] = true
			if one.lever.loses && slices.ContainsFunc(p.pulls, func(other pull) bool { return other.lever != one.lever && !other.lever.harmless }) {
				t.Errorf("%s: a loss in bad company: %s", p.broker, p.levers())
			}
			if one.store == rabbitmq && p.broker != brokerRabbit {
				t.Errorf("%s: %s", p.broker, one)
			}
			pulled[p.broker+" "+one.lever.name+" "+one.store] = true
		}
	}
	if len(done) != len(doings)+len(thens) {
		t.Errorf("done were only %v", done)
	}
	for _, l := range levers {
		for _, broker := range strings.Fields(l.brokers) {
			name := broker + " " + l.name + " "
			if !slices.ContainsFunc(slices.Collect(maps.Keys(pulled)), func(s string) bool { return strings.HasPrefix(s, name) }) {
				t.Errorf("never drawn: %s", name)
			}
		}
	}
}

// A sale rests when all see the same of it for a while, and nothing is under way. It doesn't matter what was seen before
// they agreed.
func TestRest(t *testing.T) {
	type look struct {
		stock, underWay int64
		atRest, same    bool
	}
	calm := look{7, 0, true, true}
	for name, tc := range map[string]struct {
		looks []look // half of quiet apart
		rests bool
	}{
		"calm":                        {[]look{calm, calm, calm}, true},
		"not for long":                {[]look{calm, calm}, false},
		"a moment ago it changed":     {[]look{calm, calm, {8, 0, true, true}}, false},
		"they didn't agree at first":  {[]look{{7, 0, true, false}, calm, calm, calm}, true},
		"they don't agree":            {[]look{{7, 0, true, false}, {7, 0, true, false}, {7, 0, true, false}}, false},
		"money is under way":          {[]look{{7, 1, true, true}, {7, 1, true, true}, {7, 1, true, true}}, false},
		"something waits to be given": {[]look{{7, 0, false, true}, {7, 0, false, true}, {7, 0, false, true}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var s standing
			now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
			for _, l := range tc.looks {
				now = now.Add(quiet / 2)
				seen := inspection{AtRest: l.atRest, moneyUnderWay: l.underWay}
				seen.Gate.Stock = l.stock
				s = s.next(seen, l.same, now)
			}
			if s.rests(now) != tc.rests {
				t.Errorf("%+v", s)
			}
		})
	}
}

// An instance that calls itself ready must serve; one that says it isn't may refuse, and so may one for a moment.
func TestWatchFindsALiar(t *testing.T) {
	start := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	for name, tc := range map[string]struct {
		ready, served func(s float64) bool
		found         bool
	}{
		"all is well":          {func(float64) bool { return true }, func(float64) bool { return true }, false},
		"it lies":              {func(float64) bool { return true }, func(s float64) bool { return s < 2 }, true},
		"it admits":            {func(s float64) bool { return s < 3 }, func(s float64) bool { return s < 2 }, false},
		"it is late to notice": {func(s float64) bool { return s < 3 || s > 6 }, func(s float64) bool { return s < 2 || s > 6 }, false},
		"a moment's trouble":   {func(float64) bool { return true }, func(s float64) bool { return s < 2 || s > 5 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &watch{instance: &instance{name: "app1"}}
			for s := 0.0; s < 10; s += 0.25 {
				w.said = append(w.said, readiness{at(s), tc.ready(s)})
				got := answer{status: 202}
				if !tc.served(s) {
					got = answer{status: 503, code: "sale.busy"}
				}
				w.answered(history.Op{Start: at(s), End: at(s + 0.1)}, got)
			}
			if found := w.troubles(); (len(found) > 0) != tc.found {
				t.Errorf("%v", found)
			}
		})
	}
}
