package flashsale

import (
	"context"
	"errors"
	"time"

	"tandian/internal/kit/id"
	"tandian/internal/kit/money"
	"tandian/internal/order"
)

// Terms are what a gate must know of a sale. Of two with the same id the higher version is the truth.
type Terms struct {
	SaleID, VoucherID id.ID
	Version           int64
	Released          int64     // all units ever put up
	BeginsAt, EndsAt  time.Time // admitted in [BeginsAt, EndsAt)
	Paused            bool
	Limit             int           // units a buyer may hold, 1..order.MaxPerUser
	Amount            money.Fen     // the price, fixed for an order when it is admitted
	PayWindow         time.Duration // from admission to the order's deadline
}

// Snapshot is what one look at SQL says about a sale.
type Snapshot struct {
	Terms
	Epoch    int64
	Stock    int64
	Live     []order.Reservation // orders that hold a slot
	Answered []order.Reservation // ended orders whose request id still answers a repeat
	InFlight []order.Reservation // admitted, not yet written, as far as they are known
	// IncompleteSince is when the gate was lost if InFlight may lack some; zero = every admitted order is here.
	IncompleteSince time.Time
}

// Result is what the gate decided.
type Result int

const (
	NotLoaded    Result = iota // the gate knows nothing of this sale: load it and ask again
	Admitted                   // Verdict.Reservation is the buyer's
	Repeat                     // this request was admitted before: as Verdict.OrderID
	LimitReached               // the buyer holds all he may: Verdict.Orders
	SoldOut
	NotStarted
	Ended
	Paused
)

// Request is one buyer's wish.
type Request struct {
	OrderID   id.ID // drawn for this attempt; admitting the same id twice takes one unit
	UserID    id.ID
	RequestID string // the buyer's idempotency key
}

// Verdict is the gate's answer.
type Verdict struct {
	Result      Result
	OrderID     id.ID             // of Admitted and Repeat
	Reservation order.Reservation // of Admitted
	Orders      []id.ID           // of LimitReached, by slot
}

// Standing is what a gate holds.
type Standing struct {
	Loaded    bool
	Cause     Cause // why it is not loaded
	Epoch     int64
	Stock     int64 // may be below zero while in-flight units are adopted
	Pending   int64 // reservations without a row
	Orders    int64 // units held: pending and written
	Withdrawn int64 // units that are withdrawn
	Terms     Terms
	// IncompleteSince is the snapshot's.
	IncompleteSince time.Time
}

// Cause says why a gate is not loaded.
type Cause string

const (
	CauseAbsent  Cause = "absent"  // there is none
	CauseForeign Cause = "foreign" // it was loaded into another server, or into this one in an earlier life: its data may be old
	CauseDamaged Cause = "damaged" // it contradicts itself: keys were lost, or changed by another hand
)

var (
	// ErrNotLoaded means that the gate knows nothing of the sale: load it, then repeat.
	ErrNotLoaded = errors.New("flashsale: gate not loaded")
	// ErrNotDone means that the call has certainly changed nothing: the gate's server refused it or was not reached.
	ErrNotDone = errors.New("flashsale: the gate's server refused")
)

// Gate is the atomic admission decision. It is safe for concurrent use, and each call is one step: no other call of
// the same sale sees it half done. Any error but ErrNotLoaded and ErrNotDone means that the call may have been carried
// out; every call but Withdraw may be repeated, with the same arguments, without a second effect.
//
// A gate that can't be trusted is not loaded, whatever is left of it.
type Gate interface {
	// Load opens the gate of a sale in the place of whatever is left of an earlier one. It reports whether it did. What is
	// of the same epoch or a newer one is left as it is, and so is a loaded gate of the epoch before. A loaded gate that
	// is older than that has been lost and has come back, with what it knew then.
	Load(ctx context.Context, s Snapshot) (bool, error)
	// Unload forgets a sale.
	Unload(ctx context.Context, saleID id.ID) error
	// Peek answers without any round trip what this process knows to be refused. ok = false: Admit must be asked. It
	// never refuses a buyer who holds a unit or may have sent this request before.
	Peek(saleID id.ID, userID id.ID) (v Verdict, ok bool)
	// Admit decides. A request id that was admitted before is answered with its reservation, whatever the window.
	Admit(ctx context.Context, saleID id.ID, r Request) (Verdict, error)
	// Answer tells what a request was admitted as, 0 if it wasn't, and changes nothing. It returns ErrNotLoaded for an
	// unloaded sale.
	Answer(ctx context.Context, saleID, userID id.ID, requestID string) (id.ID, error)
	// Settle says that the orders have rows. Unknown ones are adopted: a unit and the slot are theirs; but not those
	// that were released before, for their end may be told sooner than their beginning. All are of one sale. It
	// returns ErrNotLoaded for an unloaded sale.
	Settle(ctx context.Context, saleID id.ID, rs []order.Reservation) error
	// Release says that an order has ended: its unit and its slot are given back if the gate holds it. forget also
	// frees its request id. It returns ErrNotLoaded for an unloaded sale.
	Release(ctx context.Context, saleID, orderID id.ID, forget bool) error
	// Change replaces the terms, unless the gate knows these or newer ones, and adds to the stock what has been
	// released since its own. It returns ErrNotLoaded for an unloaded sale.
	Change(ctx context.Context, t Terms) error
	// Withdraw takes n units out of the stock if so many are left, and reports whether it did; a negative n puts back
	// what is still withdrawn, at most -n. It is the one call that must not be repeated. It returns ErrNotLoaded for an
	// unloaded sale.
	Withdraw(ctx context.Context, saleID id.ID, n int64) (bool, error)

	// Standing reports a sale's state.
	Standing(ctx context.Context, saleID id.ID) (Standing, error)
	// Standings reports the states of several sales, in their order, as cheaply as that of one.
	Standings(ctx context.Context, saleIDs []id.ID) ([]Standing, error)
	// Loaded lists the sales that are loaded, and maybe some that were.
	Loaded(ctx context.Context) ([]id.ID, error)
	// Find returns the reservation under which an order is held and whether it has no row yet. nil means only that no
	// gate that could be read holds it.
	Find(ctx context.Context, orderID id.ID) (r *order.Reservation, pending bool, err error)
	// Waiting returns a buyer's pending reservations of the given sales, of all loaded ones if none is given, newest
	// first.
	Waiting(ctx context.Context, userID id.ID, saleIDs ...id.ID) ([]order.Reservation, error)
	// Pending returns up to limit pending reservations of a sale that were admitted before the instant, oldest first.
	Pending(ctx context.Context, saleID id.ID, before time.Time, limit int) ([]order.Reservation, error)
	// Salvage shuts what there is of a gate that isn't current, for all instances and until the next Load or Unload, and
	// returns the pending reservations that can still be read of it. So none is admitted that the next Load doesn't know of.
	Salvage(ctx context.Context, saleID id.ID) ([]order.Reservation, error)
}
