package e2e

import (
	"slices"
	"testing"
)

// S7: who watches an order on one instance sees each step of what happens to it on the other, in the order in
// which it happened; a stranger sees nothing.
func TestEventsFromTheOtherInstance(t *testing.T) {
	s := production(t).pair(t)
	operator, token := s[0].signIn(t, operatorPhone), s[0].signIn(t, shopperPhone)
	order := s[0].grabOne(t, operator, token)
	s[1].must(t, 404, "GET", "/api/v1/orders/"+order+"/events", s[1].testUsers(t, 1)[0], "")
	stream := listen(t, s[1], order, token)
	reaches := func(want string, from ...string) {
		t.Helper()
		for {
			switch got := stream.next(t); {
			case got == want:
				return
			case !slices.Contains(from, got):
				t.Fatalf("%s on the way from %v to %s", got, from, want)
			}
		}
	}
	reaches("unpaid")
	s[0].pays(t, token, order)
	reaches("paid", "unpaid")
	s[0].must(t, 202, "POST", "/api/v1/orders/"+order+"/refund", token, `{}`)
	reaches("refunded", "paid", "refunding")
	stream.end(t)
}
