// Package flashsale decides who may buy.
//
// A Gate per sale answers each buyer in one atomic step: inside the window? has he a slot left? is a unit left? Then
// the unit is taken, the slot is his and the whole reservation is recorded, so that nothing that happens afterwards
// can lose it. From there the reservation is handed over to the queue; package order makes the row.
//
//	POST /sales/{id}/orders
//	  repeat?   what this process has just answered this request with
//	  Peek      what this process knows by itself: most refusals end here
//	            and a queue that is known to be down refuses: the gate only tells what the request was admitted as before
//	  id        from a leased block
//	  Admit     admitted(slot) | repeat(earlier id) | limit(order ids) | sold out | not started | ended | paused | not loaded
//	  hand over nil      → accepted
//	            refused  → tombstone row, unit back, "try again"
//	            unknown  → the unit stays; accepted if the gate is durable, else "ask again with the same key"
//
// Three counters tell one story: stock in the gate (who may still be admitted), reservations (admitted, no row yet)
// and stock in SQL (the truth). At rest the first and the last are equal.
//
// The gate is a cache of SQL plus what is in flight. It is loaded from one SQL snapshot under an epoch that SQL
// counts; an order that is settled and unknown to it (it was in flight during the load) is adopted, so a freshly
// loaded gate converges and may stand below zero meanwhile. It then shows 0.
//
// A gate that can't be trusted is not loaded. RedisGate's scripts find out by themselves, in the step that would decide:
// whether the server still holds the history of data into which the gate was loaded (a restart, a replica that took over,
// an older file or a backup has another), and whether the gate agrees with itself (stock + units held + units withdrawn
// is a sum it keeps). Whoever finds a gate not loaded loads it: one process, holding the lock of the sale's row, so that
// nothing of the sale is committed between the look at SQL and the gate. What can still be read of the old gate's pending
// reservations goes into the new one. SQL counts the loads, and a gate that has missed one is loaded anew too.
//
//	what happened                             then
//	an answer of the gate is lost             the same ids are asked once more; the second answer says what the first was
//	the server refuses or isn't reached       "busy": certainly no order
//	keys are lost or changed by a hand        the next to ask loads the gate, or the sweeper within its turn
//	the server restarts, or another takes over  the same
//	SQL can't be asked meanwhile              "busy"
//	the server is read and takes no new gate  "busy"; it is tried again after a pause
//	an id that no gate and no row knows       "unknown" while a gate is not loaded, and after one was loaded anew until
//	                                          what it may lack has left the queue, a minute at least
//	a change of terms can't be told           the sweeper tells it
//
// Two gates keep one contract (gate_test.go): MemoryGate, and RedisGate, whose scripts lie in lua/. Theirs are the same
// steps, one script a step, with concurrent buyers of a process sharing a call.
//
// A reservation that stays pending is sent again by the Sweeper. It is cancelled by nobody: only a refused hand-over
// and the writer end one without an order, both by a committed row.
package flashsale
