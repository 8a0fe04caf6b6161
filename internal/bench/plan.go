package bench

import "math/rand/v2"

// repeat says what a visitor does once served.
type repeat uint8

const (
	once       repeat = iota
	sameKey           // asks again with the key of the first attempt
	anotherKey        // tries for one unit more
)

// visit is a stay of one user at the sale page: tries attempts, one after the
// other, with keys of their own, and perhaps one repeat.
type visit struct {
	user  int
	key   int // of the first attempt
	tries int
	again repeat
	tick  int // place in the order of arrival; visits of one tick come together
}

// Of a hundred users, burstPercent come with two to four visits at once (two
// tabs, an impatient finger), and repeatPercent try once more in peace.
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

// cut divides the visits into slices: up to four in which stock remains, one in
// which it runs out, and two after that. The slices in which it remains hold at
// least minSlice users, or are one.
func cut(visits []visit, stock, limit int) [][]visit {
	const (
		accepting = 4
		minSlice  = 2000
		margin    = 0.03 // of the stock: not every user gets his whole share in time
	)
	at := func(tick int) int { // index of the first visit of the tick or later
		for i, v := range visits {
			if v.tick >= tick {
				return i
			}
		}
		return len(visits)
	}
	users := 0
	if len(visits) > 0 {
		users = visits[len(visits)-1].tick + 1
	}
	buyers := (stock + limit - 1) / limit
	safe := users
	if users > buyers {
		safe = int(float64(buyers) * (1 - margin))
	}
	n := min(max(safe/minSlice, 1), accepting)
	var bounds []int
	for i := 1; i <= n; i++ {
		bounds = append(bounds, at(safe*i/n))
	}
	if users > buyers {
		gone := min(buyers+buyers/20+64, users)
		bounds = append(bounds, at(gone), at((gone+users)/2))
	}
	bounds = append(bounds, len(visits))
	var slices [][]visit
	from := 0
	for _, to := range bounds {
		if to > from {
			slices = append(slices, visits[from:to])
			from = to
		}
	}
	return slices
}
