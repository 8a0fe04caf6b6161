package bench

import "math/rand/v2"

// repeat says what a visitor does once served.
type repeat uint8

const (
	once       repeat = iota
	sameKey           // asks again with the key of the first attempt
	anotherKey        // tries for one unit more
)

// visit is a stay of one user at the sale page: tries attempts, one after the other, with keys of their own, and
// perhaps one repeat.
type visit struct {
	user  int
	key   int // of the first attempt
	tries int
	again repeat
	burst bool // one of several visits of this user at the same time
	tick  int  // place in the order of arrival; visits of one tick come together
}

// plain visitors just try to buy; what the others do has a price of its own.
func (v visit) plain() bool { return v.again == once && !v.burst }

// Of a hundred users, burstPercent come with two to four visits at once (two tabs, an impatient finger), and
// repeatPercent try once more in peace.
const (
	burstPercent  = 5
	repeatPercent = 10
)

// plan draws who comes when. Every user has at least one visit of limit tries.
func plan(users, limit int, seed uint64) []visit {
	r := rand.New(rand.NewPCG(seed, 0x7a_6e_64_61_6e))
	visits := make([]visit, 0, users+users/8)
	for tick, user := range r.Perm(users) {
		v := visit{user: user, tries: limit, tick: tick}
		switch draw := r.IntN(100); {
		case draw < burstPercent:
			v.burst = true
			for range 2 + r.IntN(3) {
				visits = append(visits, v)
				v.key += limit
			}
			continue
		case draw < burstPercent+repeatPercent/2:
			v.again = sameKey
		case draw < burstPercent+repeatPercent:
			v.again = anotherKey
		}
		visits = append(visits, v)
	}
	return visits
}

// part is a stretch of the plan that makes one slice.
type part struct {
	visits []visit
	plain  bool // all visitors are
}

// cut divides the visits into parts: those among whom no unit can run out, those among whom the last ones go, and those
// who come too late. The first and the third are divided into plain visitors, in up to four parts of at least minPart
// visits, and the others.
func cut(visits []visit, stock, limit int) []part {
	const (
		maxParts = 4
		minPart  = 1500
		margin   = 0.03 // of the stock: not every user gets his whole share in time
	)
	users := visits[len(visits)-1].tick + 1
	buyers := (stock + limit - 1) / limit
	safe, gone := users, users
	if users > buyers {
		safe, gone = int(float64(buyers)*(1-margin)), min(buyers+buyers/20+64, users)
	}
	var before, within, late, unrulyBefore, unrulyLate []visit
	for _, v := range visits {
		to := &within
		switch {
		case v.tick < safe && v.plain():
			to = &before
		case v.tick < safe:
			to = &unrulyBefore
		case v.tick >= gone && v.plain():
			to = &late
		case v.tick >= gone:
			to = &unrulyLate
		}
		*to = append(*to, v)
	}
	var parts []part
	add := func(list []visit, n int, plain bool) {
		for i := range n {
			if p := list[len(list)*i/n : len(list)*(i+1)/n]; len(p) > 0 {
				parts = append(parts, part{p, plain})
			}
		}
	}
	add(before, min(max(len(before)/minPart, 1), maxParts), true)
	add(unrulyBefore, 1, false)
	add(within, 1, false)
	add(late, min(max(len(late)/minPart, 1), maxParts), true)
	add(unrulyLate, 1, false)
	return parts
}
