// Package failpoint exists so that tests can break the product where it matters: a check that can't fail proves
// nothing. In a normal build On is the constant false and the compiler removes the branch; built with the tag
// "fault", the environment variable FAILPOINT names the points that are on, comma separated. A point where the process
// dies takes the number of the pass that kills after a colon: kill_before_commit:3.
package failpoint

// The points, all of them. Each names the fault it seeds.
const (
	SkipUnique         = "skip_unique"          // the writer lets a buyer hold more orders than the limit
	AckBeforeCommit    = "ack_before_commit"    // the broker forgets a batch which the writer then loses
	ReleaseTwice       = "release_twice"        // a returned unit is given back to the gate twice
	IgnoreEnd          = "ignore_end"           // the gate admits after the sale's end
	AcceptWithoutQueue = "accept_without_queue" // the buyer is told an order id that was never handed over
	FailSome           = "fail_some"            // the writer takes every third batch row by row and refuses every tenth row, so that units return

	KillBeforeStock  = "kill_before_stock"  // the process dies when a batch's rows are inserted and the stock is not yet lowered
	KillBeforeCommit = "kill_before_commit" // the process dies when all statements of a batch are done
	KillAfterCommit  = "kill_after_commit"  // the process dies when a batch is committed, before the gate is told and the message is acked
)
