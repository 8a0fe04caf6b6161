// Package order holds the truth about every accepted order id.
//
// The gate of package flashsale admits a buyer and records a Reservation: an order that has no row yet. The
// reservation travels through a queue.Broker to the Writer, which turns it into exactly one row:
//
//	reservation ──► Writer ──► unpaid          the slot is taken, the stock in SQL is lowered, both in one transaction
//	                      └──► failed          a tombstone: no slot, no request id, a reason; the unit goes back
//
// From there it moves (moves.go has the only table of moves; docs/orders.md draws it):
//
//	unpaid ─► paid ─► used           paid and used by MarkPaid and Redeemer; Redeemer also takes a use back, for a minute
//	   │        └───► refunding ─► refunded      by MarkRefunding and MarkRefunded, which package payment calls
//	   └────► closed                 by Closer: in scans, for Checker's messages, for the buyer
//
// Each move is a conditional update and a line of history in one transaction, so that of two who want to move an order
// one wins and the other has changed nothing.
//
// The primary key arbitrates: whichever row of an id is committed first stays. A message that comes again finds the
// row and changes nothing. At most limit_per_user rows of a buyer hold a slot of a sale (UNIQUE sale, user, slot).
//
// A unit goes back to the gate only as the consequence of a committed row: the transaction that writes a tombstone,
// closes or refunds an order also writes a gate_release row, and the Releaser deletes that row when the gate has confirmed.
//
// What can go wrong, and then:
//
//	the message comes twice            the second finds the row and is acked
//	the process dies before the ack    the message comes again
//	the commit's outcome is unknown    the ids are read again before anything else
//	the database is away               the writer waits inside its batch; nothing is counted or dead-lettered for it
//	a lock is held, a deadlock         the same; the server gives up waiting before the writer gives up on the server
//	the database refuses the row       three attempts, then the message becomes a dead letter and its units stay taken
//	SQL has no stock for the unit      tombstone "sold_out", the unit goes back, counted as drift
//
// Nothing here takes a lease or a lock beyond its transaction (F29, F30): there is none that could run out while the
// work goes on, or be given back by somebody who has lost it.
package order
