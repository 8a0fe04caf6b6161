package flashsale

import (
	"context"
	"time"

	"tandian/internal/kit/failpoint"
	"tandian/internal/kit/queue"
	"tandian/internal/order"
)

// Handover gives admitted reservations to the queue, one message at a time. Buyers who arrive while it is on its way
// travel together in the next one: with a queue that confirms from disk, one write serves them all. Several messages side
// by side would carry fewer buyers each, and cost the queue more than they save the buyers.
type Handover struct {
	Broker queue.Broker
	NewID  func() string // message ids
	Most   int           // reservations a message

	intake chan *parcel
}

type parcel struct {
	reservation order.Reservation
	done        chan error // capacity 1
}

// maxWaiting bounds the buyers between the gate and the queue; more wait before they get in.
const maxWaiting = 8192

// NewHandover returns a handover whose Run must be running for Send to get through.
func NewHandover(b queue.Broker, newID func() string, most int) *Handover {
	return &Handover{Broker: b, NewID: newID, Most: most, intake: make(chan *parcel, maxWaiting)}
}

// publishTimeout bounds one message; past it the outcome is unknown.
const publishTimeout = 30 * time.Second

// Run carries parcels until ctx ends, and then those that are already waiting.
func (h *Handover) Run(ctx context.Context) error {
	for {
		select {
		case p := <-h.intake:
			h.carry(ctx, p)
		case <-ctx.Done():
			for {
				select {
				case p := <-h.intake:
					h.carry(ctx, p)
				default:
					return nil
				}
			}
		}
	}
}

func (h *Handover) carry(ctx context.Context, first *parcel) {
	parcels := []*parcel{first}
	for waiting := true; waiting && len(parcels) < h.Most; {
		select {
		case p := <-h.intake:
			parcels = append(parcels, p)
		default:
			waiting = false
		}
	}
	rs := make([]order.Reservation, len(parcels))
	for i, p := range parcels {
		rs[i] = p.reservation
	}
	// A reservation that is on its way is not called back because the server stops.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
	defer cancel()
	err := h.publish(ctx, rs)
	for _, p := range parcels {
		p.done <- err
	}
}

func (h *Handover) publish(ctx context.Context, rs []order.Reservation) error {
	if failpoint.Every(5, failpoint.AcceptWithoutQueue) {
		return nil
	}
	body, err := order.Encode(rs)
	if err != nil {
		return err
	}
	return h.Broker.Publish(ctx, order.TopicCreate, h.NewID(), body)
}

// Send hands one reservation over and waits for the queue's answer until ctx ends. nil = it is in the queue;
// queue.ErrRefused = it certainly is not; anything else = unknown.
func (h *Handover) Send(ctx context.Context, r order.Reservation) error {
	p := &parcel{reservation: r, done: make(chan error, 1)}
	select {
	case h.intake <- p:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
