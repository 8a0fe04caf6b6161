// Package failpoint exists so that tests can break the product where it matters: a check that can't fail proves
// nothing. In a normal build On is the constant false and Pass does nothing, and the compiler removes both; built with
// the tag "fault", on a Unix, the environment variable FAILPOINT names the points that are on, comma separated.
//
// A seeded fault is named as it is. A place where the process dies or freezes takes what happens there and, if not the
// first, the number of the pass at which it happens: after_admit:kill, before_commit:kill:3, after_admit:stop. A
// process that froze goes on from that very line when it is sent SIGCONT.
package failpoint

// The faults. Each names what it seeds.
const (
	SkipUnique         = "skip_unique"          // the writer lets a buyer hold more orders than the limit
	AckBeforeCommit    = "ack_before_commit"    // the broker forgets a batch which the writer then loses
	ReleaseTwice       = "release_twice"        // a returned unit is given back to the gate twice
	IgnoreEnd          = "ignore_end"           // the gate admits after the sale's end
	RollbackUnknown    = "rollback_unknown"     // a hand-over without an answer is taken for refused, and its unit given back
	AcceptWithoutQueue = "accept_without_queue" // the buyer is told an order id that was never handed over
	LateMoneyKept      = "late_money_kept"      // money for an order that has ended isn't sent back
	RefundTwice        = "refund_twice"         // a refund that is done is asked for once more, under another id
	RedeemTwice        = "redeem_twice"         // a code that is used up is taken for good once more
	CloseEarly         = "close_early"          // an unpaid order is closed by the next scan, however far its deadline
	FailSome           = "fail_some"            // the writer takes every third batch row by row and refuses every tenth row, so that units return
)

// The places.
const (
	BeforeLoad    = "before_load"    // a gate is prepared from what is known, and not put in place
	AfterAdmit    = "after_admit"    // the gate has admitted, the reservation is not handed over
	BeforeStock   = "before_stock"   // a batch's rows are inserted, the stock is not lowered
	BeforeCommit  = "before_commit"  // all statements of a batch are done
	AfterCommit   = "after_commit"   // a batch is committed, the gate is not told and the message not acked
	BeforeCapture = "before_capture" // a provider's notification is kept, what it says of the payment is not applied
)
