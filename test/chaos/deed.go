package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// payWindow is how long an unpaid order lives in the loop: so short that deadlines come while levers are pulled.
const payWindow = 5 * time.Second

// deed is what becomes of an order, once it waits for its money. It is drawn like everything else.
type deed struct {
	does    *doing
	pause   time.Duration // before he does it, from when he sees the order unpaid; or from its deadline, where atEnd
	atEnd   bool
	refunds string // how the provider will treat a wish for a refund: at once (""), slow, unknown
	copies  int    // of the provider's callback, some through the other instance: at once, and again when all is done
	then    *then  // what follows a payment
	later   time.Duration
	anew    bool // he buys again when the order is closed or refunded
}

func (d deed) String() string {
	words := []string{d.does.name}
	if d.then != nil {
		words = append(words, d.then.name)
	}
	if d.copies > 0 {
		words = append(words, fmt.Sprint(d.copies, " callbacks"))
	}
	return strings.Join(words, ", then ")
}

// doing is a way to deal with an order that waits for money.
type doing struct {
	name   string
	weight int
	ends   bool // without money, and no deadline is waited for: fit for an order that was bought anew
	brings bool // money comes by which the order can be paid
	do     func(d *dealing) error
}

// doings is the first table of actors of docs/reliability.md.
var doings = []doing{
	{name: "leave it", weight: 12, do: leave},
	{name: "give it up", weight: 12, ends: true, do: giveUp},
	{name: "pay", weight: 40, brings: true, do: payNow},
	{name: "pay unheard", weight: 7, brings: true, do: payUnheard},
	{name: "pay late", weight: 8, do: payLate},
	{name: "fail", weight: 4, do: payInVain},
	{name: "fail, then pay", weight: 5, brings: true, do: payAtTheSecondTry},
	{name: "pay twice", weight: 7, brings: true, do: payTwice},
	{name: "pay and give up", weight: 5, brings: true, do: payAndGiveUp},
}

// then is a way to deal with an order that is paid.
type then struct {
	name   string
	weight int
	do     func(d *dealing) error
}

// thens is the second table.
var thens = []then{
	{name: "refund", weight: 14, do: refundIt},
	{name: "refund twice", weight: 10, do: refundTwice},
	{name: "redeem", weight: 12, do: redeemIt},
	{name: "redeem twice", weight: 14, do: redeemTwice},
	{name: "redeem and undo", weight: 8, do: redeemAndUndo},
	{name: "redeem, undo, refund", weight: 6, do: redeemUndoRefund},
	{name: "redeem against refund", weight: 10, do: redeemAgainstRefund},
	{name: "keep", weight: 22, do: func(*dealing) error { return nil }},
}

// drawDeeds gives each key its deed, and one to the key with which its buyer buys again. It has a source of its own, so
// that the rest of the plan doesn't depend on it.
func (p *plan) drawDeeds(r *rand.Rand) {
	p.deeds = map[string]deed{}
	for _, w := range p.wishes {
		if _, drawn := p.deeds[w.key]; drawn {
			continue
		}
		p.deeds[w.key] = drawDeed(r)
		again := drawDeed(r)
		for !again.does.ends && !again.does.brings {
			again = drawDeed(r)
		}
		again.anew, again.atEnd = false, false
		p.deeds[w.key+anew] = again
	}
}

func drawDeed(r *rand.Rand) deed {
	does, next := draws(r, doings, func(d doing) int { return d.weight }), draws(r, thens, func(t then) int { return t.weight })
	d := deed{does: does, then: next, pause: between(r, 0, 2*time.Second), later: between(r, 0, time.Second), anew: r.IntN(2) == 0,
		refunds: []string{"", "", "", "slow", "unknown"}[r.IntN(5)]}
	if r.IntN(6) == 0 {
		d.atEnd, d.pause = true, between(r, -300*time.Millisecond, 300*time.Millisecond)
	}
	if r.IntN(3) == 0 {
		d.copies = 1 + r.IntN(6)
	}
	return d
}

// draws picks one of a table by weight.
func draws[T any](r *rand.Rand, table []T, weight func(T) int) *T {
	sum := 0
	for _, one := range table {
		sum += weight(one)
	}
	n := r.IntN(sum)
	for i := range table {
		if n -= weight(table[i]); n < 0 {
			return &table[i]
		}
	}
	panic("the weights are no sum of theirs")
}
