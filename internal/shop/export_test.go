package shop

import (
	"math/rand/v2"

	"tandian/internal/kit/id"
)

// NewPlaceBench returns a search for the first page among n places spread over a city.
func NewPlaceBench(n int, centre Location) func() int {
	random, places := rand.New(rand.NewPCG(1, 2)), make([]place, n)
	for i := range places {
		places[i] = place{id: id.ID(i + 1), at: Location{centre.Lng + random.Float64() - .5, centre.Lat + random.Float64() - .5}}
	}
	x := &placeIndex{}
	x.replace(places)
	return func() int {
		return len(x.nearest(centre, 5000, hit{0, -1}, 21, func(place) bool { return true }))
	}
}
