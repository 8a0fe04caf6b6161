// Package rabbit exists so that many instances share one queue: it is the queue.Broker over RabbitMQ, used in
// production mode.
//
//	Publish ─► writer ─► exchange ─► queue ─► consumer ─► handler ─► ack
//	  ▲          │                     ▲          │
//	  └─ confirm, return, nack         │          ├─ retry: published to a delay queue, then acked
//	                                   └── TTL ───┘   (where PublishAfter begins, too)
//	                                              └─ dead: kept by Options.DeadLetter, then acked
//	                                                 or parked in the dead letter queue until that works
//
// Two connections: a server that is short of memory or disk stops reading from whoever publishes, and acks must get
// through nevertheless. Each is dialled again by its own worker; a message is published on a channel that is known to
// be open or not at all, and waits for its confirm on that same channel. The client library's own recovery is not
// used: it stalls confirms when one publishes while the channel reconnects.
//
// What an error of Publish means is decided by how far the message got:
//
//	no connection, blocked, never written   → queue.ErrRefused
//	returned (no queue is bound), nacked     → queue.ErrRefused
//	written, and then anything but a confirm → unknown
//
// Each message carries a MAC over all that a consumer acts on. What comes with a wrong one, or none, never reaches a
// handler; it becomes a dead letter with the reason "forged".
package rabbit
