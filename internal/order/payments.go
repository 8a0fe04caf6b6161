package order

import (
	"context"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
)

// Payments is what orders need to know of money. The arrow order → payment is forbidden, so payment fits itself to this.
type Payments interface {
	// WithOpen returns those of the orders that have an open attempt to be paid: hardly any of many, and only about these is
	// there anything to ask.
	WithOpen(ctx context.Context, orders []id.ID) ([]id.ID, error)
	// CloseOpen closes the open payment attempts of an order at their providers, so that they take no money any more.
	// paid = a provider says that one is paid, and that has been applied: look at the order again. An error means that a
	// provider's answer isn't known.
	CloseOpen(ctx context.Context, orderID id.ID) (paid bool, err error)
	// AskOpen asks the providers what became of the open attempts and applies the answers: a callback may be lost.
	AskOpen(ctx context.Context, orderID id.ID) error
	// Refund starts the refund of a paid order, by MarkRefunding. false = the order isn't paid (any more).
	Refund(ctx context.Context, orderID id.ID, reason string, by Actor) (bool, error)
	// Of tells what happened about an order's money; the refund is that of the order itself, nil if there is none.
	Of(ctx context.Context, orderID id.ID) ([]Attempt, *Refund, error)
}

// Attempt is an attempt to pay, as the buyer sees it.
type Attempt struct {
	ID        id.ID
	Provider  string
	Status    string // "open", "captured", "closed" or "failed"
	CreatedAt int64  // Unix ms
}

// Refund is the refund of an order, as the buyer sees it.
type Refund struct {
	Status string // "asked", "done" or "refused"
	Reason string
	Amount money.Fen
}
