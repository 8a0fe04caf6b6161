package shop

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/tidwall/rtree"

	"tandian/internal/kit/id"
)

// earthRadius is the mean radius in metres.
const earthRadius = 6_371_008.8

// Metres is the great-circle distance between two points (haversine).
func Metres(a, b Location) float64 {
	lat1, lat2 := radians(a.Lat), radians(b.Lat)
	dLat, dLng := math.Sin((lat2-lat1)/2), math.Sin(radians(b.Lng-a.Lng)/2)
	h := dLat*dLat + math.Cos(lat1)*math.Cos(lat2)*dLng*dLng
	return 2 * earthRadius * math.Asin(math.Sqrt(min(h, 1)))
}

func radians(degrees float64) float64 { return degrees * math.Pi / 180 }

// place is what the index keeps of a shop: enough to filter without SQL.
type place struct {
	id       id.ID
	at       Location
	category id.ID
	name     string // lower case
}

func placeOf(s *Shop) place {
	return place{id: s.ID, at: s.Location, category: s.CategoryID, name: strings.ToLower(s.Name)}
}

func (p place) corner() [2]float64 { return [2]float64{p.at.Lng, p.at.Lat} }

// hit is a place and its distance in metres.
type hit struct {
	id     id.ID
	metres float64
}

func compareHits(a, b hit) int {
	return cmp.Or(cmp.Compare(a.metres, b.metres), cmp.Compare(a.id, b.id))
}

// placeIndex finds places outward from a point. Safe for concurrent use.
type placeIndex struct {
	mu   sync.RWMutex
	tree *rtree.RTreeGN[float64, place] // guarded by mu
	byID map[id.ID]place                // guarded by mu
}

// replace makes the index hold exactly the given places.
func (x *placeIndex) replace(places []place) {
	tree, byID := &rtree.RTreeGN[float64, place]{}, make(map[id.ID]place, len(places))
	for _, p := range places {
		tree.Insert(p.corner(), p.corner(), p)
		byID[p.id] = p
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.tree, x.byID = tree, byID
}

// put adds a place, or moves the one with its id.
func (x *placeIndex) put(p place) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old, ok := x.byID[p.id]; ok {
		x.tree.Delete(old.corner(), old.corner(), old)
	}
	x.tree.Insert(p.corner(), p.corner(), p)
	x.byID[p.id] = p
}

// loaded reports whether replace has been called.
func (x *placeIndex) loaded() bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.tree != nil
}

// nearest returns up to n places that keep accepts, no farther than radius metres and behind the hit after, ordered
// by distance and id. It walks the tree only as far as that takes.
func (x *placeIndex) nearest(from Location, radius float64, after hit, n int, keep func(place) bool) []hit {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.tree == nil {
		return nil
	}
	var found []hit
	x.tree.Nearby(func(lo, hi [2]float64, p place, item bool) float64 {
		if item {
			return Metres(from, p.at)
		}
		return boxMetres(from, lo, hi)
	}, func(_, _ [2]float64, p place, metres float64) bool {
		// Equal distances come in no order: the last of them must have been seen before the list is cut.
		if metres > radius || len(found) >= n && metres > found[len(found)-1].metres {
			return false
		}
		if h := (hit{p.id, metres}); compareHits(h, after) > 0 && keep(p) {
			found = append(found, h)
		}
		return true
	})
	slices.SortFunc(found, compareHits)
	return found[:min(n, len(found))]
}

// boxSlack keeps rounding from putting a box behind a place inside it.
const boxSlack = 1e-6

// boxMetres is a lower bound of the distance to any point in the box: exact but for boxSlack.
func boxMetres(from Location, lo, hi [2]float64) float64 {
	if from.Lng >= lo[0] && from.Lng <= hi[0] {
		clamped := min(max(from.Lat, lo[1]), hi[1])
		return Metres(from, Location{from.Lng, clamped}) - boxSlack
	}
	// The nearest point lies on the nearer of the two meridian edges, whichever way round the earth that is.
	edge := lo[0]
	if turn(hi[0]-from.Lng) < turn(lo[0]-from.Lng) {
		edge = hi[0]
	}
	nearest := min(Metres(from, Location{edge, lo[1]}), Metres(from, Location{edge, hi[1]}))
	// Along a meridian the distance has one minimum, where the great circle meets it at a right angle.
	foot := math.Atan2(math.Sin(radians(from.Lat)), math.Cos(radians(from.Lat))*math.Cos(radians(edge-from.Lng))) * 180 / math.Pi
	if foot > lo[1] && foot < hi[1] {
		nearest = min(nearest, Metres(from, Location{edge, foot}))
	}
	return nearest - boxSlack
}

// turn is the angle between two meridians, 0 to 180 degrees.
func turn(degrees float64) float64 { return math.Abs(math.Remainder(degrees, 360)) }
