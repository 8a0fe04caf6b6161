package flashsale_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/order"
)

// S4: however many reservations wait for a person, a younger one whose message was lost is sent again.
func TestDeadLettersDoNotHideWhatWasLost(t *testing.T) {
	const dead = 1100 // more than a turn looks at first
	p := newPipeline(t, 2*dead, 1)
	p.broker.OnPublish(func(func() error) error { return errors.New("connection lost") })
	for user := range id.ID(dead + 1) {
		if _, err := p.Grab(t.Context(), user+1, p.sale, key(user)); !errors.Is(err, flashsale.ErrUnknown) {
			t.Fatal(err)
		}
		p.advance(time.Millisecond)
	}
	pending, err := p.gate.Pending(t.Context(), p.sale, p.Now(), dead+1)
	if err != nil || len(pending) != dead+1 {
		t.Fatal(len(pending), err)
	}
	for _, r := range pending[:dead] {
		body, err := order.Encode([]order.Reservation{r})
		if err != nil {
			t.Fatal(err)
		}
		if err := order.KeepDeadLetter(t.Context(), p.db, order.TopicCreate, queue.Message{ID: "order-" + r.OrderID.String(), Body: body}, errors.New("refused"), p.Now()); err != nil {
			t.Fatal(err)
		}
	}
	p.broker.OnPublish(nil)
	p.advance(11 * time.Second)
	sweeper := flashsale.NewSweeper(p.Service)
	for range 2 { // the second time its pause is running
		if err := sweeper.Turn(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d, err := p.broker.Depth(t.Context(), order.TopicCreate); err != nil || d.Ready != 1 {
			t.Fatalf("%d messages (%v), want that of the reservation behind the dead letters", d.Ready, err)
		}
	}
}

// unwilling is a gate that can be read and takes nothing, as a server that has become a replica.
type unwilling struct {
	flashsale.Gate
	loads int
}

func (g *unwilling) Load(context.Context, flashsale.Snapshot) (bool, error) {
	g.loads++
	return false, errors.New("READONLY")
}

// F05, F60: a gate that can't be loaded is not tried again for every buyer: all orders of the sale are read each time.
func TestAnUnwillingGateIsNotLoadedForEveryBuyer(t *testing.T) {
	p := newPipeline(t, 5, 1)
	if err := p.gate.Unload(t.Context(), p.sale); err != nil {
		t.Fatal(err)
	}
	gate := &unwilling{Gate: p.gate}
	p.Gate = gate
	for range 2 {
		before := gate.loads
		for user := range id.ID(100) {
			if _, err := p.Grab(t.Context(), user+1, p.sale, key(user)); !errors.Is(err, flashsale.ErrBusy) {
				t.Fatal(err)
			}
		}
		if n := gate.loads - before; n != 1 {
			t.Fatalf("loaded %d times for 100 buyers", n)
		}
		p.advance(time.Second)
	}
	p.Gate = p.gate
	p.grab(t, 1, key(1))
}
