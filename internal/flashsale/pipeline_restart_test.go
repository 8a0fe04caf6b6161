package flashsale_test

import (
	"errors"
	"testing"
	"time"

	"tandian/internal/flashsale"
	"tandian/internal/kit/id"
	"tandian/internal/kit/queue"
	"tandian/internal/order"
)

// A tombstone whose message is still queued when the process dies holds no unit after the restart.
func TestRestartBetweenTombstoneAndAck(t *testing.T) { onBoth(t, testRestartBetweenTombstoneAndAck) }

func testRestartBetweenTombstoneAndAck(t *testing.T) {
	for name, refuse := range map[string]bool{"refused, and the message came late": true, "no stock in SQL": false} {
		t.Run(name, func(t *testing.T) {
			p := newPipeline(t, 5, 1)
			var late func() error
			if refuse {
				p.broker.OnPublish(func(deliver func() error) error { late = deliver; return queue.ErrRefused })
				if _, err := p.Grab(t.Context(), 1, p.sale, "key-00000001"); !errors.Is(err, flashsale.ErrBusy) {
					t.Fatal(err)
				}
				if err := late(); err != nil {
					t.Fatal(err)
				}
			} else {
				orderID := p.grab(t, 1, "key-00000001")
				r, _, err := p.gate.Find(t.Context(), orderID)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := p.writer.Tombstone(t.Context(), *r, order.ReasonSoldOut); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.releaser.Turn(t.Context()); err != nil {
				t.Fatal(err)
			}
			p.start(t) // with the message still in the queue
			p.want(t, 5, 0, 5, 0)
			p.drain(t)
			p.want(t, 5, 0, 5, 0)
			p.grab(t, 1, "key-00000002")
			p.drain(t)
			p.want(t, 4, 0, 4, 1)
		})
	}
}

// F34: what was accepted is found after a restart, also when its sale has ended meanwhile.
func TestRestartAfterTheSaleHasEnded(t *testing.T) { onBoth(t, testRestartAfterTheSaleHasEnded) }

func testRestartAfterTheSaleHasEnded(t *testing.T) {
	p := newPipeline(t, 5, 1)
	orderID := p.grab(t, 1, "key-00000001")
	p.advance(2 * time.Hour)
	p.start(t)
	if st, _ := p.status(t, 1, orderID); st != order.Queued {
		t.Fatal(st)
	}
	p.drain(t)
	if st, _ := p.status(t, 1, orderID); st != order.Unpaid {
		t.Fatal(st)
	}
	if err := flashsale.NewSweeper(p.Service).Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if loaded, err := p.gate.Loaded(t.Context()); len(loaded) != 0 || err != nil {
		t.Fatal("a sale that is over is unloaded", loaded, err)
	}
}

func TestRestartWithABacklog(t *testing.T) { onBoth(t, testRestartWithABacklog) } // D05, F61, F62

func testRestartWithABacklog(t *testing.T) {
	p := newPipeline(t, 3, 1)
	written := p.grab(t, 1, "key-00000001")
	p.drain(t)
	queued := p.grab(t, 2, "key-00000001")
	p.start(t) // the memory gate is gone with the process
	p.want(t, 1, 1, 2, 1)
	for user, earlier := range map[id.ID]id.ID{1: written, 2: queued} {
		if again := p.grab(t, user, "key-00000001"); again != earlier {
			t.Fatal("the same key must give the same id across a restart", user, again, earlier)
		}
		if _, err := p.Grab(t.Context(), user, p.sale, "key-00000002"); !errors.Is(err, flashsale.ErrLimit) {
			t.Fatal(err)
		}
	}
	p.grab(t, 3, "key-00000001")
	p.drain(t)
	p.want(t, 0, 0, 0, 3)
}
