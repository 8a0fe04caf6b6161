package flashsale

import (
	"sync"
	"time"

	"tandian/internal/kit/id"
)

// repeats are the requests that this process has answered with an order lately, so that a second click, or a client that
// asks again, costs no round trip (S11). Only what this process itself admitted and handed over is among them: nobody
// else refuses that any more, and so the answer stays.
type repeats struct {
	mu         sync.Mutex
	young, old map[attempt]id.ID // guarded by mu
	since      time.Time         // the first of young may have come then; guarded by mu
}

// attempt is what a buyer may ask again.
type attempt struct {
	sale, user id.ID
	key        string
}

const (
	repeatFor   = 30 * time.Second // at least; twice that at most
	mostRepeats = 1 << 15          // young ones; beyond it the old ones go early
)

// put notes an answer.
func (r *repeats) put(a attempt, orderID id.ID, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age(now)
	r.young[a] = orderID
}

// get returns what the attempt was answered with, 0 if that isn't known.
func (r *repeats) get(a attempt, now time.Time) id.ID {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.age(now)
	if orderID, ok := r.young[a]; ok {
		return orderID
	}
	return r.old[a]
}

// age drops what is too old. The caller holds mu.
func (r *repeats) age(now time.Time) {
	switch age := now.Sub(r.since); {
	case age >= 2*repeatFor:
		r.young, r.old, r.since = map[attempt]id.ID{}, nil, now
	case age >= repeatFor:
		r.young, r.old, r.since = map[attempt]id.ID{}, r.young, r.since.Add(repeatFor)
	case len(r.young) >= mostRepeats:
		r.young, r.old, r.since = map[attempt]id.ID{}, r.young, now
	}
}
