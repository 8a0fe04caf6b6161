package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// The brokers, by the names that the report uses; sql is the embedded mode's.
const (
	brokerSQL    = "sql"
	brokerRabbit = "rabbit"
	brokerStream = "stream"
)

var brokers = []string{brokerSQL, brokerRabbit, brokerStream}

// plan is everything random about a cycle. It is drawn before the cycle begins, from the seed, the broker and the
// cycle's number alone; how the processes of the machine take their turns is all that differs between two runs of it.
type plan struct {
	broker string
	cycle  int

	stock, limit int
	begins, ends time.Duration // from the start of the cycle
	wishes       []wish
	deeds        map[string]deed // by the key of the wish that the order came of
	pulls        []pull
}

// wish is what a buyer wants and how he goes about it.
type wish struct {
	buyer    int
	key      string
	at       time.Duration // he comes, from the start of the cycle
	door     int           // the instance that he turns to first
	patience time.Duration // after it he takes a request for lost, and asks again
	givesUp  bool          // he doesn't ask again when no answer comes
}

// pull is a lever pulled at an instant.
type pull struct {
	lever *lever
	app   int    // 0-based, where the lever is about an instance
	store string // where it is about a store
	at    time.Duration
	for_  time.Duration // until it is let go; 0: a moment
	n     int           // units, a variant, a number of bytes: what the lever makes of it
}

func (p pull) String() string {
	var b strings.Builder
	b.WriteString(p.lever.name)
	if p.lever.onApp || p.lever.onLine {
		fmt.Fprintf(&b, " app%d", p.app+1)
	}
	if p.lever.onLine {
		b.WriteString("–")
	} else if p.store != "" {
		b.WriteString(" ")
	}
	b.WriteString(p.store)
	if p.lever.says != nil {
		b.WriteString(" " + p.lever.says(p.n))
	}
	if p.for_ > 0 {
		fmt.Fprintf(&b, " %.1fs", p.for_.Seconds())
	}
	fmt.Fprintf(&b, " @%.1fs", p.at.Seconds())
	return b.String()
}

// target is what no two levers of a cycle may pull at.
func (p pull) target() string {
	switch {
	case p.lever.onApp:
		return fmt.Sprint("app", p.app)
	case p.store != "":
		return p.store
	}
	return p.lever.name
}

// instances is how many of them a broker allows: the embedded mode is one process.
func instances(broker string) int {
	if broker == brokerSQL {
		return 1
	}
	return 2
}

const buyers = 240 // of a town; each has at least one wish in every cycle

// draw makes the plan of a cycle.
func draw(seed uint64, broker string, cycle int) *plan {
	r := rand.New(rand.NewPCG(seed, uint64(cycle)<<8|uint64(slices.Index(brokers, broker))))
	p := &plan{broker: broker, cycle: cycle, limit: 1, begins: -time.Second, ends: 10 * time.Minute}
	span := between(r, 2500*time.Millisecond, 4*time.Second)
	p.stock = buyers*6/10 + r.IntN(buyers/2)
	if r.IntN(5) == 0 {
		p.limit = 2
	}
	if r.IntN(4) == 0 {
		p.begins = between(r, 100*time.Millisecond, span/3)
	}
	if r.IntN(4) == 0 {
		p.ends = between(r, span*2/3, span)
	}
	p.drawPulls(r, span)
	p.drawWishes(r, span)
	p.drawDeeds(rand.New(rand.NewPCG(^seed, uint64(cycle)<<8|uint64(slices.Index(brokers, broker)))))
	return p
}

// drawWishes has many buyers come around the instants at which levers are pulled: what is under way then matters.
func (p *plan) drawWishes(r *rand.Rand, span time.Duration) {
	for i := range buyers {
		w := wish{buyer: i, key: fmt.Sprintf("wish-%04d-%04d", p.cycle, i), door: r.IntN(instances(p.broker)), patience: 5 * time.Second, givesUp: r.IntN(10) == 0}
		switch r.IntN(4) {
		case 0: // stands before the door
		case 1:
			w.at = between(r, 0, span)
		default:
			w.at = max(0, p.pulls[r.IntN(len(p.pulls))].at+between(r, -200*time.Millisecond, 200*time.Millisecond))
		}
		if r.IntN(8) == 0 {
			w.patience = between(r, 20*time.Millisecond, 300*time.Millisecond)
		}
		p.wishes = append(p.wishes, w)
		switch r.IntN(8) {
		case 0: // a double click: the same key, through the other door
			w.door++
			p.wishes = append(p.wishes, w)
		case 1: // a second try of his
			w.key, w.at = w.key+"-again", between(r, 0, span)
			p.wishes = append(p.wishes, w)
		}
	}
}

// drawPulls picks one to three levers. A lever that empties a store is accompanied by none that keeps what was in there
// from being somewhere else too: the promise is about one store at a time.
func (p *plan) drawPulls(r *rand.Rand, span time.Duration) {
	taken := map[string]bool{}
	loses := false
	for wanted := 1 + r.IntN(3); wanted > 0; wanted-- {
		var able []*lever
		weight := 0
		for i := range levers {
			l := &levers[i]
			if !strings.Contains(l.brokers, p.broker) || len(p.pulls) > 0 && (l.loses && !harmless(p.pulls) || loses && !l.harmless) {
				continue
			}
			able = append(able, l)
			weight += l.weight
		}
		n := r.IntN(weight)
		i := 0
		for n >= able[i].weight {
			n -= able[i].weight
			i++
		}
		l := able[i]
		one := pull{lever: l, app: r.IntN(instances(p.broker)), at: between(r, 200*time.Millisecond, span*3/4), n: r.IntN(1000)}
		if len(l.stores) > 0 {
			one.store = l.stores[r.IntN(len(l.stores))]
			if one.store == rabbitmq && p.broker == brokerStream {
				one.store = redis
			}
		}
		if l.longest > 0 {
			one.for_ = between(r, l.longest/10, l.longest)
		}
		if taken[one.target()] {
			continue
		}
		taken[one.target()] = true
		loses = loses || l.loses
		p.pulls = append(p.pulls, one)
	}
	slices.SortFunc(p.pulls, func(a, b pull) int { return int(a.at - b.at) })
}

func harmless(pulls []pull) bool {
	return !slices.ContainsFunc(pulls, func(p pull) bool { return !p.lever.harmless })
}

// bound is how long the sale may take to come to rest once the last lever has been let go (B5).
func (p *plan) bound() time.Duration {
	if slices.ContainsFunc(p.pulls, func(p pull) bool { return !p.lever.onApp && !p.lever.onSale }) {
		return 60 * time.Second
	}
	return 30 * time.Second
}

func (p *plan) levers() string {
	all := make([]string, len(p.pulls))
	for i, one := range p.pulls {
		all[i] = one.String()
	}
	return strings.Join(all, ", ")
}

// between is uniform in [from, to), in milliseconds.
func between(r *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(r.Int64N(int64(to-from))).Truncate(time.Millisecond)
}
