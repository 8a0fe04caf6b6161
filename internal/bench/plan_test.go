package bench

import (
	"slices"
	"testing"
)

func TestPlan(t *testing.T) {
	const users, limit = 10_000, 2
	visits := plan(users, limit, 42)
	perUser := map[int]int{}
	keys := map[[2]int]bool{}
	repeats := map[repeat]int{}
	for i, v := range visits {
		perUser[v.user]++
		repeats[v.again]++
		if i > 0 && v.tick != visits[i-1].tick && v.tick != visits[i-1].tick+1 {
			t.Fatalf("tick %d after %d", v.tick, visits[i-1].tick)
		}
		for k := range v.tries {
			if at := [2]int{v.user, v.key + k}; keys[at] {
				t.Fatalf("user %d uses key %d twice", v.user, v.key+k)
			} else {
				keys[at] = true
			}
		}
	}
	bursts := 0
	for _, n := range perUser {
		if n > 4 {
			t.Fatalf("a burst of %d", n)
		}
		if n > 1 {
			bursts++
		}
	}
	if len(perUser) != users {
		t.Errorf("%d users come", len(perUser))
	}
	for name, share := range map[string][2]int{"bursts": {bursts, 500}, "same key": {repeats[sameKey], 500}, "another key": {repeats[anotherKey], 500}} {
		if share[0] < share[1]*8/10 || share[0] > share[1]*12/10 {
			t.Errorf("%s: %d, want about %d", name, share[0], share[1])
		}
	}
	if !slices.Equal(visits, plan(users, limit, 42)) || slices.Equal(visits, plan(users, limit, 43)) {
		t.Error("the plan does not follow from the seed alone")
	}
}

func TestCut(t *testing.T) {
	for _, tt := range []struct{ users, stock, limit, plain, parts int }{
		{20_000, 20_000, 1, 4, 5}, {5_000, 500, 1, 3, 6}, {20_000, 10_000, 1, 8, 11}, {100, 100, 1, 1, 2}, {1, 1, 1, 1, 1}, {3_000, 9_000, 3, 1, 2}, {500, 1, 1, 1, 3},
	} {
		visits := plan(tt.users, tt.limit, 1)
		parts := cut(visits, tt.stock, tt.limit)
		var all []visit
		plain := 0
		part := map[int]int{} // by tick
		for n, p := range parts {
			all = append(all, p.visits...)
			for i, v := range p.visits {
				if p.plain && !v.plain() {
					t.Errorf("%+v: user %d in a plain part", tt, v.user)
				}
				if i > 0 && p.visits[i-1].tick > v.tick {
					t.Errorf("%+v: part %d is out of order", tt, n)
				}
				if at, ok := part[v.tick]; ok && at != n {
					t.Errorf("%+v: a burst is torn apart", tt)
				}
				part[v.tick] = n
			}
			if p.plain {
				plain++
			}
		}
		slices.SortStableFunc(all, func(a, b visit) int { return a.tick - b.tick })
		if !slices.Equal(all, visits) {
			t.Errorf("%+v: the parts are not the plan", tt)
		}
		if len(parts) != tt.parts || plain != tt.plain {
			t.Errorf("%+v: %d parts, %d of them plain", tt, len(parts), plain)
		}
	}
}
